//! Opening, listing and destroying stores.
//!
//! 1. Options that vLSM cannot honour, and a folder that holds a real RocksDB store, are refused
//!    before anything is touched.
//! 2. The slots of merge operators and the compaction filters are registered, and the store opens.
//!    Read-only and secondary opens take no lock, as in RocksDB: they read beside a writing
//!    process.
//! 3. The column families that are listed are opened or made. All that exist must be listed, except
//!    to read.

use crate::bag::Bag;
use crate::call::{
    Outcome, api, array, count, free, give, path, pointers_out, quiet, shared, text, text_out,
};
use crate::filters::source_of;
use crate::operators::{Operator, Slot, free_slot, slot_of};
use crate::options::apply::{check, log, of_keyspace, of_store};
use crate::options::shapes::{Cache, Transform};
use crate::status::{Failure, Kind};
use crate::store::{
    Access, Family, Store, place, rocksdb_column_family_handle_t, rocksdb_t, store,
};
use engine::{DEFAULT_KEYSPACE, Db, Keyspace, KeyspaceOptions};
use parking_lot::{Mutex, RwLock};
use std::ffi::{c_char, c_int};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// A column family to open.
pub(crate) struct Asked {
    pub name: String,
    pub options: Bag,
    pub ttl: Option<i32>,
}

/// Refuses a folder that holds a store of RocksDB itself.
pub(crate) fn refuse_rocksdb(folder: &Path) -> Outcome {
    let Ok(names) = std::fs::read_dir(folder) else { return Ok(()) };
    let names: Vec<String> = names
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .collect();
    let has = |test: fn(&str) -> bool| names.iter().any(|name| test(name));
    let theirs = has(|name| name == "IDENTITY" || name.starts_with("OPTIONS-"));
    if theirs && has(|name| name == "CURRENT") {
        let folder = folder.display();
        return Err(Failure::argument(format!(
            "{folder} holds a RocksDB database, which this library does not read and has not \
             touched: move its data over by `vlsm import --from rocksdb {folder} NEW_FOLDER`, and \
             open NEW_FOLDER"
        )));
    }
    Ok(())
}

/// The names of the column families of a store on disk.
pub(crate) fn names_of(folder: &Path) -> Outcome<Vec<String>> {
    refuse_rocksdb(folder)?;
    let opened = Db::builder(folder).follow(true).keep_unknown_operators(true).open();
    let db = opened.map_err(|error| match error {
        engine::Error::Missing { .. } => Failure::new(Kind::Io, error),
        other => other.into(),
    })?;
    let names = db.keyspaces();
    db.close()?;
    Ok(names)
}

/// Opens a store with column families.
pub(crate) fn open(
    options: &Bag,
    folder: &Path,
    asked: &[Asked],
    access: Access,
) -> Outcome<(Arc<Store>, Vec<Arc<Family>>)> {
    check(options)?;
    asked.iter().try_for_each(|family| check(&family.options))?;
    if !asked.iter().any(|family| family.name == DEFAULT_KEYSPACE) {
        return Err(Failure::argument("Default column family not specified"));
    }
    refuse_rocksdb(folder)?;
    let slots = Slot::all();
    let mut builder = Db::builder(folder)
        .options(of_store(options))
        .follow(access != Access::Write)
        .keep_unknown_operators(true);
    for slot in &slots {
        builder = builder.merge_operator(slot.clone());
    }
    for family in asked {
        if let Some(filter) = source_of(&family.options) {
            builder = builder.compaction_filter(family.name.clone(), filter);
        }
        if family.name == DEFAULT_KEYSPACE && !folder.join("CURRENT").exists() {
            builder = builder.default_keyspace(new_keyspace(family, &slots[0]));
        }
    }
    let db = builder.open()?;
    let store = Arc::new(Store {
        db,
        access,
        manual_wal: options.flag("manual_wal_flush"),
        slots,
        families: RwLock::default(),
        next_id: AtomicU32::new(1),
        making: Mutex::default(),
        locks: crate::transaction::locks::Locks::default(),
        lock_millis: Mutex::new(1000),
        txn_lock_millis: Mutex::new(1000),
    });
    let families = open_families(&store, options, asked);
    let families = families.inspect_err(|_| {
        let _ = store.db.clone().close();
    })?;
    note(&store, options, folder);
    Ok((store, families))
}

