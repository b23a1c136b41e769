//! The options of the three axes in one value that can be written to a file and read back.
//!
//! In a file, the sizes of the tree and the options of each mechanism are tables of their own:
//!
//! ```toml
//! profile = "rocksdb"          # what the others change; `vlsm` where it is left out
//! schedule = "silk"
//! [tree]
//! memtable_bytes = "128M"
//! [silk]
//! window = 20_000
//! ```
//!
//! An option that only one table has may stand outside of it, as in files that were written before
//! there were tables.

use crate::admission::{self, Admission, AdmissionOptions};
use crate::mechanism::{Entry, take};
use crate::names::unknown;
use crate::schedule::{self, Schedule, ScheduleOptions};
use crate::shape::{self, Shape, ShapeOptions};
use crate::smaller::{Pick, Scale};
use crate::tree::TreeOptions;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use toml::Table;
use vlsm_core::{Bytes, Result};

/// The mechanisms of a tree, and their sizes. [`Default`] is the profile `vlsm`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Table")]
#[non_exhaustive]
pub struct PolicyOptions {
    /// Name of the shape: one of [`shape::REGISTRY`].
    pub shape: String,
    /// Name of the schedule: one of [`schedule::REGISTRY`].
    pub schedule: String,
    /// Name of the admission: one of [`admission::REGISTRY`].
    pub admission: String,
    /// Sizes and bounds that all mechanisms share.
    pub tree: TreeOptions,
    /// Options of each shape.
    #[serde(flatten)]
    pub shapes: ShapeOptions,
    /// Options of each schedule.
    #[serde(flatten)]
    pub schedules: ScheduleOptions,
    /// Options of each admission.
    #[serde(flatten)]
    pub admissions: AdmissionOptions,
}

/// The three mechanisms that options name.
pub type Policies = (Arc<dyn Shape>, Box<dyn Schedule>, Box<dyn Admission>);

impl Default for PolicyOptions {
    fn default() -> Self {
        Self {
            shape: "vlsm".into(),
            schedule: "fifo".into(),
            admission: "slowdown_stop".into(),
            tree: TreeOptions::default(),
            shapes: ShapeOptions::default(),
            schedules: ScheduleOptions::default(),
            admissions: AdmissionOptions::default(),
        }
    }
}

impl PolicyOptions {
    /// vLSM at an SST size: one S_M each for memtables and SSTs, L1 = f · S_M, and Φ such that L2
    /// stays at 2 GB (vLSM (2024), §4.2 and §6.3), but at least f: from SSTs of 64 MB on L2 is
    /// larger.
    #[must_use]
    pub fn vlsm(sst_max: Bytes) -> Self {
        let mut options = Self::default();
        let tree = &mut options.tree;
        let l1_bytes = Bytes(sst_max.0.saturating_mul(tree.growth).max(1));
        (tree.memtable_bytes, tree.sst_max, tree.l1_bytes) = (sst_max, sst_max, l1_bytes);
        options.shapes.vlsm.sst_min = sst_max / tree.growth;
        options.shapes.vlsm.phi = (Bytes::mib(2048).0 / l1_bytes.0).max(tree.growth);
        options
    }

    /// Makes the three mechanisms.
    ///
    /// # Errors
    /// [`vlsm_core::Error::InvalidOption`] with the option and the reason: values that cannot work,
    /// names that are not known, or mechanisms that do not work together.
    #[doc(hidden)]
    pub fn build(&self) -> Result<Policies> {
        self.tree.check()?;
        self.shapes.check()?;
        self.schedules.check()?;
        self.admissions.check()?;
        let tree = &self.tree;
        let shape = find("shape", shape::REGISTRY, &self.shape)?;
        let shape = (shape.make)(tree, &self.shapes)?;
        let schedule = find("schedule", schedule::REGISTRY, &self.schedule)?;
        let schedule = (schedule.make)(tree, &self.schedules)?;
        let admission = find("admission", admission::REGISTRY, &self.admission)?;
        let admission = (admission.make)(tree, &self.admissions)?;
        schedule.check(shape.within_l0())?;
        Ok((Arc::from(shape), schedule, admission))
    }

    /// Makes sizes and durations smaller by the same factor, so that their ratios stay.
    #[doc(hidden)]
    pub fn scale(&mut self, by: Scale) {
        self.tree.scale(by);
        self.shapes.scale(by);
        self.schedules.scale(by);
        self.admissions.scale(by);
    }

    /// Draws sizes and options for a store of a test: `index` draws a number below its argument.
    /// Not all that are drawn work together.
    #[doc(hidden)]
    pub fn shrink(&mut self, index: &mut dyn FnMut(usize) -> usize) {
        let mut pick = Pick(index);
        self.tree.shrink(&mut pick);
        self.shapes.shrink(&self.tree, &mut pick);
        self.schedules.shrink(&self.tree, &mut pick);
        self.admissions.shrink(&self.tree, &mut pick);
    }

    /// The name of the mechanism on an axis.
    pub(crate) fn axis(&mut self, axis: &str) -> Result<&mut String> {
        match axis {
            "shape" => Ok(&mut self.shape),
            "schedule" => Ok(&mut self.schedule),
            "admission" => Ok(&mut self.admission),
            _ => {
                let known = ["shape", "schedule", "admission"];
                Err(unknown("profile, axis", axis, known.into_iter()))
            }
        }
    }
}

/// The mechanism of this name.
fn find<'a, T: ?Sized, O>(
    axis: &'static str,
    entries: &'a [Entry<T, O>],
    name: &str,
) -> Result<&'a Entry<T, O>> {
    let known = entries.iter().map(|entry| entry.name);
    entries.iter().find(|entry| entry.name == name).ok_or_else(|| unknown(axis, name, known))
}

impl PolicyOptions {
    /// Reads the options from a table that has them all.
    pub(crate) fn of_tables(mut all: Table) -> std::result::Result<Self, String> {
        Ok(Self {
            shape: take(&mut all, "shape")?,
            schedule: take(&mut all, "schedule")?,
            admission: take(&mut all, "admission")?,
            tree: take(&mut all, "tree")?,
            shapes: ShapeOptions::take(&mut all)?,
            schedules: ScheduleOptions::take(&mut all)?,
            admissions: AdmissionOptions::take(&mut all)?,
        })
    }
}
