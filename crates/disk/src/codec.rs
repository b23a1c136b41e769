//! The encoding of numbers and byte strings in the payloads of the WAL and the manifest.
//!
//! Numbers are little endian; variable numbers are LEB128, at most ten bytes. A byte string is its
//! length and its bytes. A reader checks every length against the rest of the input, so no damaged
//! or crafted input can make it panic or allocate too much.

use bytes::Bytes;

/// Appends a number, seven bits a byte, low bits first.
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a length and the bytes.
#[inline]
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// The error of a reader: the bytes do not hold the expected item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

/// Reads from the front of a slice.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads `bytes` from its start.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Whether everything is read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Number of bytes not read yet.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// The next `len` bytes.
    ///
    /// # Errors
    /// There are fewer. The other reads fail likewise.
    #[inline]
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(Malformed("ends too early"))?;
        self.rest = rest;
        Ok(taken)
    }

    /// One byte.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.take(1)?[0])
    }

    /// A number of four bytes.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        let bytes = self.take(4)?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// A number of eight bytes.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        let low = u64::from(self.u32()?);
        Ok(u64::from(self.u32()?) << 32 | low)
    }

    /// A variable number.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed("a number is longer than 64 bits"))
    }

    /// A byte string.
    #[inline]
    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.varint()?;
        let len = usize::try_from(len).map_err(|_| Malformed("a length is impossible"))?;
        self.take(len)
    }

    /// A byte string, copied.
    pub fn owned(&mut self) -> Result<Bytes, Malformed> {
        self.bytes().map(Bytes::copy_from_slice)
    }

    /// A number of items, each of at least one byte. It is at most the rest of the input, so it is
    /// safe to allocate for.
    pub fn count(&mut self) -> Result<usize, Malformed> {
        let count = self.varint()?;
        match usize::try_from(count) {
            Ok(count) if count <= self.rest.len() => Ok(count),
            _ => Err(Malformed("a count is impossible")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        let numbers = [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX];
        let mut out = Vec::new();
        for number in numbers {
            put_varint(&mut out, number);
        }
        put_bytes(&mut out, b"key");
        out.extend_from_slice(&0x0102_0304_0506_0708_u64.to_le_bytes());
        let mut reader = Reader::new(&out);
        for number in numbers {
            assert_eq!(reader.varint(), Ok(number));
        }
        assert_eq!(reader.bytes(), Ok(&b"key"[..]));
        assert_eq!(reader.u64(), Ok(0x0102_0304_0506_0708));
        assert!(reader.is_empty());
    }

    #[test]
    fn impossible_input_is_refused() {
        assert!(Reader::new(&[0xff; 10]).varint().is_err());
        assert!(Reader::new(&[0x80; 11]).varint().is_err());
        assert!(Reader::new(&[0x80]).varint().is_err());
        assert!(Reader::new(&[200, 1, 0]).bytes().is_err());
        assert!(Reader::new(&[0xff, 0xff, 0xff, 0xff, 0x0f]).count().is_err());
        assert!(Reader::new(&[]).u32().is_err());
    }
}
