//! The simulated machine as the engine's environment, and the call that runs something on it.
//!
//! A run has a thread of its own. Thread-local state ends with it, and so does the panic count of a
//! task that was abandoned in the middle of unwinding. The caller's clock notices a run that blocks
//! for real, on a lock held across a wait.

use crate::device::{Device, DeviceConfig, DeviceReport};
use crate::disk::Disk;
use crate::machine::{Machine, PowerCut, Status, Stop, TaskId};
use crate::trace::What;
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;
use vlsm_disk::Fs;
use vlsm_disk::env::{Condition, Env, Join, Priority};
use vlsm_disk::waker::Waker;

/// Real time after which a run counts as hung.
const HUNG_AFTER: Duration = Duration::from_secs(120);

/// The parameters of a run.
#[derive(Debug, Clone)]
pub struct SimConfig {
    /// The seed decides everything that the code under test does not decide.
    pub seed: u64,
    /// The wall clock when the run begins, in time since the Unix epoch.
    pub wall_clock: Duration,
    /// The number of switches between tasks after which the run counts as a livelock.
    pub steps_max: u64,
    /// The time of a power failure that is not at a file operation.
    pub power_cut: PowerCut,
    /// The disk's faults, speed and crash point.
    pub device: DeviceConfig,
}

impl SimConfig {
    /// The same run on a later day.
    #[must_use]
    pub fn day(mut self, day: u64) -> Self {
        self.wall_clock += Duration::from_secs(86_400) * day as u32;
        self
    }

    /// A run that does not crash.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            wall_clock: Duration::from_secs(1_700_000_000),
            steps_max: 2_000_000,
            power_cut: PowerCut::Never,
            device: DeviceConfig::default(),
        }
    }
}

/// The end of a run.
#[derive(Debug, Clone)]
pub enum End<R> {
    /// The root task returned.
    Done(R),
    /// The machine lost power, as configured.
    Crashed,
    /// A deadlock, a livelock or a panic, described in words.
    Failed(String),
}

/// The result of a run.
#[derive(Debug, Clone)]
pub struct Outcome<R> {
    /// The end of the run.
    pub end: End<R>,
    /// Hash over all events: the same for the same seed.
    pub hash: u64,
    /// Switches between tasks.
    pub steps: u64,
    /// Virtual time at the end.
    pub time: Duration,
    /// Tasks that still ran when the root task returned.
    pub running: usize,
    /// Tasks whose destructors never ended.
    pub abandoned: usize,
    /// Whether something still holds the environment. After the end of a machine nothing may.
    pub leaked: bool,
    /// The calls that the disk received.
    pub device: DeviceReport,
    /// The last events.
    pub tail: String,
}

impl<R> Outcome<R> {
    /// The value that the root task returned.
    ///
    /// # Panics
    /// If it did not return.
    pub fn expect(self, what: &str) -> R {
        match self.end {
            End::Done(result) => result,
            End::Crashed => panic!("{what}: crashed\n{}", self.tail),
            End::Failed(why) => panic!("{what}: {why}\n{}", self.tail),
        }
    }
}

/// The engine's view of the simulated machine.
pub struct SimEnv {
    machine: Arc<Machine>,
    wall_clock: Duration,
    /// The time by which the wall clock was set forward, and that by which it was set back.
    set: Mutex<[Duration; 2]>,
    fs: Arc<dyn Fs>,
    device: Arc<Device>,
    waker: Arc<Waker>,
}

