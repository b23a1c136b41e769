//! The scheduler: tasks are coroutines on one OS thread, and a seed determines the order of steps.
//!
//! A task runs until it blocks or yields; then the machine picks the next one.
//! 1. Tasks whose deadline has come become ready.
//! 2. The seed chooses one ready task, by weights that it gave the tasks. Some runs starve some
//!    tasks, as on a busy computer. Every weight is above zero, so each ready task runs eventually.
//! 3. If no task is ready, virtual time jumps to the earliest deadline. If there is no deadline, it
//!    is a deadlock: the report says where each task is and what it waits for.
//! 4. Each switch costs a little virtual time. A limit on switches finds livelocks.
//!
//! When the machine is switched off (crash, deadlock, end of the root task), every other task
//! unwinds from the point where it is blocked, without output of the panic hook. If the code under
//! test catches that ([`Stopped`]), as it catches panics of jobs, the task unwinds again at its
//! next such point.
//! While a task unwinds, its destructors may still call the environment: no call blocks any more,
//! and file calls fail. A task whose destructors loop for ever is abandoned with its stack.
//! Abandoned tasks are counted, and fail every test.
//!
//! Threads and locks: everything runs on the thread of [`crate::SimEnv::run`]. The state's lock is
//! never held across a switch.

use crate::rng::Rng;
use crate::trace::{Entry, Trace, What};
use generator::{Generator, Gn};
use parking_lot::Mutex;
use std::any::Any;
use std::backtrace::Backtrace;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use vlsm_disk::env::Stopped;

/// The stack of a task, in words.
const STACK_WORDS: usize = 1 << 17;
/// The blocking calls that an unwinding task may make before it is abandoned.
const CALLS_WHILE_OFF_MAX: u32 = 10_000;

/// The number of a task, in the order of their starts; the root task is 0.
pub type TaskId = usize;

/// The status of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Ready,
    /// It waits for a condition, or only for time to pass.
    Waiting {
        condition: Option<u32>,
        deadline: Option<Duration>,
    },
    Joining(TaskId),
    /// True if its body returned.
    Ended(bool),
}

struct Task {
    name: String,
    status: Status,
    weight: u64,
    /// Counts the blocks of the task, so that a late wake-up does not end a later block.
    ticket: u64,
    calls_while_off: u32,
}

type Body = Box<dyn FnOnce() + Send>;

/// The mutable part of the machine.
struct State {
    tasks: Vec<Task>,
    /// Tasks that are started, but have no coroutine yet.
    born: Vec<(TaskId, Body)>,
    current: TaskId,
    now: Duration,
    steps: u64,
    rng: Rng,
    draws: Rng,
    trace: Trace,
    panics: Vec<String>,
    conditions: u32,
    /// Whether blocked tasks record their stacks when they are resumed.
    asking: bool,
    stacks: String,
}

/// The frequency at which tasks yield where they need not: once in this many times.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// At interleave points and notifications.
    pub interleave: u64,
    /// At file operations.
    pub io: u64,
    /// At waits, which then return early.
    pub early: u64,
}

/// The time of a power failure that is not at a file operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PowerCut {
    /// Never.
    #[default]
    Never,
    /// At this switch between tasks.
    AtStep(u64),
}

/// The machine that runs the tasks.
pub struct Machine {
    state: Mutex<State>,
    off: AtomicBool,
    crashed: AtomicBool,
    pub(crate) pace: Pace,
}

/// The reason why the machine stopped.
pub(crate) enum Stop {
    RootEnded,
    Crashed,
    Deadlock(String),
    StepLimit(String),
}

