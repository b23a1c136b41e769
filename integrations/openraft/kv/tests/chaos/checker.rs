//! Is a history of operations on one key linearizable?
//!
//! The search of Wing and Gong ("Testing and verifying concurrent objects", 1993) with Lowe's
//! memoization ("Testing for linearizability", 2017):
//! 1. Calls and returns stand in a list by time. A call may come next in the order if no return
//!    stands before it in the list: nothing that had ended before it began is still to come.
//! 2. The first such call whose answer agrees with the present value is taken, with its return, out
//!    of the list. A set of operations that led to the same value before is not tried again.
//! 3. When a return is reached, its operation cannot be put off: the last choice is undone.
//!
//! Every answer carries the value before, so most histories have few orders. An operation whose
//! outcome is unknown has no return: it may stand anywhere after its call, or nowhere. Values are
//! unique, so one whose value nobody saw is left out beforehand.

use std::collections::{BTreeSet, HashSet};
use std::fmt;

/// A value of the key; none if the key does not exist.
pub type Value = Option<u64>;

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    Read,
    Put(u64),
    Delete,
    Cas { expected: Value, value: u64 },
}

impl Call {
    /// The value that it may write.
    fn writes(self) -> Option<Value> {
        match self {
            Self::Read => None,
            Self::Put(value) | Self::Cas { value, .. } => Some(Some(value)),
            Self::Delete => Some(None),
        }
    }
}

/// The end of an operation whose outcome is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Return {
    /// When.
    pub at: u64,
    /// The value before the operation.
    pub before: Value,
    /// Whether it was done: false only for a compare-and-set.
    pub done: bool,
}

/// An operation on the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// When it began.
    pub at: u64,
    pub call: Call,
    /// None if its outcome is unknown.
    pub end: Option<Return>,
}

impl Operation {
    /// The value after the operation, if its answer agrees with the value before it.
    pub fn step(&self, value: Value) -> Option<Value> {
        let answered = self.end.map(|end| (end.before, end.done));
        if answered.is_some_and(|(before, _)| before != value) {
            return None;
        }
        let done = match self.call {
            Call::Cas { expected, .. } => expected == value,
            _ => true,
        };
        if answered.is_some_and(|(_, answered)| answered != done) {
            return None;
        }
        Some(self.call.writes().filter(|_| done).unwrap_or(value))
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>12}", self.at)?;
        match self.end {
            Some(end) => {
                let done = if end.done { "" } else { " refused," };
                write!(f, "..{:<12} {:?}:{done} before {:?}", end.at, self.call, end.before)
            }
            None => write!(f, "..{:<12} {:?}", "unknown", self.call),
        }
    }
}

/// The result of a check.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    Linearizable,
    /// There is no order. The longest ones end before this operation, an index of the history.
    Violated {
        before: usize,
    },
    /// The search was given up after this many steps.
    Undecided {
        steps: usize,
    },
}

/// The most steps of a search.
const STEPS: usize = 5_000_000;

/// Checks the history of one key, which does not exist at first.
pub fn check(history: &[Operation]) -> Verdict {
    Search::new(history).run()
}

/// An event in the list: an operation's call or its return.
#[derive(Clone, Copy)]
struct Event {
    operation: usize,
    is_call: bool,
    /// For a call: the event of its return, or 0.
    end: usize,
    previous: usize,
    next: usize,
}

struct Search<'a> {
    history: &'a [Operation],
    /// A ring; the event 0 is its head.
    events: Vec<Event>,
    value: Value,
    taken: Vec<u64>,
    seen: HashSet<(Vec<u64>, Value)>,
    /// The calls taken, each with the value before.
    order: Vec<(usize, Value)>,
    /// Returns in the list.
    open: usize,
}

