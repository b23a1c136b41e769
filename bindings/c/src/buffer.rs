//! Bytes that cross the interface: slices of the caller, bytes and lists of the library, and the
//! buffer into which callbacks write.
//!
//! A read does not copy the value. It refers to a block or a memtable, which stays in memory until
//! the caller frees the value.

use crate::call::{Outcome, bytes, call, changed};
use crate::error::vlsm_error;
use engine::Bytes;
use std::ffi::{CString, c_char};
use std::ptr::{null, null_mut};

/// Bytes that belong to the caller, or to a handle.
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

    /// A slice for C. The data of an empty slice is not NULL, which would mean an absent value.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self { data: bytes.as_ptr(), len: bytes.len() }
    }

    pub(crate) unsafe fn bytes<'a>(self, what: &str) -> Outcome<&'a [u8]> {
        unsafe { bytes(self.data, self.len, what) }
    }
}

/// Bytes that the library keeps until the caller frees them with vlsm_bytes_free. `data` is NULL if
/// there is no value, but never for an empty value.
#[repr(C)]
#[derive(Debug)]
pub struct vlsm_bytes {
    /// The first byte, or NULL.
    pub data: *const u8,
    /// The number of bytes.
    pub len: usize,
    /// For the library only.
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

/// Frees bytes and clears the struct. Bytes that are already cleared are ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_bytes_free(bytes: *mut vlsm_bytes) {
    let Some(bytes) = (unsafe { bytes.as_mut() }) else { return };
    let owner = std::mem::replace(bytes, vlsm_bytes::NONE).owner.cast::<Bytes>();
    if !owner.is_null() {
        drop(unsafe { Box::from_raw(owner) });
    }
}

/// A list of names. The caller frees it with vlsm_names_free.
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

/// The name at an index from 0, or NULL beyond the last one. It belongs to the list.
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

/// The bytes that a callback returns. The buffer belongs to the library and is valid only during
/// the call.
pub struct vlsm_buffer {
    pub(crate) bytes: Vec<u8>,
}

/// Appends to the bytes that a callback returns.
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