impl Machine {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let draws = rng.fork(1);
        let pace = Pace {
            interleave: *rng.pick(&[2, 2, 5, 20, 100]),
            io: *rng.pick(&[1, 2, 2, 5, 30]),
            early: *rng.pick(&[10, 100, 1_000_000]),
        };
        let state = State {
            tasks: Vec::new(),
            born: Vec::new(),
            current: 0,
            now: Duration::from_micros(1),
            steps: 0,
            rng,
            draws,
            trace: Trace::default(),
            panics: Vec::new(),
            conditions: 0,
            asking: false,
            stacks: String::new(),
        };
        Self {
            state: Mutex::new(state),
            off: AtomicBool::new(false),
            crashed: AtomicBool::new(false),
            pace,
        }
    }

    /// Whether the machine is switched off.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.off.load(Ordering::Relaxed)
    }

    /// Virtual time. Each call takes a little of it, so that a loop of such calls ends.
    #[must_use]
    pub fn now(&self) -> Duration {
        let mut state = self.state.lock();
        state.now += Duration::from_nanos(100);
        state.now
    }

    /// A random number for the engine.
    #[must_use]
    pub fn random(&self) -> u64 {
        let mut state = self.state.lock();
        let number = state.draws.u64();
        state.note(What::Random, "", number);
        number
    }

    /// True once in `n`, from the machine's own stream.
    pub(crate) fn one_in(&self, n: u64) -> bool {
        self.state.lock().rng.one_in(n)
    }

    pub(crate) fn below(&self, n: u64) -> u64 {
        self.state.lock().rng.below(n)
    }

    pub(crate) fn note(&self, what: What, kind: &'static str, detail: u64) {
        self.state.lock().note(what, kind, detail);
    }

    pub(crate) fn new_condition(&self) -> u32 {
        let mut state = self.state.lock();
        state.conditions += 1;
        state.conditions
    }

    /// Starts a task.
    pub(crate) fn spawn(&self, name: &str, background: bool, body: Body) -> TaskId {
        let id = {
            let mut state = self.state.lock();
            let weight = *state.rng.pick(&[1, 10, 10, 100]);
            let id = state.tasks.len();
            state.tasks.push(Task {
                name: name.to_owned(),
                status: Status::Ready,
                weight: if background { weight } else { weight * 2 },
                ticket: 0,
                calls_while_off: 0,
            });
            state.born.push((id, body));
            state.note(What::Spawn, "", id as u64);
            id
        };
        if generator::is_generator() {
            self.give_way(self.pace.interleave);
        }
        id
    }

    /// Yields once in `n`.
    pub(crate) fn give_way(&self, n: u64) {
        if self.is_off() || (!std::thread::panicking() && self.one_in(n)) {
            self.block(Status::Ready);
        }
    }

    /// Lets virtual time pass for the current task.
    pub(crate) fn sleep(&self, span: Duration) {
        let deadline = Some(self.state.lock().now + span);
        self.block(Status::Waiting { condition: None, deadline });
    }

    /// The current task and its ticket, for a condition's list of waiters.
    pub(crate) fn ticket(&self) -> (TaskId, u64) {
        let state = self.state.lock();
        (state.current, state.tasks[state.current].ticket)
    }

    /// Makes a waiter ready, unless its wait has ended.
    pub(crate) fn wake(&self, (task, ticket): (TaskId, u64)) -> bool {
        let task = &mut self.state.lock().tasks[task];
        let waits = task.ticket == ticket && matches!(task.status, Status::Waiting { .. });
        if waits {
            task.status = Status::Ready;
        }
        waits
    }

    /// Waits for a task to end. True if its body returned.
    pub(crate) fn join(&self, id: TaskId) -> bool {
        self.note(What::Join, "", id as u64);
        loop {
            if let Status::Ended(well) = self.state.lock().tasks[id].status {
                return well;
            }
            if self.is_off() || std::thread::panicking() {
                self.block(Status::Ready);
                return false;
            }
            self.block(Status::Joining(id));
        }
    }

    /// Gives up the processor until the status is `Ready` again. When the machine is off this
    /// unwinds the task, or returns at once if the task unwinds already.
    pub(crate) fn block(&self, status: Status) {
        if !generator::is_generator() {
            assert!(self.is_off(), "only tasks of the machine can wait");
            return;
        }
        if self.is_off() || std::thread::panicking() {
            return self.called_while_off();
        }
        {
            let mut state = self.state.lock();
            let current = state.current;
            state.tasks[current].status = status;
        }
        switch();
        let mut state = self.state.lock();
        if state.asking {
            let stack = Backtrace::force_capture().to_string();
            let current = state.current;
            let text = describe(&state.tasks[current], current, &stack);
            state.stacks.push_str(&text);
        }
        let current = state.current;
        state.tasks[current].ticket += 1;
        drop(state);
        if self.is_off() {
            self.called_while_off();
        }
    }

    /// Handles a call that would block while the machine is off.
    fn called_while_off(&self) {
        let stuck = {
            let mut state = self.state.lock();
            let current = state.current;
            let task = &mut state.tasks[current];
            task.calls_while_off += 1;
            task.calls_while_off > CALLS_WHILE_OFF_MAX
        };
        if stuck {
            loop {
                switch();
            }
        }
        if !std::thread::panicking() {
            resume_unwind(Box::new(Stopped));
        }
    }

    /// Loses power: no task continues.
    pub(crate) fn crash(&self) {
        self.note(What::Crash, "", 0);
        self.crashed.store(true, Ordering::Relaxed);
        self.off.store(true, Ordering::Relaxed);
        self.block(Status::Ready);
    }

    /// Runs the root task and all tasks that it starts, until the root ends or no task can run.
    /// `ending` returns the number of tasks that are about to end and do not count as running.
    pub(crate) fn run(
        self: &Arc<Self>,
        root: Body,
        steps_max: u64,
        cut: PowerCut,
        ending: impl FnOnce() -> usize,
    ) -> Report {
        self.spawn("root", false, root);
        let mut coroutines = Vec::new();
        let stop = loop {
            self.deliver(&mut coroutines);
            if self.crashed.load(Ordering::Relaxed) {
                break Stop::Crashed;
            }
            if matches!(self.state.lock().tasks[0].status, Status::Ended(_)) {
                break Stop::RootEnded;
            }
            if matches!(cut, PowerCut::AtStep(step) if self.state.lock().steps >= step) {
                break Stop::Crashed;
            }
            let Some(next) = self.state.lock().next() else {
                break Stop::Deadlock(self.stacks(&mut coroutines));
            };
            if self.state.lock().steps > steps_max {
                let tail = self.state.lock().trace.tail();
                break Stop::StepLimit(format!("{tail}{}", self.stacks(&mut coroutines)));
            }
            self.resume(next, &mut coroutines);
        };
        self.off.store(true, Ordering::Relaxed);
        let running = coroutines.iter().filter(|coroutine| coroutine.is_some()).count() - ending();
        let abandoned = self.switch_off(coroutines);
        let mut state = self.state.lock();
        Report {
            stop,
            hash: state.trace.hash(),
            steps: state.steps,
            time: state.now,
            panics: std::mem::take(&mut state.panics),
            running,
            abandoned,
            tail: state.trace.tail(),
        }
    }

    /// Makes the coroutines of new tasks.
    fn deliver(self: &Arc<Self>, coroutines: &mut Vec<Option<Coroutine>>) {
        let born = std::mem::take(&mut self.state.lock().born);
        for (id, body) in born {
            debug_assert_eq!(id, coroutines.len());
            let machine = self.clone();
            coroutines.push(Some(Gn::<()>::new_opt(STACK_WORDS, move || machine.task(id, body))));
        }
    }

    /// The body of a task's coroutine.
    fn task(&self, id: TaskId, body: Body) {
        let result = catch_unwind(AssertUnwindSafe(body));
        let mut state = self.state.lock();
        if let Err(payload) = &result
            && !payload.is::<Stopped>()
        {
            let name = state.tasks[id].name.clone();
            state.panics.push(format!("task {id} ({name}) panicked: {}", message(&**payload)));
        }
        state.note(What::End, "", u64::from(result.is_ok()));
        state.tasks[id].status = Status::Ended(result.is_ok());
        for task in &mut state.tasks {
            if task.status == Status::Joining(id) {
                task.status = Status::Ready;
            }
        }
        drop(state);
        // Dropped outside the lock, because a payload may hold values of the task.
        drop(result);
    }

    fn resume(&self, id: TaskId, coroutines: &mut [Option<Coroutine>]) {
        let coroutine = coroutines[id].as_mut().expect("a ready task has not ended");
        self.state.lock().current = id;
        coroutine.resume();
        if coroutine.is_done() {
            coroutines[id] = None;
        }
    }

    /// Switches off and collects the stacks of all blocked tasks. This unwinds them, too.
    fn stacks(self: &Arc<Self>, coroutines: &mut Vec<Option<Coroutine>>) -> String {
        self.off.store(true, Ordering::Relaxed);
        self.state.lock().asking = true;
        for id in 0..coroutines.len() {
            if coroutines[id].is_some() {
                self.resume(id, coroutines);
            }
        }
        let mut state = self.state.lock();
        state.asking = false;
        std::mem::take(&mut state.stacks)
    }

    /// Unwinds all tasks, the youngest first. Returns the number of tasks that did not end.
    fn switch_off(self: &Arc<Self>, mut coroutines: Vec<Option<Coroutine>>) -> usize {
        self.deliver(&mut coroutines);
        let mut abandoned = 0;
        for id in (0..coroutines.len()).rev() {
            if coroutines[id].is_some() && self.state.lock().tasks[id].calls_while_off == 0 {
                self.resume(id, &mut coroutines);
            }
            if let Some(coroutine) = coroutines[id].take() {
                abandoned += 1;
                std::mem::forget(coroutine);
            }
        }
        abandoned
    }
}

