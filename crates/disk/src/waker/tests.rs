//! Members of a crew that have no thread between their turns.

use super::*;
use crate::crew::{Crew, Next};
use crate::env::Join;
use crate::env_real::RealEnv;
use crate::fs::Fs;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The operating system, which may refuse threads, with a waker of its own.
struct Narrow {
    real: Arc<RealEnv>,
    waker: Arc<Waker>,
    refuses: AtomicBool,
    started: AtomicU64,
}

impl Narrow {
    fn new() -> Arc<Self> {
        let (real, waker) = (RealEnv::new(), Arc::default());
        let (refuses, started) = (AtomicBool::new(false), AtomicU64::new(0));
        Arc::new(Self { real, waker, refuses, started })
    }
}

impl Env for Narrow {
    fn fs(&self) -> &Arc<dyn Fs> {
        self.real.fs()
    }
    fn now(&self) -> Duration {
        self.real.now()
    }
    fn wall_clock(&self) -> Duration {
        self.real.wall_clock()
    }
    fn random(&self) -> u64 {
        self.real.random()
    }
    fn spawn(
        &self,
        name: &str,
        priority: Priority,
        body: Box<dyn FnOnce() + Send + 'static>,
    ) -> io::Result<Box<dyn Join>> {
        if self.refuses.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.started.fetch_add(1, Ordering::SeqCst);
        self.real.spawn(name, priority, body)
    }
    fn waker(&self) -> Option<Arc<Waker>> {
        Some(self.waker.clone())
    }
    fn condition(&self, spin: Duration) -> Arc<dyn Condition> {
        self.real.condition(spin)
    }
}

/// A member that counts its turns: one for each notification, and gives up its thread after each.
struct Counter {
    wake: Arc<dyn Condition>,
    done: Arc<dyn Condition>,
    asked: AtomicU64,
    counted: AtomicU64,
    lent: AtomicU64,
    ends: AtomicBool,
}

impl Counter {
    fn start(env: &Arc<dyn Env>, crew: &Crew) -> Arc<Self> {
        let counter = Arc::new(Self {
            wake: env.condition(Duration::ZERO),
            done: env.condition(Duration::ZERO),
            asked: AtomicU64::new(0),
            counted: AtomicU64::new(0),
            lent: AtomicU64::new(0),
            ends: AtomicBool::new(false),
        });
        let member = counter.clone();
        crew.start("counter", Priority::Normal, move |thread| member.turn(thread)).expect("starts");
        counter
    }

    fn turn(&self, thread: Thread) -> Next {
        let epoch = self.wake.epoch();
        if self.ends.load(Ordering::SeqCst) {
            return Next::End;
        }
        let asked = self.asked.load(Ordering::SeqCst);
        if self.counted.swap(asked, Ordering::SeqCst) != asked {
            self.lent.fetch_add(u64::from(thread == Thread::Lent), Ordering::SeqCst);
            self.done.notify();
        }
        Next::Await(self.wake.clone(), epoch)
    }

    /// Asks for a turn, and waits until it was taken.
    fn ask(&self) {
        let asked = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        self.wake.notify();
        loop {
            let epoch = self.done.epoch();
            if self.counted.load(Ordering::SeqCst) == asked {
                return;
            }
            self.done.wait(epoch, None);
        }
    }

    fn end(&self) {
        self.ends.store(true, Ordering::SeqCst);
        self.wake.notify();
    }
}

fn asleep(waker: &Waker) -> usize {
    waker.state.lock().dormant.len()
}

#[test]
fn every_notification_brings_a_turn_and_no_thread_stays() {
    let narrow = Narrow::new();
    let env: Arc<dyn Env> = narrow.clone();
    let crew = Crew::new(&env);
    let counters: Vec<_> = (0..10).map(|_| Counter::start(&env, &crew)).collect();
    for _ in 0..200 {
        counters.iter().for_each(|counter| counter.ask());
    }
    while asleep(&narrow.waker) < counters.len() {
        std::thread::yield_now();
    }
    let started = narrow.started.load(Ordering::SeqCst);
    assert!(started > 11, "only {started} threads: none was given up");
    counters.iter().for_each(|counter| counter.end());
    assert!(crew.join());
    assert_eq!(asleep(&narrow.waker), 0);
    assert!(counters.iter().all(|counter| Arc::strong_count(counter) == 1), "a body is left");
}

#[test]
fn work_goes_on_without_a_thread_of_its_own() {
    let narrow = Narrow::new();
    let env: Arc<dyn Env> = narrow.clone();
    let crew = Crew::new(&env);
    let counters = [Counter::start(&env, &crew), Counter::start(&env, &crew)];
    while asleep(&narrow.waker) < counters.len() {
        std::thread::yield_now();
    }
    narrow.refuses.store(true, Ordering::SeqCst);
    for _ in 0..100 {
        counters.iter().for_each(|counter| counter.ask());
    }
    for counter in counters {
        assert_eq!(counter.lent.load(Ordering::SeqCst), 100);
        counter.end();
    }
    assert!(crew.join());
}

#[test]
fn without_a_thread_for_the_waker_members_wait_themselves() {
    let narrow = Narrow::new();
    let env: Arc<dyn Env> = narrow.clone();
    let crew = Crew::new(&env);
    // The turn begins with the refusal, so the first attempt to give up the thread fails.
    let refuses = narrow.clone();
    let (wake, turns) = (env.condition(Duration::ZERO), Arc::new(AtomicU64::new(0)));
    let (awaited, counted) = (wake.clone(), turns.clone());
    let body = move |_| {
        refuses.refuses.store(true, Ordering::SeqCst);
        let epoch = awaited.epoch();
        match counted.fetch_add(1, Ordering::SeqCst) {
            0 => Next::Await(awaited.clone(), epoch),
            _ => Next::End,
        }
    };
    crew.start("waits", Priority::Normal, body).expect("starts");
    while turns.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    // It may still be before its wait, which then ends at once.
    wake.notify();
    assert!(crew.join());
    assert_eq!(turns.load(Ordering::SeqCst), 2);
    assert_eq!(narrow.started.load(Ordering::SeqCst), 1);
}

#[test]
fn a_panic_on_the_lent_thread_ends_only_its_member() {
    let narrow = Narrow::new();
    let env: Arc<dyn Env> = narrow.clone();
    let (good, bad) = (Crew::new(&env), Crew::new(&env));
    let counter = Counter::start(&env, &good);
    let (wake, first) = (env.condition(Duration::ZERO), AtomicBool::new(true));
    let awaited = wake.clone();
    let body = move |_| {
        if !first.swap(false, Ordering::SeqCst) {
            std::panic::resume_unwind(Box::new("as planned"));
        }
        Next::Await(awaited.clone(), awaited.epoch())
    };
    bad.start("bad", Priority::Normal, body).expect("starts");
    while asleep(&narrow.waker) < 2 {
        std::thread::yield_now();
    }
    narrow.refuses.store(true, Ordering::SeqCst);
    wake.notify();
    assert!(!bad.join());
    counter.ask();
    counter.end();
    assert!(good.join());
}