impl SimEnv {
    /// Runs `root` and all tasks that it starts on a machine with this disk, until `root` returns,
    /// the machine crashes, or no task can run.
    ///
    /// # Panics
    /// If the run blocks for real, or the OS gives no thread.
    pub fn run<R: Send + 'static>(
        config: &SimConfig,
        disk: &Disk,
        root: impl FnOnce(Arc<Self>) -> R + Send + 'static,
    ) -> Outcome<R> {
        let (sender, receiver) = mpsc::channel();
        let (config, disk) = (config.clone(), disk.clone());
        let seed = config.seed;
        let body = move || {
            let outcome = Self::run_here(&config, &disk, root);
            let _ = sender.send(outcome);
        };
        let thread = std::thread::Builder::new().name(format!("seed {seed}")).spawn(body);
        let thread = thread.expect("the system gives a thread");
        match receiver.recv_timeout(HUNG_AFTER) {
            Ok(outcome) => {
                let _ = thread.join();
                outcome
            }
            Err(_) => panic!("seed {seed}: hung; is a lock held over a wait or a file operation?"),
        }
    }

    fn run_here<R: Send + 'static>(
        config: &SimConfig,
        disk: &Disk,
        root: impl FnOnce(Arc<Self>) -> R + Send + 'static,
    ) -> Outcome<R> {
        let machine = Arc::new(Machine::new(config.seed));
        let device = Arc::new(Device::new(machine.clone(), config.device.clone(), disk));
        let fs: Arc<dyn Fs> = device.clone().mount();
        let env = Arc::new(Self {
            machine: machine.clone(),
            wall_clock: config.wall_clock,
            set: Mutex::default(),
            fs,
            device: device.clone(),
            waker: Arc::default(),
        });
        let (held, waker) = (Arc::downgrade(&env), env.waker.clone());
        let result = Arc::new(Mutex::new(None));
        let slot = result.clone();
        let body = Box::new(move || {
            let value = root(env);
            *slot.lock() = Some(value);
        });
        let ending = || usize::from(waker.is_idle());
        let report = machine.run(body, config.steps_max, config.power_cut, ending);
        let end = match (report.stop, report.panics.is_empty(), result.lock().take()) {
            (_, false, _) => End::Failed(report.panics.join("\n")),
            (Stop::Deadlock(stacks), ..) => End::Failed(format!("deadlock:\n{stacks}")),
            (Stop::StepLimit(stacks), ..) => End::Failed(format!("livelock:\n{stacks}")),
            (Stop::Crashed, ..) => End::Crashed,
            (Stop::RootEnded, _, Some(value)) => End::Done(value),
            (Stop::RootEnded, _, None) => End::Failed("the root task vanished".into()),
        };
        Outcome {
            end,
            hash: report.hash,
            steps: report.steps,
            time: report.time,
            running: report.running,
            abandoned: report.abandoned,
            leaked: held.strong_count() > 0,
            device: device.report(),
            tail: report.tail,
        }
    }

    /// Lets virtual time pass for the calling task.
    pub fn sleep(&self, span: Duration) {
        self.machine.sleep(span);
    }

    /// Sets the wall clock forward.
    pub fn set_clock_forward(&self, by: Duration) {
        self.set.lock()[0] += by;
    }

    /// Sets the wall clock back.
    pub fn set_clock_back(&self, by: Duration) {
        self.set.lock()[1] += by;
    }

    /// The disk's switches and counters.
    #[must_use]
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Starts a task that returns a value; the handle waits for it.
    pub fn task<R: Send + 'static>(
        self: &Arc<Self>,
        name: &str,
        body: impl FnOnce() -> R + Send + 'static,
    ) -> TaskHandle<R> {
        let slot = Arc::new(Mutex::new(None));
        let result = slot.clone();
        let run = Box::new(move || {
            let value = body();
            *slot.lock() = Some(value);
        });
        TaskHandle { join: self.start(name, Priority::Normal, run), result }
    }

    fn start(
        &self,
        name: &str,
        priority: Priority,
        body: Box<dyn FnOnce() + Send + 'static>,
    ) -> Box<dyn Join> {
        let task = self.machine.spawn(name, priority == Priority::Background, body);
        Box::new(SimJoin { machine: self.machine.clone(), task })
    }
}

/// A handle to wait for a task's result.
pub struct TaskHandle<R> {
    join: Box<dyn Join>,
    result: Arc<Mutex<Option<R>>>,
}

impl<R> TaskHandle<R> {
    /// Waits for the task. None if it ended without a result.
    pub fn join(self) -> Option<R> {
        self.join.join();
        self.result.lock().take()
    }
}

