//! The counted reference in every handle to an open store: dropping the last one closes the store.
//! [`Db`](crate::Db), [`Keyspace`](crate::Keyspace), [`Snapshot`](crate::Snapshot),
//! [`Transaction`](crate::Transaction) and [`Iter`](crate::Iter) are such handles.
//!
//! A panic that drops the last handle also closes the store, because workers must not continue with
//! files whose lock is released. The panic has left the engine's own frames by then, and has
//! released every lock of the engine, because each call borrows a handle. On a simulated machine a
//! task that unwinds does nothing, because the machine stops all tasks.

use crate::close::close;
use crate::engine::Engine;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A reference that keeps a store open.
#[derive(Clone)]
pub(crate) struct Handle {
    engine: Arc<Engine>,
    _last: Arc<CloseOnDrop>,
}

struct CloseOnDrop(Arc<Engine>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        // A caller that needs the result calls `close`.
        if !std::thread::panicking() {
            let _ = close(&self.0);
        } else if self.0.shared.env.works_while_panicking() {
            // A second panic would end the process.
            let _ = catch_unwind(AssertUnwindSafe(|| close(&self.0)));
        }
    }
}

impl Handle {
    pub fn new(engine: Arc<Engine>) -> Self {
        let last = Arc::new(CloseOnDrop(engine.clone()));
        Self { engine, _last: last }
    }
}

impl Deref for Handle {
    type Target = Engine;

    #[inline]
    fn deref(&self) -> &Engine {
        &self.engine
    }
}
