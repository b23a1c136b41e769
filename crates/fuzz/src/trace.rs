//! Traces: chunks with their checksums put right.
//!
//! The input has the version, the payloads and what they and the end say of themselves; the frame
//! is made from docs/format.md around them.

use crate::input::Input;
use std::path::Path;
use std::sync::Arc;
use vlsm::Error;
use vlsm::trace::TraceReader;
use vlsm_testfs::MemFile;

/// Appends a chunk.
fn chunk(file: &mut Vec<u8>, count: u8, payload: &[u8]) {
    let offset = (file.len() as u64).to_le_bytes();
    let mut head = (payload.len() as u32).to_le_bytes().to_vec();
    head.extend_from_slice(&u32::from(count).to_le_bytes());
    let sum =
        [&offset[..], &head, payload].iter().fold(0, |sum, part| crc32c::crc32c_append(sum, part));
    file.extend_from_slice(&head);
    file.extend_from_slice(&sum.to_le_bytes());
    file.extend_from_slice(payload);
}

/// A trace is read to its end, or to an error.
pub fn file(bytes: &[u8]) -> bool {
    let mut input = Input(bytes);
    let (chunks, version, total) = (input.u8(), input.u8(), input.u8());
    let mut file = b"vLSM-trc".to_vec();
    file.extend_from_slice(&u32::from(version).to_le_bytes());
    file.extend_from_slice(&[7; 8]);
    let sum = crc32c::crc32c(&file);
    file.extend_from_slice(&sum.to_le_bytes());
    for _ in 0..chunks {
        let count = input.u8();
        let payload = input.bytes();
        chunk(&mut file, count, payload);
    }
    chunk(&mut file, 0, &u64::from(total).to_le_bytes());
    file.extend_from_slice(input.rest());
    let len = file.len();
    let known = |error: Error| {
        let known = matches!(error, Error::Corruption { .. } | Error::FormatVersion { .. });
        assert!(known, "a damaged trace is answered with {error:?}");
    };
    let reader = match TraceReader::new(Arc::new(MemFile(file)), Path::new("/trace")) {
        Ok(reader) => reader,
        Err(error) => {
            known(error);
            return false;
        }
    };
    let mut count = 0;
    for op in reader {
        match op {
            Ok(_) => count += 1,
            Err(error) => {
                known(error);
                return false;
            }
        }
    }
    assert!(count * 4 <= len, "an operation has four bytes at least");
    count == usize::from(total)
}
