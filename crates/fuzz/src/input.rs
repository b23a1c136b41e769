//! Numbers and strings from the front of a target's input.
//!
//! Never fails: beyond the end there are zeros, so any bytes are an input.

/// The unread rest of an input.
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    /// Takes the next `len` bytes, or as many as are left.
    pub fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// A byte.
    pub fn u8(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    /// A number of two bytes.
    pub fn u16(&mut self) -> u16 {
        self.u64_of(2) as u16
    }

    /// A number of eight bytes.
    pub fn u64(&mut self) -> u64 {
        self.u64_of(8)
    }

    fn u64_of(&mut self, len: usize) -> u64 {
        let mut bytes = [0; 8];
        let taken = self.take(len);
        bytes[..taken.len()].copy_from_slice(taken);
        u64::from_le_bytes(bytes)
    }

    /// A string of bytes with its length before it.
    pub fn bytes(&mut self) -> &'a [u8] {
        let len = self.u16();
        self.take(len.into())
    }

    /// Takes all bytes that are left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }
}
