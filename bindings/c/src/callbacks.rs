//! Functions of the caller that the store calls: merge operators and compaction filters.
//!
//! Each is a struct of function pointers with a state. It is copied when it is registered. The
//! state is destroyed once, after the options and all stores that use it are gone.

use crate::buffer::{vlsm_buffer, vlsm_slice};
use crate::call::{Outcome, text};
use crate::error::Failure;
use engine::{CompactionFilter, Decision, MergeOperator};
use std::ffi::{c_char, c_void};

/// A merge operator. Its functions must always return the same result for the same arguments. An
/// operator that behaves differently needs another name.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct vlsm_merge_operator {
    /// The first argument of all functions.
    pub state: *mut c_void,
    /// The name, which the store records. It is copied.
    pub name: *const c_char,
    /// Returns false for an operand that `merge` could not combine; the write is then refused. NULL
    /// accepts every operand.
    pub check:
        Option<extern "C" fn(state: *mut c_void, key: vlsm_slice, operand: vlsm_slice) -> bool>,
    /// Applies operands, the oldest first, to the previous value, and appends the new value to
    /// `out`. The data of the previous value is NULL if the key was absent. Returns false if they
    /// cannot be combined: reads of the key then fail with VLSM_MERGE, and nothing is lost.
    pub merge: Option<
        extern "C" fn(
            state: *mut c_void,
            key: vlsm_slice,
            base: vlsm_slice,
            operands: *const vlsm_slice,
            count: usize,
            out: *mut vlsm_buffer,
        ) -> bool,
    >,
    /// Combines operands, the oldest first, into one with the same effect. Returns false if that is
    /// impossible. NULL if it is always impossible.
    pub merge_partial: Option<
        extern "C" fn(
            state: *mut c_void,
            key: vlsm_slice,
            operands: *const vlsm_slice,
            count: usize,
            out: *mut vlsm_buffer,
        ) -> bool,
    >,
    /// Frees the state. NULL if there is nothing to free.
    pub destroy: Option<extern "C" fn(state: *mut c_void)>,
}

/// The decision of a compaction filter about a value.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum vlsm_decision {
    /// Keep the value. Every number that is not listed here means the same.
    VLSM_KEEP = 0,
    /// Remove the key.
    VLSM_REMOVE = 1,
    /// Replace the value with the bytes that were appended to `out`.
    VLSM_CHANGE = 2,
}

impl vlsm_decision {
    /// The decision of a number that C returned.
    fn of(number: u32) -> Self {
        let others = [Self::VLSM_REMOVE, Self::VLSM_CHANGE];
        others.into_iter().find(|one| *one as u32 == number).unwrap_or(Self::VLSM_KEEP)
    }
}

/// A compaction filter: it sees the newest value of a key when a flush or a compaction rewrites it
/// and no snapshot holds it.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct vlsm_compaction_filter {
    /// The first argument of all functions.
    pub state: *mut c_void,
    /// The name, for the log. It is copied.
    pub name: *const c_char,
    /// Returns a vlsm_decision about a value that is about to be written into a level. Any other
    /// number keeps the value.
    pub filter: Option<
        extern "C" fn(
            state: *mut c_void,
            level: u32,
            key: vlsm_slice,
            value: vlsm_slice,
            out: *mut vlsm_buffer,
        ) -> u32,
    >,
    /// Frees the state. NULL if there is nothing to free.
    pub destroy: Option<extern "C" fn(state: *mut c_void)>,
}

/// A state with the function that frees it.
struct State {
    state: *mut c_void,
    destroy: Option<extern "C" fn(*mut c_void)>,
}

// The header says that any thread calls the functions, several at once.
unsafe impl Send for State {}
unsafe impl Sync for State {}

impl Drop for State {
    fn drop(&mut self) {
        if let Some(destroy) = self.destroy {
            destroy(self.state);
        }
    }
}

/// A registered merge operator.
pub(crate) struct Operator {
    state: State,
    name: String,
    functions: vlsm_merge_operator,
}

// As for `State`, whose pointer is the only one that is used later.
unsafe impl Send for Operator {}
unsafe impl Sync for Operator {}

impl Operator {
    /// Makes the operator; if that fails, its state is destroyed.
    pub(crate) unsafe fn new(functions: vlsm_merge_operator) -> Outcome<Self> {
        let state = State { state: functions.state, destroy: functions.destroy };
        let name = unsafe { text(functions.name, "the name of the merge operator") }?.to_owned();
        if functions.merge.is_none() {
            return Err(Failure::argument("the function `merge` is NULL"));
        }
        Ok(Self { state, name, functions })
    }
}

fn slices(operands: &[&[u8]]) -> Vec<vlsm_slice> {
    operands.iter().map(|operand| vlsm_slice::of(operand)).collect()
}

impl MergeOperator for Operator {
    fn name(&self) -> &str {
        &self.name
    }

    fn check_operand(&self, key: &[u8], operand: &[u8]) -> Result<(), &'static str> {
        let Some(check) = self.functions.check else { return Ok(()) };
        match check(self.state.state, vlsm_slice::of(key), vlsm_slice::of(operand)) {
            true => Ok(()),
            false => Err("the function `check` of the operator returned false"),
        }
    }

    fn merge(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let base = base.map_or(vlsm_slice::NONE, vlsm_slice::of);
        let (operands, mut out) = (slices(operands), vlsm_buffer { bytes: Vec::new() });
        let (key, count) = (vlsm_slice::of(key), operands.len());
        let merge = self.functions.merge?;
        merge(self.state.state, key, base, operands.as_ptr(), count, &raw mut out)
            .then_some(out.bytes)
    }

    fn merge_partial(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        let (operands, mut out) = (slices(operands), vlsm_buffer { bytes: Vec::new() });
        let (key, count) = (vlsm_slice::of(key), operands.len());
        let merge = self.functions.merge_partial?;
        merge(self.state.state, key, operands.as_ptr(), count, &raw mut out).then_some(out.bytes)
    }
}

/// A registered compaction filter.
pub(crate) struct Filter {
    state: State,
    name: String,
    functions: vlsm_compaction_filter,
}

// As `Operator`.
unsafe impl Send for Filter {}
unsafe impl Sync for Filter {}

impl Filter {
    /// Makes the filter; if that fails, its state is destroyed.
    pub(crate) unsafe fn new(functions: vlsm_compaction_filter) -> Outcome<Self> {
        let state = State { state: functions.state, destroy: functions.destroy };
        let name = unsafe { text(functions.name, "the name of the compaction filter") }?.to_owned();
        if functions.filter.is_none() {
            return Err(Failure::argument("the function `filter` is NULL"));
        }
        Ok(Self { state, name, functions })
    }
}

impl CompactionFilter for Filter {
    fn name(&self) -> &str {
        &self.name
    }

    fn filter(&self, level: u8, key: &[u8], value: &[u8]) -> Decision {
        let Some(filter) = self.functions.filter else { return Decision::Keep };
        let mut out = vlsm_buffer { bytes: Vec::new() };
        let (key, value) = (vlsm_slice::of(key), vlsm_slice::of(value));
        let decision = filter(self.state.state, u32::from(level), key, value, &raw mut out);
        match vlsm_decision::of(decision) {
            vlsm_decision::VLSM_KEEP => Decision::Keep,
            vlsm_decision::VLSM_REMOVE => Decision::Remove,
            vlsm_decision::VLSM_CHANGE => Decision::Change(out.bytes),
        }
    }
}
