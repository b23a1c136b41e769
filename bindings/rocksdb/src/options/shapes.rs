//! Objects that options refer to: comparators, prefix extractors, filter policies and caches.
//!
//! vLSM orders keys by their bytes, so every other comparator is refused when a store is opened. A
//! prefix extractor bounds iterators with `prefix_same_as_start`. A Bloom or Ribbon policy
//! determines the bits of vLSM's Bloom filters, and a cache the limit of its block cache.

use crate::bag::Bag;
use crate::call::{Nothing, Outcome, State, api, changed, free, give, shared};
use crate::operators::{Name, name_of};
use crate::store::Store;
use parking_lot::Mutex;
use std::ffi::{c_char, c_int, c_void};
use std::sync::{Arc, Weak};

/// The name of the order that vLSM has.
pub(crate) const BYTEWISE: &str = "leveldb.BytewiseComparator";

/// A key order of the program. It is never called: only its name counts.
pub struct rocksdb_comparator_t {
    pub(crate) name: String,
    pub(crate) timestamps: bool,
    _state: State,
}

/// A comparator as options remember it.
pub(crate) struct Order {
    pub name: String,
    pub timestamps: bool,
}

type Compare = extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize) -> c_int;

/// The function from a key to its prefix.
pub(crate) enum Transform {
    /// The first bytes; a shorter key has no prefix.
    Fixed(usize),
    /// The whole key.
    Whole,
    /// A function of the program.
    Given { state: State, transform: Option<Extract>, in_domain: Option<InDomain> },
}

type Extract = extern "C" fn(*mut c_void, *const c_char, usize, *mut usize) -> *mut c_char;
type InDomain = extern "C" fn(*mut c_void, *const c_char, usize) -> u8;

impl Transform {
    /// The prefix of a key, if it has one.
    pub(crate) fn prefix(&self, key: &[u8]) -> Option<Vec<u8>> {
        match self {
            Self::Fixed(len) => key.get(..*len).map(<[u8]>::to_vec),
            Self::Whole => Some(key.to_vec()),
            Self::Given { state, transform, in_domain } => {
                let inside = in_domain.is_none_or(|inside| {
                    inside(state.pointer, key.as_ptr().cast(), key.len()) != 0
                });
                let transform = transform.filter(|_| inside)?;
                let mut len = 0;
                let data = transform(state.pointer, key.as_ptr().cast(), key.len(), &raw mut len);
                // SAFETY: c.h has the function return bytes of this length, which stay its own.
                (!data.is_null())
                    .then(|| unsafe { std::slice::from_raw_parts(data.cast::<u8>(), len) }.to_vec())
            }
        }
    }
}

/// A prefix extractor.
pub struct rocksdb_slicetransform_t(Arc<Transform>);

/// The bits of a filter for each key.
pub struct rocksdb_filterpolicy_t(f64);

/// A cache: its capacity, and the stores that were opened with it.
pub(crate) struct Cache {
    pub capacity: Mutex<usize>,
    pub users: Mutex<Vec<Weak<Store>>>,
}

impl Cache {
    /// Adds a store.
    pub(crate) fn add(&self, store: &Arc<Store>) {
        let mut users = self.users.lock();
        users.retain(|user| user.strong_count() > 0);
        users.push(Arc::downgrade(store));
    }

    /// The bytes that the block caches of its stores hold.
    pub(crate) fn usage(&self) -> usize {
        let stores: Vec<_> = self.users.lock().iter().filter_map(Weak::upgrade).collect();
        stores.iter().map(|store| store.db.stats().memory.cache.0 as usize).sum()
    }
}

/// A cache's handle.
pub struct rocksdb_cache_t(pub(crate) Arc<Cache>);

fn cache(capacity: usize) -> Outcome<*mut rocksdb_cache_t> {
    let (capacity, users) = (Mutex::new(capacity), Mutex::default());
    Ok(give(rocksdb_cache_t(Arc::new(Cache { capacity, users }))))
}

