//! The operating system's environment, of which a test alters a part.
#![allow(dead_code, reason = "each test program alters another part")]

use std::io;
use std::sync::Arc;
use std::time::Duration;
use vlsm::{Env, SlowPath};
use vlsm_disk::env::{Condition, Join, Priority};
use vlsm_disk::env_real::RealEnv;
use vlsm_disk::fs::Fs;
use vlsm_disk::waker::Waker;

type Hook<R> = Box<dyn Fn(&RealEnv) -> R + Send + Sync>;

/// An environment that passes all calls on to another one, except those that are replaced.
pub struct Altered {
    real: Arc<RealEnv>,
    /// The time of day.
    pub wall_clock: Hook<Duration>,
    /// Asked before a thread is started.
    pub may_start: Hook<io::Result<()>>,
    /// The things that are slower on this machine.
    pub slow_paths: Hook<Vec<SlowPath>>,
    /// Called where tasks may be interleaved.
    pub interleave: Hook<()>,
}

impl Altered {
    /// An environment in which nothing is replaced yet.
    pub fn of(real: Arc<RealEnv>) -> Self {
        Self {
            real,
            wall_clock: Box::new(|real| real.wall_clock()),
            may_start: Box::new(|_| Ok(())),
            slow_paths: Box::new(|real| real.slow_paths()),
            interleave: Box::new(|_| {}),
        }
    }
}

impl Env for Altered {
    fn fs(&self) -> &Arc<dyn Fs> {
        self.real.fs()
    }
    fn now(&self) -> Duration {
        self.real.now()
    }
    fn wall_clock(&self) -> Duration {
        (self.wall_clock)(&self.real)
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
        (self.may_start)(&self.real)?;
        self.real.spawn(name, priority, body)
    }
    fn slow_paths(&self) -> Vec<SlowPath> {
        (self.slow_paths)(&self.real)
    }
    fn waker(&self) -> Option<Arc<Waker>> {
        self.real.waker()
    }
    fn condition(&self, spin: Duration) -> Arc<dyn Condition> {
        self.real.condition(spin)
    }
    fn interleave(&self) {
        (self.interleave)(&self.real);
    }
}
