//! Begins a new manifest when its log has grown long: a snapshot of the state, then new edits. The
//! snapshot is written without the leadership; edits of that time are written to both manifests.

use super::Installer;
use crate::sync::atomic::Ordering;
use std::sync::Arc;
use vlsm_core::Result;
use vlsm_disk::manifest::SnapshotWriter;

impl Installer {
    /// Begins a new manifest with a snapshot, if the log has grown long. The snapshot is written
    /// without the leader's lock, so installs continue meanwhile.
    pub(super) fn snapshot_manifest(self: &Arc<Self>) {
        if self.snapshotting.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Err(error) = self.try_snapshot_manifest() {
            self.shared.failed(error);
        }
        self.snapshotting.store(false, Ordering::Release);
    }

    fn try_snapshot_manifest(self: &Arc<Self>) -> Result<()> {
        let begun: SnapshotWriter = {
            let Some(mut leader) = self.lead() else { return Ok(()) };
            if !leader.manifest.snapshot_needed(self.shared.options.manifest_bytes.0)
                || !self.shared.health.is_good()
            {
                return Ok(());
            }
            let state = leader.state.clone();
            leader.manifest.begin_snapshot(state)
        };
        let written = begun.write();
        loop {
            let epoch = self.shared.channel.room_epoch();
            if let Some(mut leader) = self.lead() {
                let written = written.inspect_err(|_| leader.manifest.abort_snapshot())?;
                let old = leader.manifest.finish_snapshot(written)?;
                self.shared.counters.manifest_bytes.add(leader.manifest.len());
                // If this fails, the next recovery finds and removes the file.
                let _ = self.shared.env.fs().remove(&old);
                return Ok(());
            }
            self.shared.channel.wait_for_room(epoch, None);
        }
    }
}