/// Step 3.
fn open_families(store: &Arc<Store>, options: &Bag, asked: &[Asked]) -> Outcome<Vec<Arc<Family>>> {
    let there = store.db.keyspaces();
    let listed = |name: &String| asked.iter().any(|family| family.name == *name);
    let unlisted: Vec<&str> =
        there.iter().filter(|name| !listed(name)).map(String::as_str).collect();
    if store.access == Access::Write && !unlisted.is_empty() {
        let unlisted = unlisted.join(", ");
        return Err(Failure::argument(format!("Column families not opened: {unlisted}")));
    }
    let make = options.flag("create_missing_column_families") && store.access == Access::Write;
    let missing = asked.iter().find(|family| !make && !there.contains(&family.name));
    if let Some(Asked { name, .. }) = missing {
        return Err(Failure::argument(format!("Column family not found: {name}")));
    }
    // In the order of their creation, so that the numbers are those of the last open.
    let known = |name: &String| there.iter().position(|other| other == name);
    let mut order: Vec<&Asked> = asked.iter().collect();
    order.sort_by_key(|family| known(&family.name).unwrap_or(usize::MAX));
    for family in order {
        open_family(store, family, there.contains(&family.name))?;
    }
    let families = store.families.read();
    let find = |asked: &Asked| families.iter().find(|family| family.name == asked.name).cloned();
    asked
        .iter()
        .map(|asked| {
            find(asked).ok_or_else(|| Failure::argument("a column family is listed twice"))
        })
        .collect()
}

/// The options of a new keyspace. One with a time to live has no merge operator.
fn new_keyspace(family: &Asked, slot: &Slot) -> KeyspaceOptions {
    let to = of_keyspace(&family.options, KeyspaceOptions::new(), family.ttl);
    if to.ttl.is_some() { to } else { to.merge_operator(slot.name()) }
}

/// Opens a keyspace, or makes it.
fn open_family(store: &Arc<Store>, family: &Asked, there: bool) -> Outcome<Arc<Family>> {
    let keyspace = match there {
        true => store.db.keyspace(&family.name)?,
        false => make_keyspace(store, family)?,
    };
    let has = keyspace.options();
    let slot = slot_of(&store.slots, has.merge_operator.as_deref());
    if there && store.access == Access::Write {
        let wanted = of_keyspace(&family.options, has.clone(), family.ttl);
        if wanted != has {
            keyspace.set_options(wanted)?;
        }
    }
    let operator = family.options.kept::<Operator>("merge_operator");
    match &slot {
        Some(slot) => slot.fill(operator),
        None if operator.is_some() => {
            return Err(Failure::argument(format!(
                "column family {:?} has a time to live, or was not made by this library, and can \
                 have no merge operator: make another column family for the keys that are merged",
                family.name
            )));
        }
        None => {}
    }
    let prefix = family.options.kept::<Transform>("prefix_extractor");
    Ok(store.add(keyspace, prefix, slot))
}

fn make_keyspace(store: &Arc<Store>, family: &Asked) -> Outcome<Keyspace> {
    let _alone = store.making.lock();
    let names = store.db.keyspaces();
    if names.contains(&family.name) {
        return Err(Failure::argument(format!("Column family already exists: {}", family.name)));
    }
    let operator = |name: &String| store.db.keyspace(name).ok()?.options().merge_operator;
    let taken: Vec<String> = names.iter().filter_map(operator).collect();
    let slot = free_slot(&store.slots, &taken)?;
    Ok(store.db.create_keyspace(&family.name, new_keyspace(family, &slot))?)
}

/// Registers a store with the objects of its options, and logs the options without effect.
fn note(store: &Arc<Store>, options: &Bag, folder: &Path) {
    if let Some(cache) =
        options.kept::<Bag>("table").and_then(|table| table.kept::<Cache>("block_cache"))
    {
        cache.add(store);
    }
    if let Some(watched) = options.kept::<crate::properties::Watched>("statistics") {
        watched.watch(store);
    }
    if store.access == Access::Write {
        log(options, folder);
    }
}

/// Opens a store with its default column family only.
pub(crate) unsafe fn open_one(
    options: *const Bag,
    name: *const c_char,
    access: Access,
    ttl: Option<i32>,
) -> Outcome<Arc<Store>> {
    let (options, folder) = unsafe { (shared(options, "the options")?, path(name)?) };
    let main = Asked { name: DEFAULT_KEYSPACE.into(), options: options.clone(), ttl };
    Ok(open(options, folder, &[main], access)?.0)
}

/// The arguments in which C lists column families.
pub(crate) struct Listed {
    pub number: c_int,
    pub names: *const *const c_char,
    pub options: *const *const Bag,
    pub handles: *mut *mut rocksdb_column_family_handle_t,
    pub ttls: *const c_int,
}

