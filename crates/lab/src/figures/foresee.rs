//! The shortfalls of a figure that are certain before it runs: conditions that cannot be met,
//! series and counters that are missing, and claims that will not be judged.
//!
//! Only what is certain beforehand is named. Whether levels were full, whether a phase left debt
//! and whether the machine was quiet is known afterwards ([`super::conditions`]).

use super::conditions::{CHAINS, ROUNDS, SECONDS, has_levels};
use super::{Entry, Figure, Point, Setting, unique};
use vlsm_core::Bytes;
use vlsm_measure::arrivals::Arrivals;
use vlsm_measure::block::Block;
use vlsm_measure::limits;
use vlsm_measure::spec::{Offered, PhaseSpec, RunSpec, Step};

/// Lists the shortfalls of a figure, one sentence each. `commit` is that of this program.
#[must_use]
pub fn foresee(
    entry: &Entry,
    figure: &Figure,
    setting: &Setting,
    rounds: usize,
    commit: &str,
) -> Vec<String> {
    let mut all = Vec::new();
    let mut cannot = |why: String| all.push(format!("it will not count as measured: {why}"));
    if rounds < ROUNDS {
        cannot(format!("it needs {ROUNDS} rounds or more, and {rounds} are asked for"));
    }
    if setting.scale.is_smoke() {
        cannot(format!("{} is a scale for smoke tests", setting.scale));
    }
    if commit.is_empty() || commit.ends_with('+') {
        cannot("this program was not built from a commit without local changes".to_owned());
    }
    let own: Vec<&Point> = figure.points().filter(|point| !point.added).collect();
    let sources = || own.iter().filter_map(|point| point.source.as_ref().ok());
    let runs = unique(sources().map(|(run, _)| run));
    for limit in unique(runs.iter().map(|run| run.limits)) {
        if let Err(why) = limits::check(&limit, &runs[0].dir()) {
            cannot(format!("the limits that it asks for cannot be applied: {why}"));
        }
    }
    let mut unjudged = |why: String| all.push(format!("claims about it will not be judged: {why}"));
    if !entry.overview {
        let silent = |run: &&std::sync::Arc<RunSpec>| !tells_targets(run);
        for store in unique(runs.iter().filter(|run| silent(run)).map(|run| run.store.name())) {
            unjudged(format!("{store} does not tell its levels' targets"));
        }
        // A smoke test's phases are always too short.
        let used = unique(sources()).into_iter().filter(|_| !setting.scale.is_smoke());
        used.filter_map(|(run, phase)| too_short(run, phase, rounds)).for_each(&mut unjudged);
    }
    all.extend(figure.left_out().into_iter().map(|what| format!("a series is missing: {what}")));
    if let Some(why) = uncounted(figure, &own, setting) {
        all.push(why);
    }
    for claim in &figure.claims {
        if let Some(why) = figure.too_small(claim, setting.scale) {
            all.push(format!("no verdict on {:?}: {why}", claim.text));
        }
    }
    all
}

/// Whether a store reports the targets of its levels, if it has any: ours does, and RocksDB does
/// where they are fixed.
fn tells_targets(run: &RunSpec) -> bool {
    match run.store.kind.as_str() {
        "vlsm" => true,
        "rocksdb" => !matches!(run.store.config.as_str(), "" | "default"),
        kind => !has_levels(kind),
    }
}

/// A phase that has too few seconds, and too few flushes for its chains.
fn too_short(run: &RunSpec, name: &str, rounds: usize) -> Option<String> {
    let phase = run.steps.iter().find_map(|step| match step {
        Step::Phase(phase) if phase.name == name => Some(phase),
        _ => None,
    })?;
    let seconds = phase.seconds? * rounds as f64;
    let flushes = flushes_at_most(run, phase)? * rounds as f64;
    (seconds < SECONDS && flushes < CHAINS as f64).then(|| {
        format!(
            "{}, {name:?} lasts {seconds:.0} s over all rounds instead of {SECONDS:.0}, and fills \
             {flushes:.0} memtables at most, so it has fewer than {CHAINS} chains",
            run.store
        )
    })
}

