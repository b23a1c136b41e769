//! Bytes on their way in and out: slices of the caller's, bytes and lists of the library's, and the
//! buffer into which callbacks write.
//!
//! Values that are read are not copied. Each is a part of a block or of a memtable, which stays in
//! memory until the caller frees the value.

use crate::call::{Outcome, bytes, call, changed};
use crate::error::vlsm_error;
use engine::Bytes;
use std::ffi::{CString, c_char};
use std::ptr::{null, null_mut};

/// Some bytes of the caller's, or of a handle's.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct vlsm_slice {
    /// The first byte, or NULL.
    pub data: *const u8,
    /// The number of bytes.
    pub len: usize,
}

impl vlsm_slice {
    pub(crate) const NONE: Self = Self { data: null(), len: 0 };

    /// For C. Of no bytes it is no NULL, which would be an absent value.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self { data: bytes.as_ptr(), len: bytes.len() }
    }

    pub(crate) unsafe fn bytes<'a>(self, what: &str) -> Outcome<&'a [u8]> {
        unsafe { bytes(self.data, self.len, what) }
    }
}

/// Bytes that the library keeps for the caller, who frees them by vlsm_bytes_free. `data` is NULL
/// where there is no value, and never for a value of no bytes.
#[repr(C)]
#[derive(Debug)]
pub struct vlsm_bytes {
    /// The first byte, or NULL.
    pub data: *const u8,
    /// The number of bytes.
    pub len: usize,
    /// The library's.
    pub owner: *mut std::ffi::c_void,
}

impl vlsm_bytes {
    pub(crate) const NONE: Self = Self { data: null(), len: 0, owner: null_mut() };

    pub(crate) fn of(bytes: Option<Bytes>) -> Self {
        let Some(bytes) = bytes else { return Self::NONE };
        let owner = Box::new(bytes);
        let (data, len) = (owner.as_ptr(), owner.len());
        Self { data, len, owner: Box::into_raw(owner).cast() }
    }

    /// A text, with a NUL byte after its end.
    pub(crate) fn of_text(text: String) -> Self {
        let len = text.len();
        let mut bytes = text.into_bytes();
        bytes.push(0);
        Self { len, ..Self::of(Some(bytes.into())) }
    }
}

/// Frees bytes and clears the struct. Bytes that are cleared already are left alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_bytes_free(bytes: *mut vlsm_bytes) {
    let Some(bytes) = (unsafe { bytes.as_mut() }) else { return };
    let owner = std::mem::replace(bytes, vlsm_bytes::NONE).owner.cast::<Bytes>();
    if !owner.is_null() {
        drop(unsafe { Box::from_raw(owner) });
    }
}

/// A list of names. It belongs to the caller, who frees it by vlsm_names_free.
pub struct vlsm_names {
    names: Vec<CString>,
}

impl vlsm_names {
    pub(crate) fn of(names: Vec<String>) -> Self {
        Self { names: names.into_iter().filter_map(|name| CString::new(name).ok()).collect() }
    }
}

/// The number of names.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_names_count(names: *const vlsm_names) -> usize {
    unsafe { names.as_ref() }.map_or(0, |names| names.names.len())
}

/// A name, from 0 on; NULL beyond the last one. It belongs to the list.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_names_at(names: *const vlsm_names, index: usize) -> *const c_char {
    let name = unsafe { names.as_ref() }.and_then(|names| names.names.get(index));
    name.map_or(null(), |name| name.as_ptr())
}

/// Frees a list.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_names_free(names: *mut vlsm_names) {
    if !names.is_null() {
        drop(unsafe { Box::from_raw(names) });
    }
}

/// The bytes that a callback returns. It belongs to the library and lives during the call.
pub struct vlsm_buffer {
    pub(crate) bytes: Vec<u8>,
}

/// Appends bytes to what a callback returns.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_buffer_append(
    buffer: *mut vlsm_buffer,
    data: *const u8,
    len: usize,
) -> *mut vlsm_error {
    call(|| unsafe {
        let buffer = changed(buffer, "the buffer")?;
        buffer.bytes.extend_from_slice(bytes(data, len, "the data")?);
        Ok(())
    })
}
