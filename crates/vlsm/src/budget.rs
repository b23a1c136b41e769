//! The division of `memory_limit`: arithmetic for the check of options and for the ledger. Five
//! eighths are for memtables, an eighth is for the buffers of jobs; readers and the block cache
//! share what is left (`shared/memory`).

/// The smallest limit, whatever the memtables.
pub(crate) const LIMIT_MIN: u64 = 64 << 10;

/// The share of memtables of a limit.
pub(crate) const fn memtable_share(limit: u64) -> u64 {
    limit / 8 * 5
}

/// The share of jobs' buffers of a limit.
pub(crate) const fn jobs_share(limit: u64) -> u64 {
    limit / 8
}

/// The least limit under which `bytes` of memtables work.
pub(crate) const fn least_limit(bytes: u64) -> u64 {
    let least = bytes.div_ceil(5).saturating_mul(8);
    if least > LIMIT_MIN { least } else { LIMIT_MIN }
}