/// The most memtables that a phase fills; `None` if its rate is not known beforehand.
fn flushes_at_most(run: &RunSpec, phase: &PhaseSpec) -> Option<f64> {
    let Offered::As(arrivals) = &phase.offered else { return None };
    let rate = match arrivals {
        Arrivals::Varying(pattern) => pattern.mean(),
        other => other.peak()?,
    };
    let work = &phase.workload;
    let plain = work.updates + work.inserts + work.deletes + work.read_modify_writes;
    let each = work.transaction.updates + 2 * work.transaction.replaces;
    let writes = (plain + work.transactions * f64::from(each)) / 100.0;
    let bytes = rate * phase.seconds? * writes * run.data.pair_bytes();
    let Bytes(memtable) = run.store.options.policy.tree.memtable_bytes;
    // The memtable of the last phase may have been nearly full.
    Some(bytes / memtable as f64 + 1.0)
}

/// The reason why the kernel's counters are missing, if the figure needs them.
fn uncounted(figure: &Figure, own: &[&Point], setting: &Setting) -> Option<String> {
    let compared = figure.claims.iter().flat_map(|claim| figure.compared(claim));
    let mut measures = own.iter().map(|point| point.measure).chain(compared.map(|one| one.2));
    let name = measures.find(|measure| measure.name.ends_with("by the kernel"))?.name;
    let folder = setting.dir.clone().unwrap_or_else(std::env::temp_dir);
    let why = Block::of(&folder).err()?;
    Some(format!("{name:?} will be missing: {why}; --dir chooses another folder"))
}

#[cfg(test)]
mod tests {
    use super::super::named;
    use super::*;
    use crate::scale::Scale;

    fn foreseen(id: &str, scale: &str, rounds: usize, commit: &str) -> Vec<String> {
        let scale: Scale = scale.parse().expect("a scale");
        let setting = Setting { scale, dir: None, peers: true, seconds: 25.0 };
        let entry = named(id).expect("it exists");
        foresee(entry, &(entry.build)(&setting), &setting, rounds, commit)
    }

    #[test]
    fn what_cannot_be_met_is_named_and_nothing_else() {
        assert_eq!(foreseen("vlsm-8", "1/8", 3, "abc"), Vec::<String>::new());
        let found = foreseen("vlsm-8", "smoke", 2, "abc+").join("\n");
        for part in [
            "3 rounds or more, and 2",
            "1/64 is a scale for smoke tests",
            "without local changes",
            "no verdict on \"vLSM's P99 is up to 4.3 times lower than that of RocksDB's shape\"",
        ] {
            assert!(found.contains(part), "{part} is not in {found}");
        }
    }

    #[test]
    fn claims_about_small_ssts_need_an_eighth() {
        let about = |id, scale| {
            let found = foreseen(id, scale, 3, "abc");
            found.iter().filter(|why| why.starts_with("no verdict")).count()
        };
        for (id, claims) in [("vlsm-9", 3), ("vlsm-13", 4), ("vlsm-table1", 3), ("vlsm-1", 0)] {
            assert_eq!((about(id, "1/32"), about(id, "1/8")), (claims, 0), "{id}");
        }
    }

    #[test]
    fn a_phase_that_fills_too_few_memtables_is_too_short() {
        let setting = Setting { scale: Scale::CAMPAIGN, dir: None, peers: false, seconds: 25.0 };
        let entry = named("vlsm-8").expect("it exists");
        let figure = (entry.build)(&setting);
        let mut run = (*figure.runs()[0]).clone();
        assert_eq!(too_short(&run, "16 k/s", 3), None);
        assert_eq!(too_short(&run, "max", 3), None, "its rate is not known");
        for step in &mut run.steps {
            if let Step::Phase(phase) = step {
                phase.seconds = Some(0.5);
            }
        }
        let why = too_short(&run, "16 k/s", 3).expect("half a second");
        assert!(why.contains("lasts 2 s over all rounds instead of 300"), "{why}");
    }
}
