//! The wrapper around every exported function: it catches panics, and converts errors to RocksDB's
//! texts.
//!
//! `api!` generates the wrapper. A `fallible fn` has the parameter `errptr` after its own: an error
//! is stored there, and the returned value is then meaningless. Any other function has no way to
//! report an error and returns zero, NULL or false instead. Memory that C is to free comes from
//! `malloc`.

use crate::status::Failure;
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::ptr::{null, null_mut};

pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// The result of a function that has nothing to return.
pub(crate) trait Nothing {
    const NOTHING: Self;
}

macro_rules! nothing {
    ($($what:ty = $is:expr),* $(,)?) => {
        $(impl Nothing for $what { const NOTHING: Self = $is; })*
    };
}

nothing!(() = (), bool = false, u8 = 0, c_int = 0, u32 = 0, i64 = 0, u64 = 0, usize = 0);
nothing!(f64 = 0.0, f32 = 0.0, rocksdb_slice_t = rocksdb_slice_t::NONE);

impl<T> Nothing for *mut T {
    const NOTHING: Self = null_mut();
}

impl<T> Nothing for *const T {
    const NOTHING: Self = null();
}

/// A pointer and a length, by value. The bytes belong to another object.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rocksdb_slice_t {
    pub(crate) data: *const c_char,
    pub(crate) size: usize,
}

impl rocksdb_slice_t {
    pub(crate) const NONE: Self = Self { data: null(), size: 0 };

    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self { data: bytes.as_ptr().cast(), size: bytes.len() }
    }
}

/// Runs the work of a function that reports errors.
pub(crate) unsafe fn fallible<T: Nothing>(
    errptr: *mut *mut c_char,
    work: impl FnOnce() -> Outcome<T>,
) -> T {
    let failure = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(result)) => return result,
        Ok(Err(failure)) => failure,
        Err(_) => Failure::panicked(),
    };
    unsafe { set_error(errptr, &failure) };
    T::NOTHING
}

/// Stores an error for C, and replaces an earlier one, as RocksDB does.
pub(crate) unsafe fn set_error(errptr: *mut *mut c_char, failure: &Failure) {
    if let Some(place) = unsafe { errptr.as_mut() } {
        unsafe { libc::free((*place).cast()) };
        *place = text_out(&failure.text());
    }
}

/// Runs the work of a function that reports no errors.
pub(crate) fn quiet<T: Nothing>(work: impl FnOnce() -> Outcome<T>) -> T {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(result)) => result,
        _ => T::NOTHING,
    }
}

macro_rules! api {
    () => {};
    (fallible fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block $($rest:tt)*) => {
        $crate::call::api! { fallible fn $name($($arg: $ty),*) -> () $body $($rest)* }
    };
    (
        fallible fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty $body:block
        $($rest:tt)*
    ) => {
        #[unsafe(no_mangle)]
        #[allow(missing_docs)]
        pub unsafe extern "C" fn $name(
            $($arg: $ty,)*
            errptr: *mut *mut std::ffi::c_char,
        ) -> $ret {
            #[allow(unused_unsafe)]
            unsafe { $crate::call::fallible(errptr, || -> $crate::call::Outcome<$ret> { $body }) }
        }
        $crate::call::api! { $($rest)* }
    };
    (fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block $($rest:tt)*) => {
        $crate::call::api! { fn $name($($arg: $ty),*) -> () $body $($rest)* }
    };
    (fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty $body:block $($rest:tt)*) => {
        #[unsafe(no_mangle)]
        #[allow(missing_docs)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> $ret {
            #[allow(unused_unsafe)]
            unsafe { $crate::call::quiet(|| -> $crate::call::Outcome<$ret> { $body }) }
        }
        $crate::call::api! { $($rest)* }
    };
}
pub(crate) use api;

/// A handle that C owns from here on.
pub(crate) fn give<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

/// Takes a handle back and drops it.
pub(crate) unsafe fn free<T>(handle: *mut T) -> Outcome {
    if !handle.is_null() {
        drop(unsafe { Box::from_raw(handle) });
    }
    Ok(())
}

