//! The counted reference in every handle to an open store: the store closes with the last of them.
//! [`Db`](crate::Db), [`Keyspace`](crate::Keyspace), [`Snapshot`](crate::Snapshot),
//! [`Transaction`](crate::Transaction) and [`Iter`](crate::Iter) are such handles.

use crate::close::close;
use crate::engine::Engine;
use std::ops::Deref;
use std::sync::Arc;

/// An open store, kept open.
#[derive(Clone)]
pub(crate) struct Handle {
    engine: Arc<Engine>,
    _last: Arc<CloseOnDrop>,
}

struct CloseOnDrop(Arc<Engine>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // A caller that needs the result calls `close`.
            let _ = close(&self.0);
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
