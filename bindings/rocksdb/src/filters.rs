//! Compaction filters of the program, alone or from a factory.
//!
//! vLSM calls them when a flush or a compaction rewrites the newest value of a key that no snapshot
//! holds. It takes the filter of a column family when the store is opened. RocksDB's factories make
//! a filter for each compaction, which is used on one thread. Here a filter of a factory is used
//! for one value after the other, on one thread at a time, and destroyed when the store is closed.

use crate::bag::Bag;
use crate::call::{State, api, changed, free, give};
use crate::operators::{Name, name_of};
use engine::{CompactionFilter, Decision};
use parking_lot::Mutex;
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

type Filter = extern "C" fn(
    *mut c_void,
    c_int,
    *const c_char,
    usize,
    *const c_char,
    usize,
    *mut *mut c_char,
    *mut usize,
    *mut u8,
) -> u8;
type Create = extern "C" fn(
    *mut c_void,
    *mut rocksdb_compactionfiltercontext_t,
) -> *mut rocksdb_compactionfilter_t;

/// A filter of the program.
pub(crate) struct One {
    state: State,
    filter: Option<Filter>,
    name: String,
}

/// A filter's handle.
pub struct rocksdb_compactionfilter_t(Arc<One>);

/// The context that a factory gets: nothing is known here of a later compaction.
pub struct rocksdb_compactionfiltercontext_t;

/// Where filters come from.
pub(crate) enum Source {
    One(Arc<One>),
    Factory(Arc<Factory>),
}

/// A maker of filters.
pub(crate) struct Factory {
    state: State,
    create: Option<Create>,
    name: String,
    /// The filters that are not in use.
    idle: Mutex<Vec<Arc<One>>>,
}

/// A factory's handle.
pub struct rocksdb_compactionfilterfactory_t(Arc<Factory>);

impl One {
    fn decide(&self, level: u8, key: &[u8], value: &[u8]) -> Decision {
        let Some(filter) = self.filter else { return Decision::Keep };
        let (mut new, mut new_len, mut changed) = (std::ptr::null_mut(), 0, 0u8);
        let remove = filter(
            self.state.pointer,
            level.into(),
            key.as_ptr().cast(),
            key.len(),
            value.as_ptr().cast(),
            value.len(),
            &raw mut new,
            &raw mut new_len,
            &raw mut changed,
        );
        match (remove != 0, changed != 0 && !new.is_null()) {
            (true, _) => Decision::Remove,
            (false, false) => Decision::Keep,
            // SAFETY: c.h has the filter store a block of this length, which stays its own.
            (false, true) => Decision::Change(
                unsafe { std::slice::from_raw_parts(new.cast::<u8>(), new_len) }.to_vec(),
            ),
        }
    }
}

impl Factory {
    fn one(&self) -> Option<Arc<One>> {
        if let Some(one) = self.idle.lock().pop() {
            return Some(one);
        }
        let mut context = rocksdb_compactionfiltercontext_t;
        let made = self.create?(self.state.pointer, &raw mut context);
        // SAFETY: a factory gives the filter away.
        (!made.is_null()).then(|| unsafe { Box::from_raw(made) }.0)
    }
}

impl CompactionFilter for Source {
    fn name(&self) -> &str {
        match self {
            Self::One(one) => &one.name,
            Self::Factory(factory) => &factory.name,
        }
    }

    fn filter(&self, level: u8, key: &[u8], value: &[u8]) -> Decision {
        match self {
            Self::One(one) => one.decide(level, key, value),
            Self::Factory(factory) => {
                let Some(one) = factory.one() else { return Decision::Keep };
                let decision = one.decide(level, key, value);
                factory.idle.lock().push(one);
                decision
            }
        }
    }
}

/// The filter that options name: RocksDB prefers the plain one.
pub(crate) fn source_of(options: &Bag) -> Option<Arc<Source>> {
    let one = options.kept::<One>("compaction_filter").map(Source::One);
    let factory = || options.kept::<Factory>("compaction_filter_factory").map(Source::Factory);
    one.or_else(factory).map(Arc::new)
}

api! {
    fn rocksdb_compactionfilter_create(
        state: *mut c_void,
        destructor: Option<extern "C" fn(*mut c_void)>,
        filter: Option<Filter>,
        name: Option<Name>,
    ) -> *mut rocksdb_compactionfilter_t {
        let state = State { pointer: state, destructor };
        let name = name_of(&state, name);
        Ok(give(rocksdb_compactionfilter_t(Arc::new(One { state, filter, name }))))
    }

    fn rocksdb_compactionfilter_set_ignore_snapshots(
        filter: *mut rocksdb_compactionfilter_t,
        ignore: u8,
    ) {
        let _ = (filter, ignore);
        Ok(())
    }

    fn rocksdb_compactionfilter_destroy(filter: *mut rocksdb_compactionfilter_t) {
        free(filter)
    }

    fn rocksdb_compactionfiltercontext_is_full_compaction(
        context: *mut rocksdb_compactionfiltercontext_t,
    ) -> u8 {
        let _ = context;
        Ok(0)
    }

    fn rocksdb_compactionfiltercontext_is_manual_compaction(
        context: *mut rocksdb_compactionfiltercontext_t,
    ) -> u8 {
        let _ = context;
        Ok(0)
    }

    fn rocksdb_compactionfilterfactory_create(
        state: *mut c_void,
        destructor: Option<extern "C" fn(*mut c_void)>,
        create: Option<Create>,
        name: Option<Name>,
    ) -> *mut rocksdb_compactionfilterfactory_t {
        let state = State { pointer: state, destructor };
        let name = name_of(&state, name);
        let factory = Factory { state, create, name, idle: Mutex::default() };
        Ok(give(rocksdb_compactionfilterfactory_t(Arc::new(factory))))
    }

    fn rocksdb_compactionfilterfactory_destroy(factory: *mut rocksdb_compactionfilterfactory_t) {
        free(factory)
    }

    fn rocksdb_options_set_compaction_filter(
        options: *mut Bag,
        filter: *mut rocksdb_compactionfilter_t,
    ) {
        let options = changed(options, "the options")?;
        match filter.as_ref() {
            None => options.forget("compaction_filter"),
            // The program keeps its handle, so the filter itself is shared.
            Some(filter) => options.keep("compaction_filter", filter.0.clone()),
        }
        Ok(())
    }

    fn rocksdb_options_set_compaction_filter_factory(
        options: *mut Bag,
        factory: *mut rocksdb_compactionfilterfactory_t,
    ) {
        let options = changed(options, "the options")?;
        match factory.is_null() {
            true => options.forget("compaction_filter_factory"),
            // The options own it from here on.
            false => options.keep("compaction_filter_factory", Box::from_raw(factory).0),
        }
        Ok(())
    }
}