/// Opens a store with column families, and returns their handles.
pub(crate) unsafe fn open_listed(
    options: *const Bag,
    name: *const c_char,
    listed: Listed,
    access: Access,
) -> Outcome<Arc<Store>> {
    let (options, folder) = unsafe { (shared(options, "the options")?, path(name)?) };
    let number = count(listed.number)?;
    let mut asked = Vec::with_capacity(number);
    let (names, each) = unsafe { (array(listed.names, number)?, array(listed.options, number)?) };
    for (at, (name, options)) in names.iter().zip(each).enumerate() {
        let name = unsafe { text(*name, "the name of a column family")? }.to_owned();
        let options = unsafe { shared(*options, "the options of a column family")? }.clone();
        // SAFETY: if there are times to live, there are as many as names.
        let ttl = (!listed.ttls.is_null()).then(|| unsafe { *listed.ttls.add(at) });
        asked.push(Asked { name, options, ttl });
    }
    if listed.handles.is_null() {
        return Err(Failure::argument("the place of the column families is NULL"));
    }
    let (store, families) = open(options, folder, &asked, access)?;
    for (at, family) in families.into_iter().enumerate() {
        let handle = give(rocksdb_column_family_handle_t::new(&store, family));
        // SAFETY: c.h has the caller give as many places as names.
        unsafe { listed.handles.add(at).write(handle) };
    }
    Ok(store)
}

/// Closes a store. Errors are not reported, because c.h has no parameter for them.
pub(crate) unsafe fn close(db: *mut rocksdb_t) -> Outcome {
    if let Ok(store) = unsafe { store(db) } {
        let store = store.clone();
        quiet(|| Ok(store.db.clone().close()?));
    }
    unsafe { free(db) }
}

/// Makes a column family.
pub(crate) unsafe fn create(
    store: &Arc<Store>,
    options: *const Bag,
    name: *const c_char,
    ttl: Option<i32>,
) -> Outcome<*mut rocksdb_column_family_handle_t> {
    let options = unsafe { shared(options, "the options")? }.clone();
    let name = unsafe { text(name, "the name")? }.to_owned();
    check(&options)?;
    if store.access != Access::Write {
        return Err(engine::Error::OpenedReadOnly.into());
    }
    if source_of(&options).is_some() {
        return Err(Failure::argument(
            "vLSM takes the compaction filter of a column family when the database is opened: list \
             the column family in rocksdb_open_column_families with \
             create_missing_column_families",
        ));
    }
    let family = open_family(store, &Asked { name, options, ttl }, false)?;
    Ok(give(rocksdb_column_family_handle_t::new(store, family)))
}