impl Env for SimEnv {
    fn works_while_panicking(&self) -> bool {
        false
    }

    fn fs(&self) -> &Arc<dyn Fs> {
        &self.fs
    }

    fn now(&self) -> Duration {
        self.machine.now()
    }

    fn wall_clock(&self) -> Duration {
        let [forward, back] = *self.set.lock();
        self.wall_clock + self.machine.now() + forward - back
    }

    fn random(&self) -> u64 {
        self.machine.random()
    }

    fn spawn(
        &self,
        name: &str,
        priority: Priority,
        body: Box<dyn FnOnce() + Send + 'static>,
    ) -> io::Result<Box<dyn Join>> {
        self.device.start_thread()?;
        if self.machine.is_off() {
            // A thread that unwinds already goes on, and starts none: nobody would end it.
            self.machine.give_way(1);
            return Err(io::Error::other("the machine is off"));
        }
        Ok(self.start(name, priority, body))
    }

    fn waker(&self) -> Option<Arc<Waker>> {
        Some(self.waker.clone())
    }

    fn condition(&self, _spin: Duration) -> Arc<dyn Condition> {
        Arc::new(SimCondition {
            id: self.machine.new_condition(),
            machine: self.machine.clone(),
            epoch: AtomicU64::new(0),
            waiters: Mutex::default(),
            calls: Mutex::default(),
        })
    }

    fn interleave(&self) {
        self.machine.give_way(self.machine.pace.interleave);
    }
}

struct SimJoin {
    machine: Arc<Machine>,
    task: TaskId,
}

impl Join for SimJoin {
    fn join(self: Box<Self>) -> bool {
        self.machine.join(self.task)
    }
}

struct SimCondition {
    machine: Arc<Machine>,
    id: u32,
    epoch: AtomicU64,
    waiters: Mutex<Vec<(TaskId, u64)>>,
    /// Calls in the next notification.
    calls: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
}

impl SimCondition {
    fn call(&self) {
        let calls = std::mem::take(&mut *self.calls.lock());
        calls.into_iter().for_each(|call| call());
    }
}

impl Condition for SimCondition {
    fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed)
    }

    fn wait(&self, epoch: u64, deadline: Option<Duration>) -> bool {
        self.machine.note(What::Wait, "", u64::from(self.id));
        self.machine.give_way(self.machine.pace.interleave);
        if self.epoch() != epoch || self.machine.one_in(self.machine.pace.early) {
            return true;
        }
        if deadline.is_some_and(|deadline| deadline <= self.machine.now()) {
            return false;
        }
        {
            let mut waiters = self.waiters.lock();
            let own = self.machine.ticket();
            // Older entries of this task belong to waits that ended at their deadline.
            waiters.retain(|waiter| waiter.0 != own.0);
            waiters.push(own);
        }
        self.machine.block(Status::Waiting { condition: Some(self.id), deadline });
        self.epoch() != epoch || self.machine.is_off()
    }

    fn notify(&self) {
        self.epoch.fetch_add(1, Ordering::Relaxed);
        self.machine.note(What::Notify, "", u64::from(self.id));
        let waiters = std::mem::take(&mut *self.waiters.lock());
        for waiter in waiters {
            self.machine.wake(waiter);
        }
        self.call();
    }

    fn notify_one(&self) {
        self.epoch.fetch_add(1, Ordering::Relaxed);
        self.machine.note(What::Notify, "one", u64::from(self.id));
        self.call();
        let mut waiters = self.waiters.lock();
        while !waiters.is_empty() {
            let any = self.machine.below(waiters.len() as u64) as usize;
            // One whose wait has ended at its deadline is not a waiter any more.
            if self.machine.wake(waiters.swap_remove(any)) {
                return;
            }
        }
    }

    fn on_notify(&self, epoch: u64, call: Box<dyn FnOnce() + Send>) -> bool {
        let is_new = self.epoch() == epoch;
        if is_new {
            self.calls.lock().push(call);
        }
        is_new
    }
}
