//! Looks for space while the store is out of it (`shared/space`).
//!
//! 1. The store removes files that it can do without: old WALs kept for reuse, dead SSTs.
//! 2. Edits that wait are appended again, and the WAL's next file is prepared.
//! 3. When none of these waits any more, and there is space for one of the proposed jobs, writes
//!    are accepted again.

use crate::control::Control;
use crate::shared::space::{Look, ROOM, needs};
use std::sync::Arc;
use std::time::Duration;

impl Control {
    /// Starts a look for space when it is due; else returns its time.
    pub fn look_in_time(self: &Arc<Self>) -> Option<Duration> {
        match self.shared.look() {
            Look::Never => None,
            Look::At(time) => Some(time),
            Look::Now => {
                let control = self.clone();
                self.shared.in_background(move || control.look_for_space());
                None
            }
        }
    }

    fn look_for_space(self: &Arc<Self>) {
        for path in self.log.spare() {
            // Not removed is not lost: the next recovery finds and removes it.
            let _ = self.shared.env.fs().remove(&path);
        }
        self.installer.remove_dead();
        if self.installer.waits() && self.shared.free_bytes() >= ROOM {
            self.installer.install_all();
        }
        self.log.prepare_if_starved(self.shared.free_bytes());
        let free = self.shared.free_bytes();
        let wanted = self.proposed(needs).max(ROOM);
        let waits = self.installer.waits() || self.log.is_starved();
        self.shared.looked(free, (!waits).then_some(wanted));
        // The jobs that were proposed may be let go.
        self.mark_known();
        self.shared.channel.wake_all();
    }
}
