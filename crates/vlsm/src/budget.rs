//! The division of `memory_limit`: arithmetic for the check of options and for the ledger.
//! Memtables get five eighths, and the buffers of jobs an eighth; readers and the block cache share
//! the rest (`shared/memory`).

/// The smallest limit for memtables of any size.
pub(crate) const LIMIT_MIN: u64 = 64 << 10;

/// The memtables' share of a limit.
pub(crate) const fn memtable_share(limit: u64) -> u64 {
    limit / 8 * 5
}

/// The share of a limit for the buffers of jobs.
pub(crate) const fn jobs_share(limit: u64) -> u64 {
    limit / 8
}

/// The least limit whose share for memtables holds `bytes`.
pub(crate) const fn least_limit(bytes: u64) -> u64 {
    let least = bytes.div_ceil(5).saturating_mul(8);
    if least > LIMIT_MIN { least } else { LIMIT_MIN }
}
