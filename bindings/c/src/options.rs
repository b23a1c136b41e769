//! Options of stores, keyspaces and writes.
//!
//! A store has many options, so they are given as text, in the format of the program's option file
//! (`--options`), for example `memory_limit = "512M"`. Options that cannot be text, such as
//! callbacks, have functions of their own.

use crate::buffer::vlsm_slice;
use crate::call::{Outcome, array, call, changed, free, shared, text};
use crate::callbacks::{Filter, Operator, vlsm_compaction_filter, vlsm_merge_operator};
use crate::error::{Failure, vlsm_error};
use engine::{ByteCount, Compression, Db, Durability, KeyspaceOptions, Options, WriteOptions};
use std::ffi::c_char;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use vlsm_handle::Owned;

/// When a write returns.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum vlsm_durability {
    /// As the store's option `durability` says, which is VLSM_BUFFERED by default.
    VLSM_DEFAULT = 0,
    /// When the WAL is on the device: the write survives power loss.
    VLSM_SYNC = 1,
    /// When the operating system has the WAL: the write survives a crash of the process.
    VLSM_BUFFERED = 2,
    /// When the write is in the process's buffer of the WAL, which is written with later writes.
    VLSM_LAZY = 3,
    /// Without the WAL: the write is durable once its memtable is flushed.
    VLSM_NO_WAL = 4,
}

/// Options of one write. NULL, or zeros, mean the defaults of the store.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct vlsm_write_options {
    /// A vlsm_durability.
    pub durability: u32,
    /// The longest time, in microseconds, that the write may wait for admission. After it, the
    /// write fails with VLSM_BUSY. 0 means no limit.
    pub deadline_micros: u64,
}

/// The options of a write.
pub(crate) unsafe fn write_options(from: *const vlsm_write_options) -> Outcome<WriteOptions> {
    let mut options = WriteOptions::default();
    let Some(from) = (unsafe { from.as_ref() }) else { return Ok(options) };
    use vlsm_durability::{VLSM_BUFFERED, VLSM_DEFAULT, VLSM_LAZY, VLSM_NO_WAL, VLSM_SYNC};
    options.durability = match from.durability {
        asked if asked == VLSM_DEFAULT as u32 => None,
        asked if asked == VLSM_SYNC as u32 => Some(Durability::Sync),
        asked if asked == VLSM_BUFFERED as u32 => Some(Durability::Buffered),
        asked if asked == VLSM_LAZY as u32 => Some(Durability::Lazy),
        asked if asked == VLSM_NO_WAL as u32 => Some(Durability::NoWal),
        other => return Err(Failure::argument(format!("unknown durability {other}: use 0 to 4"))),
    };
    options.deadline =
        (from.deadline_micros > 0).then(|| Duration::from_micros(from.deadline_micros));
    Ok(options)
}

/// Everything that is needed to open a store.
#[derive(Default)]
pub(crate) struct Opening {
    pub options: Options,
    pub read_only: bool,
    pub keep_unknown: bool,
    pub operators: Vec<Arc<Operator>>,
    pub filters: Vec<(String, Arc<Filter>)>,
    pub default_keyspace: Option<KeyspaceOptions>,
}

impl Opening {
    pub(crate) fn open(&self, path: &Path) -> engine::Result<Db> {
        let mut builder = Db::builder(path)
            .options(self.options.clone())
            .read_only(self.read_only)
            .keep_unknown_operators(self.keep_unknown);
        for operator in &self.operators {
            builder = builder.merge_operator(operator.clone());
        }
        for (keyspace, filter) in &self.filters {
            builder = builder.compaction_filter(keyspace.clone(), filter.clone());
        }
        if let Some(options) = &self.default_keyspace {
            builder = builder.default_keyspace(options.clone());
        }
        builder.open()
    }
}

/// Options of a store. The caller frees them with vlsm_options_free, also after the store was
/// opened.
pub struct vlsm_options(pub(crate) Owned<Opening>);

/// Makes options with the library's defaults.
#[unsafe(no_mangle)]
pub extern "C" fn vlsm_options_new() -> *mut vlsm_options {
    Box::into_raw(Box::new(vlsm_options(Owned::new(Opening::default()))))
}

