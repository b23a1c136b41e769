//! The wrapper around every exported function: it checks arguments, catches panics and returns
//! results.
//!
//! A handle is refused in a process that was forked from the one that made it (`vlsm_handle`).

use crate::error::{Failure, vlsm_code, vlsm_error};
use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::ptr::null_mut;

pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// Frees a handle. In a forked process the object behind it is left alone.
pub(crate) unsafe fn free<H>(handle: *mut H) {
    if !handle.is_null() {
        // C code could do nothing about a panic of a destructor, so it is ignored.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(unsafe { Box::from_raw(handle) })));
    }
}

/// Runs the work of a function.
pub(crate) fn call(work: impl FnOnce() -> Outcome) -> *mut vlsm_error {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => null_mut(),
        Ok(Err(failure)) => failure.into_handle(),
        Err(_) => {
            let what =
                "internal error (please report it): the library panicked; stderr has the place";
            Failure::Own(vlsm_code::VLSM_INTERNAL, what.into()).into_handle()
        }
    }
}

/// Like [`call`], for a function that returns its result through a pointer.
pub(crate) unsafe fn give<T>(
    to: *mut *mut T,
    work: impl FnOnce() -> Outcome<T>,
) -> *mut vlsm_error {
    call(|| {
        let to = unsafe { out(to)? };
        *to = null_mut();
        *to = Box::into_raw(Box::new(work()?));
        Ok(())
    })
}

/// A handle that is only read.
pub(crate) unsafe fn shared<'a, T>(handle: *const T, what: &str) -> Outcome<&'a T> {
    unsafe { handle.as_ref() }.ok_or_else(|| Failure::argument(format!("{what} is NULL")))
}

/// A handle that is changed.
pub(crate) unsafe fn changed<'a, T>(handle: *mut T, what: &str) -> Outcome<&'a mut T> {
    unsafe { handle.as_mut() }.ok_or_else(|| Failure::argument(format!("{what} is NULL")))
}

/// The place for a result.
pub(crate) unsafe fn out<'a, T>(to: *mut T) -> Outcome<&'a mut T> {
    unsafe { to.as_mut() }.ok_or_else(|| Failure::argument("the pointer to the result is NULL"))
}

/// The bytes of an argument.
pub(crate) unsafe fn bytes<'a>(data: *const u8, len: usize, what: &str) -> Outcome<&'a [u8]> {
    if len == 0 {
        return Ok(&[]);
    }
    if data.is_null() {
        return Err(Failure::argument(format!("{what} is NULL and its length is {len}, not 0")));
    }
    if isize::try_from(len).is_err() {
        return Err(Failure::argument(format!(
            "the length of {what} is {len}: no memory is so large"
        )));
    }
    Ok(unsafe { std::slice::from_raw_parts(data, len) })
}

/// The bytes of a key and of its value.
pub(crate) unsafe fn pair<'a>(
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
) -> Outcome<(&'a [u8], &'a [u8])> {
    unsafe { Ok((bytes(key, key_len, "the key")?, bytes(value, value_len, "the value")?)) }
}

/// The elements of an array.
pub(crate) unsafe fn array<'a, T>(from: *const T, count: usize, what: &str) -> Outcome<&'a [T]> {
    let fits =
        count.checked_mul(size_of::<T>().max(1)).is_some_and(|len| isize::try_from(len).is_ok());
    match count {
        0 => Ok(&[]),
        _ if from.is_null() => {
            Err(Failure::argument(format!("{what} is NULL, of {count} elements")))
        }
        _ if !fits => Err(Failure::argument(format!("{count} elements of {what} are too many"))),
        _ => Ok(unsafe { std::slice::from_raw_parts(from, count) }),
    }
}

/// A name.
pub(crate) unsafe fn text<'a>(from: *const c_char, what: &str) -> Outcome<&'a str> {
    if from.is_null() {
        return Err(Failure::argument(format!("{what} is NULL")));
    }
    let text = unsafe { CStr::from_ptr(from) };
    text.to_str().map_err(|_| Failure::argument(format!("{what} is not UTF-8")))
}

/// A path.
pub(crate) unsafe fn path<'a>(from: *const c_char, what: &str) -> Outcome<&'a Path> {
    if from.is_null() {
        return Err(Failure::argument(format!("{what} is NULL")));
    }
    let bytes = unsafe { CStr::from_ptr(from) }.to_bytes();
    Ok(Path::new(OsStr::from_bytes(bytes)))
}