type Coroutine = Generator<'static, (), ()>;

/// The result of a run of the machine.
pub(crate) struct Report {
    pub(crate) stop: Stop,
    pub(crate) hash: u64,
    pub(crate) steps: u64,
    pub(crate) time: Duration,
    pub(crate) panics: Vec<String>,
    /// Tasks that had not ended.
    pub(crate) running: usize,
    /// Tasks that did not end even when unwound.
    pub(crate) abandoned: usize,
    pub(crate) tail: String,
}

impl State {
    fn note(&mut self, what: What, kind: &'static str, detail: u64) {
        let entry = Entry { task: self.current, what, kind, detail, at: self.now };
        self.trace.note(entry);
    }

    /// The next task to run; none if no task can ever run.
    fn next(&mut self) -> Option<TaskId> {
        self.steps += 1;
        self.now += Duration::from_nanos(self.rng.between(200, 5_000));
        self.wake_due();
        if !self.tasks.iter().any(|task| task.status == Status::Ready) {
            let earliest = self.tasks.iter().filter_map(deadline).min()?;
            self.now = self.now.max(earliest);
            self.wake_due();
        }
        let ready = |task: &&Task| task.status == Status::Ready;
        let total = self.tasks.iter().filter(ready).map(|task| task.weight).sum();
        let mut drawn = self.rng.below(total);
        let next = self.tasks.iter().position(|task| {
            let ready = task.status == Status::Ready;
            if ready && drawn < task.weight {
                return true;
            }
            drawn -= if ready { task.weight } else { 0 };
            false
        })?;
        if next != self.current {
            self.current = next;
            self.note(What::Run, "", next as u64);
        }
        Some(next)
    }