api! {
    fallible fn rocksdb_open(options: *const Bag, name: *const c_char) -> *mut rocksdb_t {
        Ok(give(rocksdb_t::new(open_one(options, name, Access::Write, None)?)))
    }

    fallible fn rocksdb_open_with_ttl(
        options: *const Bag,
        name: *const c_char,
        ttl: c_int,
    ) -> *mut rocksdb_t {
        Ok(give(rocksdb_t::new(open_one(options, name, Access::Write, Some(ttl))?)))
    }

    fallible fn rocksdb_open_for_read_only(
        options: *const Bag,
        name: *const c_char,
        error_if_wal_file_exists: u8,
    ) -> *mut rocksdb_t {
        let _ = error_if_wal_file_exists;
        Ok(give(rocksdb_t::new(open_one(options, name, Access::Read, None)?)))
    }

    fallible fn rocksdb_open_as_secondary(
        options: *const Bag,
        name: *const c_char,
        secondary: *const c_char,
    ) -> *mut rocksdb_t {
        let _ = secondary;
        Ok(give(rocksdb_t::new(open_one(options, name, Access::Secondary, None)?)))
    }

    fallible fn rocksdb_open_column_families(
        options: *const Bag,
        name: *const c_char,
        number: c_int,
        names: *const *const c_char,
        each: *const *const Bag,
        handles: *mut *mut rocksdb_column_family_handle_t,
    ) -> *mut rocksdb_t {
        let ttls = std::ptr::null();
        let listed = Listed { number, names, options: each, handles, ttls };
        Ok(give(rocksdb_t::new(open_listed(options, name, listed, Access::Write)?)))
    }

    fallible fn rocksdb_open_column_families_with_ttl(
        options: *const Bag,
        name: *const c_char,
        number: c_int,
        names: *const *const c_char,
        each: *const *const Bag,
        handles: *mut *mut rocksdb_column_family_handle_t,
        ttls: *const c_int,
    ) -> *mut rocksdb_t {
        let listed = Listed { number, names, options: each, handles, ttls };
        Ok(give(rocksdb_t::new(open_listed(options, name, listed, Access::Write)?)))
    }

    fallible fn rocksdb_open_for_read_only_column_families(
        options: *const Bag,
        name: *const c_char,
        number: c_int,
        names: *const *const c_char,
        each: *const *const Bag,
        handles: *mut *mut rocksdb_column_family_handle_t,
        error_if_wal_file_exists: u8,
    ) -> *mut rocksdb_t {
        let _ = error_if_wal_file_exists;
        let ttls = std::ptr::null();
        let listed = Listed { number, names, options: each, handles, ttls };
        Ok(give(rocksdb_t::new(open_listed(options, name, listed, Access::Read)?)))
    }

    fallible fn rocksdb_open_as_secondary_column_families(
        options: *const Bag,
        name: *const c_char,
        secondary: *const c_char,
        number: c_int,
        names: *const *const c_char,
        each: *const *const Bag,
        handles: *mut *mut rocksdb_column_family_handle_t,
    ) -> *mut rocksdb_t {
        let _ = secondary;
        let ttls = std::ptr::null();
        let listed = Listed { number, names, options: each, handles, ttls };
        Ok(give(rocksdb_t::new(open_listed(options, name, listed, Access::Secondary)?)))
    }

    fallible fn rocksdb_try_catch_up_with_primary(db: *mut rocksdb_t) {
        store(db)?.db.catch_up()?;
        Ok(())
    }

    fn rocksdb_close(db: *mut rocksdb_t) {
        close(db)
    }

    fallible fn rocksdb_list_column_families(
        options: *const Bag,
        name: *const c_char,
        number: *mut usize,
    ) -> *mut *mut c_char {
        let _ = options;
        let names = names_of(path(name)?)?;
        let number = number.as_mut().ok_or_else(|| Failure::argument("the count is NULL"))?;
        *number = names.len();
        let texts: Vec<*mut c_char> = names.iter().map(|name| text_out(name)).collect();
        Ok(pointers_out(&texts))
    }

    fn rocksdb_list_column_families_destroy(list: *mut *mut c_char, number: usize) {
        for name in array(list, number)? {
            libc::free((*name).cast());
        }
        libc::free(list.cast());
        Ok(())
    }

    fallible fn rocksdb_create_column_family(
        db: *mut rocksdb_t,
        options: *const Bag,
        name: *const c_char,
    ) -> *mut rocksdb_column_family_handle_t {
        create(store(db)?, options, name, None)
    }

    fallible fn rocksdb_create_column_family_with_ttl(
        db: *mut rocksdb_t,
        options: *const Bag,
        name: *const c_char,
        ttl: c_int,
    ) -> *mut rocksdb_column_family_handle_t {
        create(store(db)?, options, name, Some(ttl))
    }

    fallible fn rocksdb_create_column_families(
        db: *mut rocksdb_t,
        options: *const Bag,
        number: c_int,
        names: *const *const c_char,
        made: *mut usize,
    ) -> *mut *mut rocksdb_column_family_handle_t {
        let store = store(db)?;
        let mut handles = Vec::new();
        for name in array(names, count(number)?)? {
            match create(store, options, *name, None) {
                Ok(handle) => handles.push(handle),
                Err(failure) => {
                    handles.into_iter().try_for_each(|handle| free(handle))?;
                    return Err(failure);
                }
            }
        }
        if let Some(made) = made.as_mut() {
            *made = handles.len();
        }
        Ok(pointers_out(&handles))
    }

    fn rocksdb_create_column_families_destroy(list: *mut *mut rocksdb_column_family_handle_t) {
        libc::free(list.cast());
        Ok(())
    }

    fallible fn rocksdb_drop_column_family(
        db: *mut rocksdb_t,
        family: *mut rocksdb_column_family_handle_t,
    ) {
        let (store, family) = place(db, shared(family, "the column family")?)?;
        if family.id == 0 {
            return Err(Failure::argument("Can't drop default column family"));
        }
        store.db.drop_keyspace(&family.keyspace)?;
        store.families.write().retain(|other| other.id != family.id);
        Ok(())
    }

    fn rocksdb_get_default_column_family_handle(
        db: *mut rocksdb_t,
    ) -> *mut rocksdb_column_family_handle_t {
        let store = store(db)?;
        Ok(give(rocksdb_column_family_handle_t::new(store, store.main()?)))
    }

    fn rocksdb_column_family_handle_destroy(family: *mut rocksdb_column_family_handle_t) {
        free(family)
    }

    fn rocksdb_column_family_handle_get_id(family: *mut rocksdb_column_family_handle_t) -> u32 {
        Ok(shared(family, "the column family")?.family()?.id)
    }

    fn rocksdb_column_family_handle_get_name(
        family: *mut rocksdb_column_family_handle_t,
        len: *mut usize,
    ) -> *mut c_char {
        let name = &shared(family, "the column family")?.family()?.name;
        Ok(crate::call::value_out(Some(name.as_bytes()), len))
    }
}
