//! Looks for free space while the device is full (`shared/space`).
//!
//! 1. Files that the store does not need are removed: old WALs kept for reuse, and dead SSTs.
//! 2. Waiting edits are appended again, and the next WAL file is prepared.
//! 3. When none of these waits any more, and there is space for the largest of the proposed jobs,
//!    writes are accepted again.

use crate::control::Control;
use crate::shared::space::{Look, ROOM, needs};
use std::sync::Arc;
use std::time::Duration;

impl Control {
    /// Starts a look for space if it is due; otherwise returns its time.
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
            // If this fails, the next recovery finds and removes the file.
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
        // There may be space for the proposed jobs now.
        self.mark_known();
        self.shared.channel.wake_all();
    }
}
