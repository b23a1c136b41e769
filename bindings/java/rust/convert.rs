//! Arguments from Java, and results for it.
//!
//! Lengths are checked before anything is copied, because a Java array may be longer than the
//! memory that this library can allocate.

use crate::error::{Failure, Outcome};
use crate::java::java;
use engine::{ByteCount, Bytes, Compression, Durability, KeyspaceOptions, WriteOptions};
use engine::{MAX_KEY_LEN, MAX_VALUE_LEN};
use jni::JNIEnv;
use jni::objects::{JByteArray, JByteBuffer, JClass, JObjectArray};
use jni::sys::{jbyteArray, jint, jlong, jobjectArray};
use std::ffi::OsString;
use std::ops::Bound;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::time::Duration;

/// A time that was not given, like `Native.NO_TIME`.
const NO_TIME: i64 = -1;

/// The bytes of an array, whose length is at most `most`.
pub fn bytes_up_to(
    env: &mut JNIEnv<'_>,
    array: &JByteArray<'_>,
    what: &'static str,
    most: usize,
) -> Outcome<Vec<u8>> {
    if array.is_null() {
        return Err(Failure::Null(what));
    }
    let length = usize::try_from(env.get_array_length(array)?).unwrap_or(0);
    part(env, array, what, length.min(most.saturating_add(1)), most)
}

/// The first bytes of an array.
pub fn part(
    env: &mut JNIEnv<'_>,
    array: &JByteArray<'_>,
    what: &'static str,
    length: usize,
    most: usize,
) -> Outcome<Vec<u8>> {
    let mut bytes = room(what, length, most)?;
    // SAFETY: i8 and u8 have the same layout, and all their values are valid.
    let view = unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast::<i8>(), length) };
    env.get_byte_array_region(array, 0, view)?;
    Ok(bytes)
}

/// A buffer for a copy, or an error for one that would be too long.
fn room(what: &'static str, length: usize, most: usize) -> Outcome<Vec<u8>> {
    if length > most {
        return Err(Failure::argument(format!("{what} is longer than the limit of {most} bytes")));
    }
    let mut bytes = Vec::new();
    if bytes.try_reserve_exact(length).is_err() {
        return Err(Failure::argument(format!("there is no memory for {length} bytes of {what}")));
    }
    bytes.resize(length, 0);
    Ok(bytes)
}

pub fn key(env: &mut JNIEnv<'_>, array: &JByteArray<'_>) -> Outcome<Vec<u8>> {
    bytes_up_to(env, array, "the key", MAX_KEY_LEN)
}

pub fn value(env: &mut JNIEnv<'_>, array: &JByteArray<'_>) -> Outcome<Vec<u8>> {
    bytes_up_to(env, array, "the value", MAX_VALUE_LEN)
}

/// A value that may be null.
pub fn perhaps(env: &mut JNIEnv<'_>, array: &JByteArray<'_>) -> Outcome<Option<Vec<u8>>> {
    if array.is_null() { Ok(None) } else { value(env, array).map(Some) }
}

/// Several keys.
pub fn arrays(env: &mut JNIEnv<'_>, list: &JObjectArray<'_>) -> Outcome<Vec<Vec<u8>>> {
    if list.is_null() {
        return Err(Failure::Null("the list of keys"));
    }
    let mut all = Vec::new();
    for i in 0..env.get_array_length(list)? {
        let array = JByteArray::from(env.get_object_array_element(list, i)?);
        all.push(key(env, &array)?);
        env.delete_local_ref(array)?;
    }
    Ok(all)
}

/// A text that Java encoded in UTF-8.
pub fn text(env: &mut JNIEnv<'_>, array: &JByteArray<'_>, what: &'static str) -> Outcome<String> {
    let bytes = bytes_up_to(env, array, what, MAX_VALUE_LEN)?;
    String::from_utf8(bytes).map_err(|_| Failure::argument(format!("{what} is not UTF-8")))
}

/// A text that may be null.
pub fn perhaps_text(
    env: &mut JNIEnv<'_>,
    array: &JByteArray<'_>,
    what: &'static str,
) -> Outcome<Option<String>> {
    if array.is_null() { Ok(None) } else { text(env, array, what).map(Some) }
}

pub fn path(env: &mut JNIEnv<'_>, array: &JByteArray<'_>) -> Outcome<PathBuf> {
    let bytes = bytes_up_to(env, array, "the path", MAX_KEY_LEN)?;
    Ok(PathBuf::from(OsString::from_vec(bytes)))
}

/// A part of a direct buffer.
pub struct Direct<'a, 'local> {
    pub buffer: &'a JByteBuffer<'local>,
    pub at: jint,
    pub length: jint,
}

impl Direct<'_, '_> {
    /// Its address and its length.
    fn place(&self, env: &JNIEnv<'_>) -> Outcome<(*mut u8, usize)> {
        if self.buffer.is_null() {
            return Err(Failure::Null("a buffer"));
        }
        let at = usize::try_from(self.at).unwrap_or(usize::MAX);
        let length = usize::try_from(self.length).unwrap_or(usize::MAX);
        let end = at.checked_add(length);
        if end.is_none_or(|end| end > i32::MAX as usize) {
            return Err(Failure::argument("a buffer with a negative position or length"));
        }
        let capacity = env.get_direct_buffer_capacity(self.buffer)?;
        if at + length > capacity {
            return Err(Failure::argument("a position behind the end of its buffer"));
        }
        if length == 0 {
            return Ok((std::ptr::null_mut(), 0));
        }
        // SAFETY: within the buffer.
        Ok((unsafe { env.get_direct_buffer_address(self.buffer)?.add(at) }, length))
    }