/// A handle that is only read.
pub(crate) unsafe fn shared<'a, T>(handle: *const T, what: &str) -> Outcome<&'a T> {
    unsafe { handle.as_ref() }.ok_or_else(|| Failure::argument(format!("{what} is NULL")))
}

/// A handle that is changed.
pub(crate) unsafe fn changed<'a, T>(handle: *mut T, what: &str) -> Outcome<&'a mut T> {
    unsafe { handle.as_mut() }.ok_or_else(|| Failure::argument(format!("{what} is NULL")))
}

/// The bytes of an argument.
pub(crate) unsafe fn bytes<'a>(data: *const c_char, len: usize) -> Outcome<&'a [u8]> {
    if len == 0 {
        return Ok(&[]);
    }
    if data.is_null() || isize::try_from(len).is_err() {
        return Err(Failure::argument(format!(
            "a pointer is NULL or its length, {len}, too large"
        )));
    }
    Ok(unsafe { std::slice::from_raw_parts(data.cast(), len) })
}

/// The elements of an array.
pub(crate) unsafe fn array<'a, T>(from: *const T, count: usize) -> Outcome<&'a [T]> {
    match count {
        0 => Ok(&[]),
        _ if from.is_null() => {
            Err(Failure::argument(format!("an array of {count} elements is NULL")))
        }
        _ => Ok(unsafe { std::slice::from_raw_parts(from, count) }),
    }
}

/// The number of an `int`, which must not be negative.
pub(crate) fn count(number: c_int) -> Outcome<usize> {
    usize::try_from(number).map_err(|_| Failure::argument(format!("the count is {number}")))
}

/// Keys, or values, in the form of two arrays.
pub(crate) unsafe fn byte_lists<'a>(
    data: *const *const c_char,
    lens: *const usize,
    count: usize,
) -> Outcome<Vec<&'a [u8]>> {
    let (data, lens) = unsafe { (array(data, count)?, array(lens, count)?) };
    data.iter().zip(lens).map(|(data, len)| unsafe { bytes(*data, *len) }).collect()
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
pub(crate) unsafe fn path<'a>(from: *const c_char) -> Outcome<&'a Path> {
    if from.is_null() {
        return Err(Failure::argument("the path is NULL"));
    }
    Ok(Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(from) }.to_bytes())))
}

/// A copy of bytes for C to free, with a NUL byte behind them.
pub(crate) fn bytes_out(from: &[u8]) -> *mut c_char {
    // SAFETY: the block is one byte longer than what is copied.
    unsafe {
        let to = libc::malloc(from.len() + 1).cast::<c_char>();
        if !to.is_null() {
            std::ptr::copy_nonoverlapping(from.as_ptr().cast(), to, from.len());
            *to.add(from.len()) = 0;
        }
        to
    }
}

/// A text for C to free.
pub(crate) fn text_out(from: &str) -> *mut c_char {
    bytes_out(from.replace('\0', "\\0").as_bytes())
}

/// A found value for C to free, with its length; NULL for none.
pub(crate) unsafe fn value_out(value: Option<&[u8]>, len: *mut usize) -> *mut c_char {
    if let Some(len) = unsafe { len.as_mut() } {
        *len = value.map_or(0, <[u8]>::len);
    }
    value.map_or(null_mut(), bytes_out)
}

/// An array of pointers for C to free.
pub(crate) fn pointers_out<T>(from: &[*mut T]) -> *mut *mut T {
    // SAFETY: the block has room for all of them.
    unsafe {
        let to = libc::malloc(size_of_val(from).max(1)).cast::<*mut T>();
        if !to.is_null() {
            std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len());
        }
        to
    }
}

/// A state of the program's with the function that frees it.
pub(crate) struct State {
    pub pointer: *mut c_void,
    pub destructor: Option<extern "C" fn(*mut c_void)>,
}

// c.h lets any thread call the functions that get the state.
unsafe impl Send for State {}
unsafe impl Sync for State {}

impl Drop for State {
    fn drop(&mut self) {
        if let Some(destructor) = self.destructor {
            destructor(self.pointer);
        }
    }
}

api! {
    fn rocksdb_free(pointer: *mut c_void) {
        libc::free(pointer);
        Ok(())
    }
}