/// Frees options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_options_free(options: *mut vlsm_options) {
    unsafe { free(options) }
}

unsafe fn set(
    options: *mut vlsm_options,
    change: impl FnOnce(&mut Opening) -> Outcome,
) -> *mut vlsm_error {
    call(|| change(unsafe { changed(options, "options") }?.0.get_mut()?))
}

/// Replaces all options with those of a text in TOML; options that are not in the text get their
/// defaults. The page docs/mechanisms.md lists them. An error names the line, and then nothing is
/// changed.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_options_toml(
    options: *mut vlsm_options,
    toml: *const c_char,
) -> *mut vlsm_error {
    unsafe {
        set(options, |opening| {
            opening.options = Options::from_toml(text(toml, "the text")?)?;
            Ok(())
        })
    }
}

/// Chooses a profile by name: `steady` is the default.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_options_profile(
    options: *mut vlsm_options,
    name: *const c_char,
) -> *mut vlsm_error {
    unsafe { set(options, |opening| Ok(opening.options.set_profile(text(name, "the name")?)?)) }
}

/// Sets whether a store that does not exist is created; true by default.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_options_create_if_missing(
    options: *mut vlsm_options,
    create: bool,
) -> *mut vlsm_error {
    unsafe {
        set(options, |opening| {
            opening.options.create_if_missing = create;
            Ok(())
        })
    }
}

/// Sets whether it is an error if the store exists; false by default.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_options_error_if_exists(
    options: *mut vlsm_options,
    error: bool,
) -> *mut vlsm_error {
    unsafe {
        set(options, |opening| {
            opening.options.error_if_exists = error;
            Ok(())
        })
    }
}

/// Sets whether the store is opened read-only. To read a store that another process writes, use
/// vlsm_open_beside.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_options_read_only(
    options: *mut vlsm_options,
    read_only: bool,
) -> *mut vlsm_error {
    unsafe {
        set(options, |opening| {
            opening.read_only = read_only;
            Ok(())
        })
    }
}

/// Sets whether keyspaces may be opened without their merge operator. Their operands are kept, but
/// keys with operands cannot be read.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_options_keep_unknown_operators(
    options: *mut vlsm_options,
    keep: bool,
) -> *mut vlsm_error {
    unsafe {
        set(options, |opening| {
            opening.keep_unknown = keep;
            Ok(())
        })
    }
}

/// Registers a merge operator. The struct is copied. `destroy` is called once, when neither these
/// options nor a store needs the state any more, or at once if this call fails.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_options_merge_operator(
    options: *mut vlsm_options,
    operator: *const vlsm_merge_operator,
) -> *mut vlsm_error {
    // The operator is made first, so that its state is destroyed whatever fails.
    call(|| unsafe {
        let operator = Operator::new(*shared(operator, "the merge operator")?)?;
        changed(options, "options")?.0.get_mut()?.operators.push(Arc::new(operator));
        Ok(())
    })
}

/// Registers the compaction filter of a keyspace. Otherwise like vlsm_options_merge_operator.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_options_compaction_filter(
    options: *mut vlsm_options,
    keyspace: *const c_char,
    filter: *const vlsm_compaction_filter,
) -> *mut vlsm_error {
    call(|| unsafe {
        let filter = Filter::new(*shared(filter, "the compaction filter")?)?;
        let filter = (text(keyspace, "the keyspace")?.to_owned(), Arc::new(filter));
        changed(options, "options")?.0.get_mut()?.filters.push(filter);
        Ok(())
    })
}

/// Sets the options with which the keyspace `default` is created. They are copied.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_options_default_keyspace(
    options: *mut vlsm_options,
    keyspace: *const vlsm_keyspace_options,
) -> *mut vlsm_error {
    unsafe {
        set(options, |opening| {
            let keyspace = shared(keyspace, "the options of the keyspace")?.0.get()?;
            opening.default_keyspace = Some(keyspace.clone());
            Ok(())
        })
    }
}

/// Options of a keyspace. The caller frees them with vlsm_keyspace_options_free.
pub struct vlsm_keyspace_options(Owned<KeyspaceOptions>);