impl<'a> Search<'a> {
    fn new(history: &'a [Operation]) -> Self {
        // An operation of unknown outcome sees only what it expects.
        let sees = |op: &Operation| match (op.end, op.call) {
            (Some(end), _) => Some(end.before),
            (None, Call::Cas { expected, .. }) => Some(expected),
            (None, _) => None,
        };
        let seen: BTreeSet<_> = history.iter().filter_map(sees).collect();
        let counts = |op: &Operation| match (op.end, op.call.writes()) {
            (None, None) => false,
            (None, Some(value)) => seen.contains(&value),
            (Some(_), _) => true,
        };
        let mut times = Vec::new();
        for (number, op) in history.iter().enumerate().filter(|(_, op)| counts(op)) {
            times.push((op.at, 0, number));
            times.extend(op.end.map(|end| (end.at, 1, number)));
        }
        times.sort_unstable(); // at one moment the calls first: they overlap
        let none = usize::MAX;
        let head = Event { operation: none, is_call: false, end: 0, previous: 0, next: 0 };
        let mut events = vec![head];
        let mut calls = vec![0; history.len()];
        for (_, side, operation) in times {
            let at = events.len();
            events.push(Event { operation, is_call: side == 0, end: 0, previous: at - 1, next: 0 });
            events[at - 1].next = at;
            match side {
                0 => calls[operation] = at,
                _ => events[calls[operation]].end = at,
            }
        }
        events[0].previous = events.len() - 1;
        let open = history.iter().filter(|op| op.end.is_some()).count();
        let taken = vec![0; history.len().div_ceil(64)];
        Self { history, events, value: None, taken, seen: HashSet::new(), order: Vec::new(), open }
    }

    fn run(mut self) -> Verdict {
        let mut at = self.events[0].next;
        let mut furthest = (0, 0);
        for _ in 0..STEPS {
            if self.open == 0 {
                return Verdict::Linearizable;
            }
            let event = self.events[at];
            if at != 0 && event.is_call {
                at = if self.take(at) { self.events[0].next } else { event.next };
                continue;
            }
            if self.order.len() >= furthest.0 && at != 0 {
                furthest = (self.order.len(), event.operation);
            }
            let Some(call) = self.undo() else { return Verdict::Violated { before: furthest.1 } };
            at = self.events[call].next;
        }
        Verdict::Undecided { steps: STEPS }
    }

    /// Takes a call as the next in the order, if that is possible and new.
    fn take(&mut self, call: usize) -> bool {
        let Event { operation, end, .. } = self.events[call];
        let Some(value) = self.history[operation].step(self.value) else { return false };
        self.taken[operation / 64] ^= 1 << (operation % 64);
        if !self.seen.insert((self.taken.clone(), value)) {
            self.taken[operation / 64] ^= 1 << (operation % 64);
            return false;
        }
        self.order.push((call, self.value));
        self.value = value;
        self.unlink(call);
        if end != 0 {
            self.unlink(end);
            self.open -= 1;
        }
        true
    }

    /// Undoes the last choice. Returns its call.
    fn undo(&mut self) -> Option<usize> {
        let (call, value) = self.order.pop()?;
        let Event { operation, end, .. } = self.events[call];
        if end != 0 {
            self.link(end);
            self.open += 1;
        }
        self.link(call);
        self.taken[operation / 64] ^= 1 << (operation % 64);
        self.value = value;
        Some(call)
    }

    fn unlink(&mut self, at: usize) {
        let Event { previous, next, .. } = self.events[at];
        self.events[previous].next = next;
        self.events[next].previous = previous;
    }

    fn link(&mut self, at: usize) {
        let Event { previous, next, .. } = self.events[at];
        self.events[previous].next = at;
        self.events[next].previous = at;
    }
}

/// A history as text, in the order of the calls, with the operation where no order goes on marked.
pub fn print(history: &[Operation], marked: Option<usize>) -> String {
    let mut lines: Vec<_> = history.iter().enumerate().collect();
    lines.sort_by_key(|(_, op)| op.at);
    let line = |(number, op): (usize, &Operation)| {
        format!("{} {op}\n", if marked == Some(number) { "-->" } else { "   " })
    };
    lines.into_iter().map(line).collect()
}
