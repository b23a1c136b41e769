//! Counted memory: each large object is charged to a gauge as long as it lives.
//!
//! The creator of the object takes a [`Charge`] for it and stores both together. Both are dropped
//! together, on any thread. So a gauge also counts memory that only a forgotten reader holds.
//!
//! Threads and locks: relaxed atomics, no lock. A gauge is for objects of kilobytes: it changes
//! when they are created and dropped, never when they are used.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes held for one purpose. Clones are the same gauge.
#[derive(Debug, Clone, Default)]
pub struct Gauge(Arc<AtomicU64>);

impl Gauge {
    /// Bytes held now.
    #[must_use]
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Counts these bytes until the charge is dropped.
    #[must_use]
    pub fn charge(&self, bytes: u64) -> Charge {
        self.0.fetch_add(bytes, Relaxed);
        Charge { gauge: self.clone(), bytes }
    }
}

/// A number of bytes counted on a gauge. Dropping the charge subtracts them.
#[derive(Debug)]
pub struct Charge {
    gauge: Gauge,
    bytes: u64,
}

impl Charge {
    /// The number of bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Changes the number of bytes.
    pub fn set(&mut self, bytes: u64) {
        if bytes >= self.bytes {
            self.gauge.0.fetch_add(bytes - self.bytes, Relaxed);
        } else {
            self.gauge.0.fetch_sub(self.bytes - bytes, Relaxed);
        }
        self.bytes = bytes;
    }

    /// Moves the bytes to another gauge.
    pub fn move_to(&mut self, gauge: &Gauge) {
        // Adds before it subtracts: for a moment too much is counted, never too little.
        *self = gauge.charge(self.bytes);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.gauge.0.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_come_move_and_go() {
        let (held, pinned) = (Gauge::default(), Gauge::default());
        let mut charge = held.charge(100);
        let other = held.charge(1);
        charge.set(150);
        charge.set(40);
        assert_eq!((held.get(), charge.bytes()), (41, 40));
        charge.move_to(&pinned);
        assert_eq!((held.get(), pinned.get()), (1, 40));
        drop((charge, other));
        assert_eq!((held.get(), pinned.get()), (0, 0));
    }
}
