//! Threads that come and go: started when there is work for one more, ended when there is none.
//!
//! The owner decides when; a [`Crew`] keeps the handles, so that no thread works on after its owner
//! has ended. A thread whose body has returned gives up its own handle. Nobody waits for its last
//! instructions: a niced thread may not get the processor for them for a long time.
//!
//! Locks: one, held for a few instructions; not while a thread is started or joined.

use crate::env::{Env, Join, Priority};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// A thread without work ends after this time.
pub const STAYS: Duration = Duration::from_secs(3);

/// Threads of one owner.
pub struct Crew {
    env: Arc<dyn Env>,
    members: Arc<Mutex<Members>>,
}

#[derive(Default)]
struct Members {
    /// The threads by number.
    threads: BTreeMap<u64, Thread>,
    next: u64,
    /// Whether a thread has panicked.
    panicked: bool,
}

enum Thread {
    /// It is being started: its handle is not here yet.
    Starting,
    /// It has ended before its handle was here.
    EndedEarly,
    Running(Box<dyn Join>),
}

impl Members {
    /// A number for a thread that is being started.
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.threads.insert(self.next, Thread::Starting);
        self.next
    }

    /// Keeps the handle of a thread that was started, unless it has ended.
    fn started(&mut self, number: u64, handle: Box<dyn Join>) {
        if let Some(Thread::Starting) = self.threads.remove(&number) {
            self.threads.insert(number, Thread::Running(handle));
        }
    }

    /// Gives up the handle of a thread that ends.
    fn ended(&mut self, number: u64) {
        if let Some(Thread::Starting) = self.threads.remove(&number) {
            self.threads.insert(number, Thread::EndedEarly);
        }
    }

    /// Takes all handles.
    fn take(&mut self) -> Vec<Box<dyn Join>> {
        let (running, starting): (BTreeMap<_, _>, _) = std::mem::take(&mut self.threads)
            .into_iter()
            .partition(|(_, thread)| matches!(thread, Thread::Running(_)));
        self.threads = starting;
        let handle = |thread| match thread {
            Thread::Running(handle) => Some(handle),
            Thread::Starting | Thread::EndedEarly => None,
        };
        running.into_values().filter_map(handle).collect()
    }
}

/// Notes the end of a thread's body, also when it unwinds.
struct Ends(Arc<Mutex<Members>>, u64);

impl Drop for Ends {
    fn drop(&mut self) {
        let mut members = self.0.lock();
        members.panicked |= std::thread::panicking();
        members.ended(self.1);
    }
}

impl Crew {
    /// A crew without threads.
    #[must_use]
    pub fn new(env: &Arc<dyn Env>) -> Self {
        Self { env: env.clone(), members: Arc::default() }
    }

    /// Runs `body` on a new thread.
    ///
    /// # Errors
    /// The system's error if it starts no more threads. `body` does not run then.
    pub fn start(
        &self,
        name: &str,
        priority: Priority,
        body: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        let number = self.members.lock().number();
        let members = self.members.clone();
        let run = move || {
            let _ends = Ends(members, number);
            body();
        };
        let started = self.env.spawn(name, priority, Box::new(run));
        let mut members = self.members.lock();
        match started {
            Ok(handle) => {
                members.started(number, handle);
                Ok(())
            }
            Err(error) => {
                members.threads.remove(&number);
                Err(error)
            }
        }
    }

    /// Waits for all threads to end, and for those that they start meanwhile. The owner has told
    /// them to end, and starts none meanwhile. Returns false if a thread of the crew has ever
    /// panicked.
    pub fn join(&self) -> bool {
        loop {
            let all = self.members.lock().take();
            if all.is_empty() {
                return !self.members.lock().panicked;
            }
            for thread in all {
                if !thread.join() {
                    self.members.lock().panicked = true;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env_real::RealEnv;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn threads_that_threads_start_are_joined_too() {
        let env: Arc<dyn Env> = RealEnv::new();
        let (crew, ran) = (Arc::new(Crew::new(&env)), Arc::new(AtomicU64::new(0)));
        /// Starts as many threads as `depth`, one by the other.
        fn chain(crew: &Arc<Crew>, ran: &Arc<AtomicU64>, depth: u64) {
            let (next, count) = (crew.clone(), ran.clone());
            let body = move || {
                if depth > 1 {
                    chain(&next, &count, depth - 1);
                }
                count.fetch_add(1, Ordering::SeqCst);
            };
            crew.start("chain", Priority::Normal, body).expect("started");
        }
        for round in 1..=20 {
            chain(&crew, &ran, 10);
            assert!(crew.join());
            assert_eq!(ran.load(Ordering::SeqCst), round * 10);
        }
    }

    #[test]
    fn an_ended_thread_leaves_nothing_behind() {
        let env: Arc<dyn Env> = RealEnv::new();
        let crew = Crew::new(&env);
        for _ in 0..1_000 {
            crew.start("short", Priority::Normal, || ()).expect("started");
        }
        while !crew.members.lock().threads.is_empty() {
            std::thread::yield_now();
        }
        assert!(crew.join());
    }

    #[test]
    fn a_panic_is_remembered() {
        let env: Arc<dyn Env> = RealEnv::new();
        let crew = Crew::new(&env);
        fn planned() {
            std::panic::resume_unwind(Box::new("as planned"));
        }
        crew.start("bad", Priority::Normal, planned).expect("started");
        assert!(!crew.join());
        crew.start("good", Priority::Normal, || ()).expect("started");
        assert!(!crew.join(), "still known");
    }
}
