//! Finds out what is slower on this machine than on others.
//!
//! Checksums: their crates ask the processor at run time for the instructions that they need, and
//! compute the same sums without them. Memory of memtables: they ask for huge pages, and take
//! ordinary ones if they get none.
//!
//! Layer: part of the real environment. Reads a file of the kernel, at the opening of a store only.

use vlsm_core::event::SlowPath;

/// Everything that is slower here.
pub(super) fn of_this_machine() -> Vec<SlowPath> {
    let all = [
        (SlowPath::WalChecksums, !has_crc32c()),
        (SlowPath::BlockChecksums, !has_wide_vectors()),
        (SlowPath::SmallPages, !offers_huge_pages()),
    ];
    all.into_iter().filter_map(|(what, slow)| slow.then_some(what)).collect()
}

#[cfg(target_arch = "x86_64")]
fn has_crc32c() -> bool {
    std::arch::is_x86_feature_detected!("sse4.2")
}

#[cfg(target_arch = "aarch64")]
fn has_crc32c() -> bool {
    std::arch::is_aarch64_feature_detected!("crc")
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn has_crc32c() -> bool {
    false
}

#[cfg(target_arch = "x86_64")]
fn has_wide_vectors() -> bool {
    std::arch::is_x86_feature_detected!("avx2")
}

/// AArch64 always has the vectors that the hash uses there.
#[cfg(not(target_arch = "x86_64"))]
fn has_wide_vectors() -> bool {
    cfg!(target_arch = "aarch64")
}

/// Whether a mapping gets huge pages if it asks for them. A system that cannot be asked is not
/// reported.
#[cfg(target_os = "linux")]
#[allow(clippy::disallowed_methods, reason = "a file of the kernel, not of a store")]
fn offers_huge_pages() -> bool {
    let setting = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    setting.map_or(true, |setting| !setting.contains("[never]"))
}

/// Elsewhere memtables do not ask.
#[cfg(not(target_os = "linux"))]
fn offers_huge_pages() -> bool {
    true
}
