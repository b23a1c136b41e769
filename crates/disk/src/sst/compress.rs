//! Compresses the blocks of a file, one after the other.
//!
//! The tables and buffers that an algorithm works with are kept from block to block, not allocated
//! and freed for each one. The compressed bytes depend on the block only, not on those before.

use super::format::{BLOCK_TRAILER_LEN, Compression, expansion_max};
use lz4_flex::block::{CompressTable, compress_into, compress_into_with_table};

/// Blocks of fewer bytes are compressed with the small table.
const SMALL: usize = u16::MAX as usize;

/// The tables and buffers that are kept between blocks.
#[derive(Default)]
pub(super) struct Compressor {
    /// The table for small blocks.
    table: Option<CompressTable>,
    #[cfg(feature = "zstd")]
    zstd: Option<zstd::bulk::Compressor<'static>>,
    /// It is as long as any block has needed.
    out: Vec<u8>,
}

impl Compressor {
    /// Compresses a block's payload: its raw length, the compressed bytes, and room for a trailer.
    /// None if compression saves less than an eighth, or so much that a reader would refuse the
    /// block.
    pub(super) fn compress(&mut self, compression: Compression, raw: &[u8]) -> Option<&mut [u8]> {
        let bound = match compression {
            Compression::None => return None,
            Compression::Lz4 => lz4_flex::block::get_maximum_output_size(raw.len()),
            #[cfg(feature = "zstd")]
            Compression::Zstd => zstd::zstd_safe::compress_bound(raw.len()),
            #[cfg(not(feature = "zstd"))]
            Compression::Zstd => return None,
        };
        if self.out.len() < 4 + bound + BLOCK_TRAILER_LEN {
            self.out.resize(4 + bound + BLOCK_TRAILER_LEN, 0);
        }
        let packed = &mut self.out[4..4 + bound];
        let len = match compression {
            #[cfg(feature = "zstd")]
            Compression::Zstd => {
                if self.zstd.is_none() {
                    self.zstd = Some(zstd::bulk::Compressor::new(3).ok()?);
                }
                self.zstd.as_mut()?.compress_to_buffer(raw, packed).ok()?
            }
            _ if raw.len() < SMALL => {
                let table = self.table.get_or_insert_with(CompressTable::small);
                compress_into_with_table(raw, packed, table).ok()?
            }
            _ => compress_into(raw, packed).ok()?,
        };
        self.out[..4].copy_from_slice(&u32::try_from(raw.len()).ok()?.to_le_bytes());
        let stored = 4 + len;
        let pays = stored + raw.len() / 8 <= raw.len() && raw.len() <= expansion_max(stored);
        pays.then(|| &mut self.out[..stored + BLOCK_TRAILER_LEN])
    }
}

#[cfg(test)]
mod tests {
    use super::super::format::decompress;
    use super::*;

    fn algorithms() -> impl Iterator<Item = Compression> {
        let all = [Compression::Lz4, Compression::Zstd];
        all.into_iter().filter(|one| cfg!(feature = "zstd") || *one == Compression::Lz4)
    }

    /// `len` bytes, of which one in `every` is hard to guess.
    fn block(seed: u64, len: usize, every: usize) -> Vec<u8> {
        let scatter = |n: u64| (n ^ (n >> 29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hard = |n: usize| scatter(scatter(n as u64 + seed)) >> 56;
        (0..len).map(|n| if n % every == 0 { hard(n) as u8 } else { seed as u8 }).collect()
    }

    #[test]
    fn a_block_is_stored_the_same_whatever_came_before() {
        for compression in algorithms() {
            let mut kept = Compressor::default();
            for (seed, len) in
                [(1, 4000), (2, 100), (3, 70_000), (4, 4096), (5, 65_534), (6, 65_535), (7, 4000)]
            {
                let raw = block(seed, len, 20);
                let stored = kept.compress(compression, &raw).expect("shrinks").to_vec();
                let mut anew = Compressor::default();
                let alone = anew.compress(compression, &raw).expect("shrinks");
                let payload = stored.len() - BLOCK_TRAILER_LEN;
                assert_eq!(stored[..payload], alone[..payload]);
                if compression == Compression::Lz4 {
                    let usual = lz4_flex::block::compress(&raw);
                    assert_eq!(stored[4..payload], usual, "as without a table that is kept");
                }
                let mut back = Vec::new();
                decompress(compression, &stored[..payload], &mut back).expect("sound");
                assert_eq!(back, raw);
            }
        }
    }

    #[test]
    fn what_does_not_pay_is_refused() {
        for compression in algorithms() {
            let mut compressor = Compressor::default();
            assert!(compressor.compress(compression, &block(1, 4000, 1)).is_none(), "no gain");
            assert!(compressor.compress(compression, &block(1, 4000, 20)).is_some());
            // LZ4 never shrinks so much that a reader would refuse it.
            let refused = compressor.compress(compression, &vec![0; 8 << 20]).is_none();
            assert_eq!(refused, compression == Compression::Zstd);
        }
        assert!(Compressor::default().compress(Compression::None, &[0; 4000]).is_none());
    }
}
