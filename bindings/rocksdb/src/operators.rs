//! Merge operators: functions of the program that combine operands with a value.
//!
//! RocksDB records no operator: each open names the one to use. vLSM records a name when a keyspace
//! is made. So every keyspace is made with the name of a slot, `rocksdb.merge.N`; the slots are
//! registered at open, and the options of each open fill them. With an empty slot, keys keep their
//! operands and cannot be read.

use crate::bag::Bag;
use crate::call::{Outcome, State, api, changed, free, give};
use crate::status::Failure;
use engine::MergeOperator;
use parking_lot::RwLock;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null;
use std::sync::Arc;

/// The number of slots, and so of column families of a store that can have a merge operator.
const SLOTS: usize = 1024;
const PREFIX: &str = "rocksdb.merge.";

/// The place of the merge operator of one keyspace.
pub(crate) struct Slot {
    name: String,
    operator: RwLock<Option<Arc<Operator>>>,
}

impl Slot {
    /// All slots, empty.
    pub(crate) fn all() -> Vec<Arc<Self>> {
        let slot = |at| Self { name: format!("{PREFIX}{at}"), operator: RwLock::default() };
        (0..SLOTS).map(|at| Arc::new(slot(at))).collect()
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn fill(&self, operator: Option<Arc<Operator>>) {
        *self.operator.write() = operator;
    }

    pub(crate) fn operator(&self) -> Option<Arc<Operator>> {
        self.operator.read().clone()
    }
}

impl MergeOperator for Slot {
    fn name(&self) -> &str {
        &self.name
    }

    fn check_operand(&self, _: &[u8], _: &[u8]) -> Result<(), &'static str> {
        match self.operator() {
            Some(_) => Ok(()),
            None => Err("the options of its column family have no merge operator: set one by \
                         rocksdb_options_set_merge_operator before the database is opened"),
        }
    }

    fn merge(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.operator()?.full(key, base, operands)
    }

    fn merge_partial(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.operator()?.partial(key, operands)
    }
}

type Full = extern "C" fn(
    *mut c_void,
    *const c_char,
    usize,
    *const c_char,
    usize,
    *const *const c_char,
    *const usize,
    c_int,
    *mut u8,
    *mut usize,
) -> *mut c_char;
type Partial = extern "C" fn(
    *mut c_void,
    *const c_char,
    usize,
    *const *const c_char,
    *const usize,
    c_int,
    *mut u8,
    *mut usize,
) -> *mut c_char;
type Delete = extern "C" fn(*mut c_void, *const c_char, usize);
pub(crate) type Name = extern "C" fn(*mut c_void) -> *const c_char;

/// A merge operator.
pub(crate) enum Operator {
    /// Adds 64-bit little-endian numbers: RocksDB's `UInt64AddOperator`.
    Add,
    /// An operator of the program.
    Given { state: State, full: Option<Full>, partial: Option<Partial>, delete: Option<Delete> },
}

/// The arrays in which operands are passed to C.
fn lists(operands: &[&[u8]]) -> (Vec<*const c_char>, Vec<usize>) {
    operands.iter().map(|operand| (operand.as_ptr().cast::<c_char>(), operand.len())).unzip()
}

impl Operator {
    /// Copies the result of a function of the program, and lets the program free the result.
    fn taken(&self, data: *mut c_char, len: usize, good: u8) -> Option<Vec<u8>> {
        let Self::Given { state, delete, .. } = self else { return None };
        if data.is_null() {
            return (good != 0 && len == 0).then(Vec::new);
        }
        // SAFETY: c.h has the function return a block of this length.
        let copy = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), len) }.to_vec();
        match delete {
            Some(delete) => delete(state.pointer, data, len),
            // SAFETY: without a function of its own the block comes from `malloc`.
            None => unsafe { libc::free(data.cast()) },
        }
        (good != 0).then_some(copy)
    }

    pub(crate) fn full(
        &self,
        key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Option<Vec<u8>> {
        let Self::Given { state, full, .. } = self else {
            let number = |part: &[u8]| part.try_into().map_or(0, u64::from_le_bytes);
            let all = base.into_iter().chain(operands.iter().copied());
            let sum = all.fold(0u64, |sum, part| sum.wrapping_add(number(part)));
            return Some(sum.to_le_bytes().to_vec());
        };
        let (data, lens) = lists(operands);
        let (mut good, mut len) = (0, 0);
        let base_len = base.map_or(0, <[u8]>::len);
        let base = base.map_or(null(), |base| base.as_ptr().cast());
        let result = (*full)?(
            state.pointer,
            key.as_ptr().cast(),
            key.len(),
            base,
            base_len,
            data.as_ptr(),
            lens.as_ptr(),
            c_int::try_from(operands.len()).ok()?,
            &raw mut good,
            &raw mut len,
        );
        self.taken(result, len, good)
    }

    fn partial(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        let Self::Given { state, partial, .. } = self else {
            return self.full(key, None, operands);
        };
        let (data, lens) = lists(operands);
        let (mut good, mut len) = (0, 0);
        let result = (*partial)?(
            state.pointer,
            key.as_ptr().cast(),
            key.len(),
            data.as_ptr(),
            lens.as_ptr(),
            c_int::try_from(operands.len()).ok()?,
            &raw mut good,
            &raw mut len,
        );
        self.taken(result, len, good)
    }
}

/// The slot that a keyspace was made with.
pub(crate) fn slot_of(slots: &[Arc<Slot>], operator: Option<&str>) -> Option<Arc<Slot>> {
    slots.iter().find(|slot| Some(slot.name()) == operator).cloned()
}

/// A slot that none of these keyspaces has.
pub(crate) fn free_slot(slots: &[Arc<Slot>], taken: &[String]) -> Outcome<Arc<Slot>> {
    let free = slots.iter().find(|slot| !taken.iter().any(|name| name == slot.name()));
    free.cloned().ok_or_else(|| {
        Failure::argument(format!("a database has at most {SLOTS} column families here"))
    })
}

/// The name of an object of the program.
pub(crate) fn name_of(state: &State, name: Option<Name>) -> String {
    let text = name.map_or(null(), |name| name(state.pointer));
    match text.is_null() {
        true => String::new(),
        // SAFETY: c.h has the function return a text.
        false => unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
    }
}

/// A merge operator of the program.
pub struct rocksdb_mergeoperator_t(Arc<Operator>);

api! {
    fn rocksdb_mergeoperator_create(
        state: *mut c_void,
        destructor: Option<extern "C" fn(*mut c_void)>,
        full: Option<Full>,
        partial: Option<Partial>,
        delete: Option<Delete>,
        name: Option<Name>,
    ) -> *mut rocksdb_mergeoperator_t {
        let _ = name;
        let state = State { pointer: state, destructor };
        let operator = Operator::Given { state, full, partial, delete };
        Ok(give(rocksdb_mergeoperator_t(Arc::new(operator))))
    }

    fn rocksdb_mergeoperator_destroy(operator: *mut rocksdb_mergeoperator_t) {
        free(operator)
    }

    fn rocksdb_options_set_merge_operator(
        options: *mut Bag,
        operator: *mut rocksdb_mergeoperator_t,
    ) {
        let options = changed(options, "the options")?;
        match operator.is_null() {
            true => options.forget("merge_operator"),
            // The options own it from here on.
            false => options.keep("merge_operator", Box::from_raw(operator).0),
        }
        Ok(())
    }

    fn rocksdb_options_set_uint64add_merge_operator(options: *mut Bag) {
        changed(options, "the options")?.keep("merge_operator", Arc::new(Operator::Add));
        Ok(())
    }
}