    fn wake_due(&mut self) {
        let now = self.now;
        for task in &mut self.tasks {
            if deadline(task).is_some_and(|deadline| deadline <= now) {
                task.status = Status::Ready;
            }
        }
    }
}

fn deadline(task: &Task) -> Option<Duration> {
    match task.status {
        Status::Waiting { deadline, .. } => deadline,
        _ => None,
    }
}

/// Gives the processor back to the machine.
// The handle that replaces it is an argument of the body, which a wait deep in the call stack
// cannot reach.
#[allow(deprecated)]
fn switch() {
    generator::yield_with(());
}

/// The message of a panic.
pub(crate) fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "?".into())
}

/// A blocked task: what it waits for, and the relevant frames of its stack.
fn describe(task: &Task, id: TaskId, stack: &str) -> String {
    let mut text = format!("task {id} ({}): {:?}\n", task.name, task.status);
    let mut lines = stack.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(place) = lines.next_if(|next| next.trim_start().starts_with("at ")) else {
            continue;
        };
        let foreign = ["/rustc/", "/.cargo/", "sim/src/machine.rs", "sim/src/env.rs"];
        if !foreign.iter().any(|part| place.contains(part)) {
            text.push_str(&format!("    {} {}\n", line.trim(), place.trim()));
        }
    }
    text
}
