//! The claims that cannot be judged although the figure is measured.
//!
//! 1. *Too little evidence.* A phase that a claim compares is too short, its levels are not full,
//!    or the device was slow beside it ([`super::conditions`]). In an overview this decides
//!    nothing.
//! 2. *Small SSTs at a small scale.* Below 1/8 no claim is judged that compares a store whose SSTs
//!    are smaller than RocksDB's 64 MB at the papers' size: there, costs that do not shrink with
//!    the SST dominate. At 1/32 an SST of 8 MB has 256 KB. So the claims about S_M, about good
//!    vSSTs and about the width of chains by the size of SSTs need 1/8 or more.
//! 3. *Debt.* No claim is judged by a phase that left compaction debt
//!    ([`vlsm_measure::report::debt`]), or by a store with levels that does not report its debt. A
//!    measure that contains the work that was left is judged nevertheless: amplification that is
//!    counted until background work ended, `throughput, debt paid` and `CPU per operation, debt
//!    paid`; and so is a measure that is a part of the debt, such as the runs in L0.

use super::conditions::{has_levels, too_little};
use super::judge::{Rounds, phase_of, prove};
use super::result::Verdict;
use super::{Claim, Figure};
use crate::scale::Scale;
use vlsm_core::Bytes;
use vlsm_measure::spec::RunSpec;

/// The size of an SST of the papers' RocksDB. Smaller ones are small.
const SST: Bytes = Bytes::mib(64);

/// The verdict on a claim that cannot be judged, and the reason.
type Doubt = (Verdict, String);

impl Figure {
    /// Returns the reason why these reports cannot judge the claim, if there is one.
    pub(super) fn doubt(
        &self,
        claim: &Claim,
        scale: Scale,
        rounds: &dyn Fn(&RunSpec) -> Rounds,
    ) -> Option<Doubt> {
        if let Some(why) = self.too_small(claim, scale) {
            return Some((Verdict::SmallScale, why));
        }
        self.owes(claim, rounds).map(|why| (Verdict::DebtLeft, why))
    }

    /// The first phase of a claim that has too little evidence.
    pub(super) fn too_little(
        &self,
        claim: &Claim,
        rounds: &dyn Fn(&RunSpec) -> Rounds,
    ) -> Option<String> {
        self.compared(claim).find_map(|(run, name, _)| {
            let reports = rounds(run);
            let proofs = reports.iter().zip(1..).filter_map(|(report, round)| {
                let report = report.as_ref().ok()?;
                prove(report, name, round).ok()
            });
            let why = too_little(&proofs.collect::<Vec<_>>())?;
            Some(format!("{}, {name:?}: {why}", run.store))
        })
    }

    /// The store of a claim that has small SSTs, if the scale is too small for them.
    pub(super) fn too_small(&self, claim: &Claim, scale: Scale) -> Option<String> {
        if scale.judges_small_ssts() {
            return None;
        }
        let sst = |run: &RunSpec| run.store.options.policy.tree.sst_max;
        let small = |run: &RunSpec| sst(run).0.saturating_mul(scale.factor()) < SST.0;
        let (run, ..) = self.compared(claim).find(|(run, ..)| small(run))?;
        let (store, bytes, least) = (&run.store, sst(run), Scale::SMALL_SSTS);
        Some(format!("{store} has SSTs of {bytes} at {scale}; it is judged at {least} and above"))
    }

    /// The first phase of a claim that left debt, or whose store does not report it.
    fn owes(&self, claim: &Claim, rounds: &dyn Fn(&RunSpec) -> Rounds) -> Option<String> {
        self.compared(claim).find_map(|(run, name, measure)| {
            let reports = rounds(run);
            let owes = reports.iter().zip(1..).find_map(|(report, round)| {
                let phase = phase_of(report, name)?;
                if measure.despite_debt(phase) || !has_levels(&run.store.kind) {
                    return None;
                }
                match report.as_ref().ok()?.debt(phase) {
                    Some(debt) if debt.is_bounded() => None,
                    Some(debt) => Some(format!("{debt} in round {round}")),
                    None => Some("it does not tell its levels' targets".to_owned()),
                }
            })?;
            Some(format!("{}, {name:?}: {owes}", run.store))
        })
    }
}