api! {
    fn rocksdb_comparator_create(
        state: *mut c_void,
        destructor: Option<extern "C" fn(*mut c_void)>,
        compare: Option<Compare>,
        name: Option<Name>,
    ) -> *mut rocksdb_comparator_t {
        let _ = compare;
        let state = State { pointer: state, destructor };
        let name = name_of(&state, name);
        Ok(give(rocksdb_comparator_t { name, timestamps: false, _state: state }))
    }

    fn rocksdb_comparator_with_ts_create(
        state: *mut c_void,
        destructor: Option<extern "C" fn(*mut c_void)>,
        compare: *mut c_void,
        compare_ts: *mut c_void,
        compare_without_ts: *mut c_void,
        name: Option<Name>,
        timestamp_size: usize,
    ) -> *mut rocksdb_comparator_t {
        let _ = (compare, compare_ts, compare_without_ts, timestamp_size);
        let state = State { pointer: state, destructor };
        let name = name_of(&state, name);
        Ok(give(rocksdb_comparator_t { name, timestamps: true, _state: state }))
    }

    fn rocksdb_comparator_destroy(comparator: *mut rocksdb_comparator_t) {
        free(comparator)
    }

    fn rocksdb_options_set_comparator(options: *mut Bag, comparator: *mut rocksdb_comparator_t) {
        let options = changed(options, "the options")?;
        match comparator.as_ref() {
            None => options.forget("comparator"),
            Some(rocksdb_comparator_t { name, timestamps, .. }) => {
                let order = Order { name: name.clone(), timestamps: *timestamps };
                options.keep("comparator", Arc::new(order));
            }
        }
        Ok(())
    }

    fn rocksdb_slicetransform_create(
        state: *mut c_void,
        destructor: Option<extern "C" fn(*mut c_void)>,
        transform: Option<Extract>,
        in_domain: Option<InDomain>,
        name: Option<Name>,
    ) -> *mut rocksdb_slicetransform_t {
        let _ = name;
        let state = State { pointer: state, destructor };
        let transform = Transform::Given { state, transform, in_domain };
        Ok(give(rocksdb_slicetransform_t(Arc::new(transform))))
    }

    fn rocksdb_slicetransform_create_fixed_prefix(len: usize) -> *mut rocksdb_slicetransform_t {
        Ok(give(rocksdb_slicetransform_t(Arc::new(Transform::Fixed(len)))))
    }

    fn rocksdb_slicetransform_create_noop() -> *mut rocksdb_slicetransform_t {
        Ok(give(rocksdb_slicetransform_t(Arc::new(Transform::Whole))))
    }

    fn rocksdb_slicetransform_destroy(transform: *mut rocksdb_slicetransform_t) {
        free(transform)
    }

    fn rocksdb_options_set_prefix_extractor(
        options: *mut Bag,
        transform: *mut rocksdb_slicetransform_t,
    ) {
        let options = changed(options, "the options")?;
        match transform.is_null() {
            true => options.forget("prefix_extractor"),
            // The options own it from here on.
            false => options.keep("prefix_extractor", Box::from_raw(transform).0),
        }
        Ok(())
    }

    fn rocksdb_filterpolicy_create_bloom(bits: f64) -> *mut rocksdb_filterpolicy_t {
        Ok(give(rocksdb_filterpolicy_t(bits)))
    }

    fn rocksdb_filterpolicy_create_bloom_full(bits: f64) -> *mut rocksdb_filterpolicy_t {
        Ok(give(rocksdb_filterpolicy_t(bits)))
    }

    fn rocksdb_filterpolicy_create_ribbon(bits: f64) -> *mut rocksdb_filterpolicy_t {
        Ok(give(rocksdb_filterpolicy_t(bits)))
    }

    fn rocksdb_filterpolicy_create_ribbon_hybrid(
        bits: f64,
        bloom_before: c_int,
    ) -> *mut rocksdb_filterpolicy_t {
        let _ = bloom_before;
        Ok(give(rocksdb_filterpolicy_t(bits)))
    }

    fn rocksdb_filterpolicy_destroy(policy: *mut rocksdb_filterpolicy_t) {
        free(policy)
    }

    fn rocksdb_block_based_options_set_filter_policy(
        options: *mut Bag,
        policy: *mut rocksdb_filterpolicy_t,
    ) {
        let options = changed(options, "the options")?;
        // The options own the policy from here on. NULL means no filters.
        let bits = if policy.is_null() { 0.0 } else { Box::from_raw(policy).0 };
        options.keep("filter_policy", Arc::new(bits));
        Ok(())
    }

    fn rocksdb_block_based_options_set_block_cache(
        options: *mut Bag,
        cache: *mut rocksdb_cache_t,
    ) {
        let options = changed(options, "the options")?;
        match cache.as_ref() {
            None => options.forget("block_cache"),
            Some(cache) => options.keep("block_cache", cache.0.clone()),
        }
        Ok(())
    }

    fn rocksdb_cache_create_lru(capacity: usize) -> *mut rocksdb_cache_t {
        cache(capacity)
    }

    fn rocksdb_cache_create_lru_with_strict_capacity_limit(
        capacity: usize,
    ) -> *mut rocksdb_cache_t {
        cache(capacity)
    }

    fn rocksdb_cache_create_lru_opts(options: *const Bag) -> *mut rocksdb_cache_t {
        cache(shared(options, "the options")?.get("capacity"))
    }

    fn rocksdb_cache_create_hyper_clock(capacity: usize, charge: usize) -> *mut rocksdb_cache_t {
        let _ = charge;
        cache(capacity)
    }

    fn rocksdb_cache_create_hyper_clock_opts(options: *const Bag) -> *mut rocksdb_cache_t {
        cache(shared(options, "the options")?.get("capacity"))
    }

    fn rocksdb_cache_destroy(cache: *mut rocksdb_cache_t) {
        free(cache)
    }

    fn rocksdb_cache_disown_data(cache: *mut rocksdb_cache_t) {
        let _ = cache;
        Ok(<()>::NOTHING)
    }

    fn rocksdb_cache_set_capacity(cache: *mut rocksdb_cache_t, capacity: usize) {
        *shared(cache, "the cache")?.0.capacity.lock() = capacity;
        Ok(())
    }

    fn rocksdb_cache_get_capacity(cache: *const rocksdb_cache_t) -> usize {
        Ok(*shared(cache, "the cache")?.0.capacity.lock())
    }

    fn rocksdb_cache_get_usage(cache: *const rocksdb_cache_t) -> usize {
        Ok(shared(cache, "the cache")?.0.usage())
    }

    fn rocksdb_cache_get_pinned_usage(cache: *const rocksdb_cache_t) -> usize {
        let _ = cache;
        Ok(0)
    }
}