/// The options of a keyspace, or the defaults for NULL.
pub(crate) unsafe fn keyspace_options(
    from: *const vlsm_keyspace_options,
) -> Outcome<KeyspaceOptions> {
    match unsafe { from.as_ref() } {
        Some(options) => Ok(options.0.get()?.clone()),
        None => Ok(KeyspaceOptions::new()),
    }
}

/// Makes options of a keyspace, which are at first those of the store.
#[unsafe(no_mangle)]
pub extern "C" fn vlsm_keyspace_options_new() -> *mut vlsm_keyspace_options {
    Box::into_raw(Box::new(vlsm_keyspace_options(Owned::new(KeyspaceOptions::new()))))
}

/// Frees options of a keyspace.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_keyspace_options_free(options: *mut vlsm_keyspace_options) {
    unsafe { free(options) }
}

unsafe fn set_keyspace(
    options: *mut vlsm_keyspace_options,
    change: impl FnOnce(KeyspaceOptions) -> Outcome<KeyspaceOptions>,
) -> *mut vlsm_error {
    call(|| {
        let options = unsafe { changed(options, "options") }?.0.get_mut()?;
        *options = change(options.clone())?;
        Ok(())
    })
}

/// Sets the merge operator by its name: `append`, `add`, `max`, or a registered one. It cannot be
/// changed later.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_keyspace_options_merge_operator(
    options: *mut vlsm_keyspace_options,
    name: *const c_char,
) -> *mut vlsm_error {
    unsafe { set_keyspace(options, |to| Ok(to.merge_operator(text(name, "the name")?))) }
}

/// Sets the time, in microseconds, after which values expire.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_keyspace_options_ttl(
    options: *mut vlsm_keyspace_options,
    micros: u64,
) -> *mut vlsm_error {
    unsafe { set_keyspace(options, |to| Ok(to.ttl(Duration::from_micros(micros)))) }
}

/// Sets the size of a block before compression, in bytes.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_keyspace_options_block_bytes(
    options: *mut vlsm_keyspace_options,
    bytes: u64,
) -> *mut vlsm_error {
    unsafe { set_keyspace(options, |to| Ok(to.block_bytes(ByteCount(bytes)))) }
}

/// Sets the filter bits per key; 0 for no filters.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_keyspace_options_bits_per_key(
    options: *mut vlsm_keyspace_options,
    bits: u32,
) -> *mut vlsm_error {
    unsafe { set_keyspace(options, |to| Ok(to.bits_per_key(bits))) }
}

/// Sets the size of a memtable, in bytes.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_keyspace_options_memtable_bytes(
    options: *mut vlsm_keyspace_options,
    bytes: u64,
) -> *mut vlsm_error {
    unsafe { set_keyspace(options, |to| Ok(to.memtable_bytes(ByteCount(bytes)))) }
}

/// Sets the compression of all levels by its name: `none`, `lz4` or `zstd`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_keyspace_options_compression(
    options: *mut vlsm_keyspace_options,
    name: *const c_char,
) -> *mut vlsm_error {
    unsafe {
        set_keyspace(options, |to| {
            let compression = match text(name, "the compression")? {
                "none" => Compression::None,
                "lz4" => Compression::Lz4,
                "zstd" => Compression::Zstd,
                other => {
                    let what = format!("unknown compression {other:?}: use none, lz4 or zstd");
                    return Err(Failure::argument(what));
                }
            };
            Ok(to.compression([compression]))
        })
    }
}

/// Sets the keys at which the keyspace is split into regions, each with a tree of its own. They
/// cannot be changed later.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_keyspace_options_splits(
    options: *mut vlsm_keyspace_options,
    keys: *const vlsm_slice,
    count: usize,
) -> *mut vlsm_error {
    unsafe {
        set_keyspace(options, |mut to| {
            let keys: Outcome<Vec<_>> =
                array(keys, count, "the keys")?.iter().map(|key| key.bytes("a key")).collect();
            let splits = keys?.into_iter().map(engine::Bytes::copy_from_slice).collect();
            to.splits = splits;
            Ok(to)
        })
    }
}