    /// A copy: other threads may write into the buffer, so no reference to it is made.
    pub fn copy(&self, env: &JNIEnv<'_>, what: &'static str, most: usize) -> Outcome<Vec<u8>> {
        let (from, length) = self.place(env)?;
        let mut bytes = room(what, length, most)?;
        if length > 0 {
            // SAFETY: the buffer is an argument of the call, so it is there until that returns.
            unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), length) };
        }
        Ok(bytes)
    }

    /// Copies a value into it, if it is long enough.
    pub fn fill(&self, env: &JNIEnv<'_>, value: &[u8]) -> Outcome<()> {
        let (to, length) = self.place(env)?;
        if !value.is_empty() && value.len() <= length {
            // SAFETY: as in `copy`.
            unsafe { std::ptr::copy_nonoverlapping(value.as_ptr(), to, value.len()) };
        }
        Ok(())
    }
}

/// The ends of a range: the lowest bit of `ends` includes `lo`, the next one `hi`.
pub fn range(
    env: &mut JNIEnv<'_>,
    lo: &JByteArray<'_>,
    hi: &JByteArray<'_>,
    ends: jint,
) -> Outcome<(Bound<Bytes>, Bound<Bytes>)> {
    // An end need not be a valid key, because it is only compared.
    let mut end = |array: &JByteArray<'_>, what| match array.is_null() {
        true => Ok(None),
        false => bytes_up_to(env, array, what, MAX_KEY_LEN + 1).map(Some),
    };
    let (lo, hi) = (end(lo, "the start of the range")?, end(hi, "the end of the range")?);
    Ok((bound(lo, ends & 1 != 0), bound(hi, ends & 2 != 0)))
}

pub fn bound(end: Option<Vec<u8>>, included: bool) -> Bound<Bytes> {
    match (end.map(Bytes::from), included) {
        (None, _) => Bound::Unbounded,
        (Some(end), true) => Bound::Included(end),
        (Some(end), false) => Bound::Excluded(end),
    }
}

pub fn time(nanos: jlong) -> Option<Duration> {
    u64::try_from(nanos).ok().filter(|_| nanos != NO_TIME).map(Duration::from_nanos)
}

pub fn write_options(durability: jint, deadline: jlong) -> WriteOptions {
    let mut options = WriteOptions::default();
    options.durability = match durability {
        0 => Some(Durability::Sync),
        1 => Some(Durability::Buffered),
        2 => Some(Durability::Lazy),
        3 => Some(Durability::NoWal),
        _ => None,
    };
    options.deadline = time(deadline);
    options
}

/// The options of a keyspace, as Java passes them. A negative number means that the option was not
/// set.
pub struct Asked<'a, 'local> {
    pub operator: &'a JByteArray<'local>,
    pub ttl: jlong,
    pub compression: jint,
    pub block_bytes: jlong,
    pub bits_per_key: jint,
    pub memtable_bytes: jlong,
    pub splits: &'a JObjectArray<'local>,
}

impl Asked<'_, '_> {
    pub fn options(&self, env: &mut JNIEnv<'_>) -> Outcome<KeyspaceOptions> {
        let count = |number: jlong| u64::try_from(number).ok().map(ByteCount);
        let mut options = KeyspaceOptions::new();
        options.merge_operator =
            perhaps_text(env, self.operator, "the name of the merge operator")?;
        options.ttl = time(self.ttl);
        options.compression = match self.compression {
            0 => Some(vec![Compression::None]),
            1 => Some(vec![Compression::Lz4]),
            2 => Some(vec![Compression::Zstd]),
            _ => None,
        };
        options.block_bytes = count(self.block_bytes);
        options.bits_per_key = u32::try_from(self.bits_per_key).ok();
        options.memtable_bytes = count(self.memtable_bytes);
        options.splits = arrays(env, self.splits)?.into_iter().map(Bytes::from).collect();
        Ok(options)
    }
}

/// An array of Java, or null.
pub fn give(env: &mut JNIEnv<'_>, found: Option<&[u8]>) -> Outcome<jbyteArray> {
    match found {
        Some(bytes) => Ok(env.byte_array_from_slice(bytes)?.into_raw()),
        None => Ok(std::ptr::null_mut()),
    }
}

/// An array of arrays, null for each that is absent.
pub fn give_all(env: &mut JNIEnv<'_>, found: &[Option<Bytes>]) -> Outcome<jobjectArray> {
    let length = jint::try_from(found.len()).expect("as many as there were keys in an array");
    let class: &JClass<'_> = java().bytes.as_obj().into();
    let all = env.new_object_array(length, class, jni::objects::JObject::null())?;
    for (i, bytes) in (0..).zip(found) {
        if let Some(bytes) = bytes {
            let array = env.byte_array_from_slice(bytes)?;
            env.set_object_array_element(&all, i, &array)?;
            env.delete_local_ref(array)?;
        }
    }
    Ok(all.into_raw())
}
