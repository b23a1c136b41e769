//! Threads that come and go: started when there is work for one more, ended when there is none.
//!
//! The owner decides when. A member of a [`Crew`] that has nothing to do until a notification has
//! no thread meanwhile, if the environment has a [`Waker`](crate::waker::Waker).
//!
//! A member ends when its body says so. [`Crew::join`] waits for that, so no body runs after its
//! owner has ended. It does not wait for the last instructions of the thread: a niced thread may
//! not get the processor for them for a long time.
//!
//! Locks: one, held for a few instructions; not while a thread is started.

use crate::env::{Condition, Env, Priority};
use crate::waker::{Dormant, Left, Thread};
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// A thread without work ends after this time.
pub const STAYS: Duration = Duration::from_secs(3);

/// How a member goes on when its body has returned.
pub enum Next {
    /// It ends.
    End,
    /// Its body is called again after the next notification of the condition after this epoch.
    Await(Arc<dyn Condition>, u64),
    /// Its body is called again, when another thread may have been found. Only on a thread that was
    /// [lent](Thread::Lent).
    GoOn,
    /// The same, a little later: the body would wait for a time.
    Retry,
}

/// Members of one owner.
pub struct Crew {
    env: Arc<dyn Env>,
    shared: Arc<Shared>,
}

struct Shared {
    count: Mutex<Count>,
    /// A member has ended.
    ended: Arc<dyn Condition>,
}

#[derive(Default)]
struct Count {
    members: usize,
    /// Whether a member has ever panicked.
    panicked: bool,
}

/// A body, with a thread or without. The fields are dropped in this order.
struct Member {
    body: Box<dyn Fn(Thread) -> Next + Send + Sync>,
    name: String,
    priority: Priority,
    env: Arc<dyn Env>,
    counted: Counted,
}

/// Counts a member as long as it exists.
struct Counted(Arc<Shared>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.count.lock().members -= 1;
        self.0.ended.notify();
    }
}

/// Notes a panic of a body.
struct NotePanic<'a>(&'a Shared);

impl Drop for NotePanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.count.lock().panicked = true;
        }
    }
}

impl Member {
    /// Calls the body until it ends, waits without a thread, or leaves the lent thread.
    fn run(self: &Arc<Self>, thread: Thread) -> Left {
        let _noting = NotePanic(&self.counted.0);
        loop {
            match (self.body)(thread) {
                Next::End => return Left::Done,
                Next::GoOn if thread == Thread::Lent => return Left::GoOn,
                Next::Retry if thread == Thread::Lent => return Left::Soon,
                Next::GoOn | Next::Retry => {}
                Next::Await(condition, epoch) => {
                    if self.suspend(&*condition, epoch) {
                        return Left::Done;
                    }
                    if thread == Thread::Lent {
                        return Left::Soon;
                    }
                    condition.wait(epoch, None);
                }
            }
        }
    }

    /// Gives up the thread until the next notification. Returns false if it is to wait itself.
    fn suspend(self: &Arc<Self>, condition: &dyn Condition, epoch: u64) -> bool {
        let Some(waker) = self.env.waker() else { return false };
        let member = self.clone();
        let work = Dormant {
            env: self.env.clone(),
            name: self.name.clone(),
            priority: self.priority,
            go_on: Arc::new(move |thread| member.run(thread)),
        };
        waker.suspend(work, condition, epoch)
    }
}

impl Crew {
    /// A crew without members.
    #[must_use]
    pub fn new(env: &Arc<dyn Env>) -> Self {
        let ended = env.condition(Duration::ZERO);
        Self { env: env.clone(), shared: Arc::new(Shared { count: Mutex::default(), ended }) }
    }

    /// Runs `body` on a new thread, again and again, until it returns [`Next::End`].
    ///
    /// # Errors
    /// The system's error if it starts no more threads. `body` does not run then.
    pub fn start(
        &self,
        name: &str,
        priority: Priority,
        body: impl Fn(Thread) -> Next + Send + Sync + 'static,
    ) -> io::Result<()> {
        self.shared.count.lock().members += 1;
        let member = Arc::new(Member {
            body: Box::new(body),
            name: name.to_owned(),
            priority,
            env: self.env.clone(),
            counted: Counted(self.shared.clone()),
        });
        let run = move || {
            member.run(Thread::Own);
        };
        self.env.spawn(name, priority, Box::new(run)).map(drop)
    }

    /// Waits for all members to end, and for those that they start meanwhile. The owner has told
    /// them to end, and starts none meanwhile. Returns false if a member has ever panicked.
    pub fn join(&self) -> bool {
        loop {
            let epoch = self.shared.ended.epoch();
            let Count { members, panicked } = *self.shared.count.lock();
            if members == 0 {
                return !panicked;
            }
            self.shared.ended.wait(epoch, None);
            if std::thread::panicking() && !self.env.works_while_panicking() {
                // A machine that is off: its threads end by themselves.
                return false;
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
            let body = move |_| {
                if depth > 1 {
                    chain(&next, &count, depth - 1);
                }
                count.fetch_add(1, Ordering::SeqCst);
                Next::End
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
    fn a_panic_is_remembered() {
        let env: Arc<dyn Env> = RealEnv::new();
        let crew = Crew::new(&env);
        fn planned() -> Next {
            std::panic::resume_unwind(Box::new("as planned"));
        }
        crew.start("bad", Priority::Normal, |_| planned()).expect("started");
        assert!(!crew.join());
        crew.start("good", Priority::Normal, |_| Next::End).expect("started");
        assert!(!crew.join(), "still known");
    }
}
