//! Added stores: stores that the user asks to see beside a figure's own, with the same data,
//! workloads and loads.
//!
//! 1. The model of a panel is its first series whose store has RocksDB's shape, which all four
//!    papers compare with. If no panel has such a store, it is the first series with a run. An
//!    added store repeats each point of the model; only the store of the run differs.
//! 2. A store that is not ours takes the model's sizes (memtables, cache, limits); its
//!    configuration decides which of them it follows. A profile of ours keeps its own sizes and
//!    takes the model's durability, workers, blocks and cache.
//! 3. Added stores are shown, not judged: no claim is about them. They need not report levels and
//!    chains. They must meet the conditions that make numbers comparable; a store that does not is
//!    not shown (`judge`).
//!
//! Some points are not repeated: panels of jobs, whose lanes belong to one store; panels without a
//! model; points that only our engine reports (chains, good vSSTs), for other stores; points whose
//! model is not built.

use super::stores::{Recipe, loading};
use super::{Figure, Form, Panel, Point, Setting};
use std::sync::Arc;
use vlsm_measure::spec::{LoadSpec, RunSpec, StoreSpec};

/// A store to show beside a figure's own.
#[derive(Debug, Clone, PartialEq)]
pub struct Beside {
    /// The store, so that a caller can check that it is available.
    pub store: StoreSpec,
}

impl Beside {
    /// The store of this name: `KIND`, `KIND:CONFIG`, or a profile of ours.
    ///
    /// # Errors
    /// The profile is not known; the text suggests the nearest name.
    pub fn named(setting: &Setting, name: &str) -> Result<Self, String> {
        let (kind, config) = StoreSpec::parts(name.trim());
        let profile = if kind == "vlsm" { config } else { "rocksdb" };
        let recipe = Recipe {
            profile: profile.to_owned(),
            kind: Some(kind.to_owned()),
            config: Some(config.to_owned()),
            ..Recipe::default()
        };
        let store = recipe.spec(None, &Setting { peers: true, ..setting.clone() })?;
        Ok(Self { store })
    }

    /// The model's run, with this store in its place.
    fn run(&self, model: &RunSpec) -> RunSpec {
        let mut store = model.store.clone();
        store.kind.clone_from(&self.store.kind);
        store.config.clone_from(&self.store.config);
        if store.kind == "vlsm" {
            store.options.policy = self.store.options.policy.clone();
            store = store.with_memory_for(model.data.pairs);
        }
        let anew = |load: &LoadSpec| LoadSpec { options: loading(&store), settle: load.settle };
        let load = model.load.as_ref().map(anew);
        RunSpec { store, load, ..model.clone() }
    }

    /// The model's points, with this store in its place.
    fn points(&self, panel: &Panel, model: &str) -> Vec<Point> {
        let tells = |point: &Point| self.store.kind == "vlsm" || !point.measure.ours;
        let points = panel.points.iter().filter(|point| point.series == model && tells(point));
        let with = |point: &Point| {
            let (run, phase) = point.source.as_ref().ok()?;
            Some(Point {
                series: self.store.name(),
                x: point.x.clone(),
                measure: point.measure,
                source: Ok((Arc::new(self.run(run)), phase.clone())),
                added: true,
            })
        };
        points.filter_map(with).collect()
    }
}

impl Panel {
    /// The first series with a run. With `tiered`, its store must have RocksDB's shape.
    fn model(&self, tiered: bool) -> Option<String> {
        let mut points = self.points.iter().filter(|_| self.form != Form::Jobs);
        let fits = |point: &&Point| {
            let shape = |run: &RunSpec| run.store.options.policy.shape == "tiered_l0";
            let run = point.source.as_ref().ok();
            !point.added && run.is_some_and(|(run, _)| !tiered || shape(run))
        };
        points.find(fits).map(|point| point.series.clone())
    }
}

impl Figure {
    /// Adds these stores to the figure's panels. Returns false if no panel can show them.
    pub fn show_beside(&mut self, stores: &[Beside]) -> bool {
        let tiered = self.panels.iter().any(|panel| panel.model(true).is_some());
        let mut shown = false;
        for panel in &mut self.panels {
            let Some(model) = panel.model(tiered) else { continue };
            let points = |store: &Beside| store.points(panel, &model);
            let more: Vec<Point> = stores.iter().flat_map(points).collect();
            shown |= !more.is_empty();
            panel.points.extend(more);
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::super::all;
    use super::*;
    use crate::scale::Scale;

    fn setting() -> Setting {
        Setting { scale: Scale::CAMPAIGN, dir: None, peers: true, seconds: 20.0 }
    }

    fn beside(id: &str, names: &[&str]) -> (Figure, bool) {
        let setting = setting();
        let entry = all().find(|entry| entry.id == id).expect("it exists");
        let mut figure = (entry.build)(&setting);
        let named = |name: &&str| Beside::named(&setting, name).expect("known");
        let stores: Vec<Beside> = names.iter().map(named).collect();
        let shown = figure.show_beside(&stores);
        (figure, shown)
    }

    #[test]
    fn an_added_store_does_the_run_of_rocksdbs_shape() {
        let (figure, shown) = beside("vlsm-8", &["pebble:sized"]);
        assert!(shown);
        let of = |series: &str| -> Vec<usize> {
            let points = figure.panels[0].points.iter().enumerate();
            points.filter(|(_, point)| point.series == series).map(|(index, _)| index).collect()
        };
        let (added, model) = (of("pebble:sized"), of("RocksDB's shape"));
        assert_eq!(added.len(), model.len());
        for (added, model) in added.into_iter().zip(model) {
            let (added, model) = (&figure.panels[0].points[added], &figure.panels[0].points[model]);
            assert!(added.added && !model.added && added.x == model.x);
            let (Ok((added, phase)), Ok((model, same))) = (&added.source, &model.source) else {
                panic!("both are runs")
            };
            assert_eq!((phase, added.data, added.seed), (same, model.data, model.seed));
            assert_eq!((&added.steps, added.threads), (&model.steps, model.threads));
            assert_eq!(added.store.options, model.store.options, "the same sizes");
            assert_eq!(added.store.name(), "pebble:sized");
        }
    }

    /// RocksDB itself takes part in this figure. Asking for it once more adds no run.
    #[test]
    fn a_store_that_takes_part_already_is_not_run_again() {
        let plain = beside("vlsm-8", &[]).0.runs().len();
        assert_eq!(beside("vlsm-8", &["rocksdb:papers"]).0.runs().len(), plain);
        assert_eq!(beside("vlsm-8", &["pebble", "fjall:sized"]).0.runs().len(), plain + 2);
    }

    #[test]
    fn a_profile_of_ours_keeps_its_own_sizes() {
        let (figure, _) = beside("vlsm-8", &["vlsm:vlsm-4/admission=open"]);
        let runs = figure.runs();
        let own = runs.iter().find(|run| run.store.config == "vlsm-4/admission=open");
        let policy = &own.expect("it takes part").store.options.policy;
        let four = vlsm_core::Bytes(setting().scale.count(4 << 20));
        assert_eq!((policy.tree.sst_max, policy.admission.as_str()), (four, "open"));
        let why = Beside::named(&setting(), "vlsm:vslm").expect_err("unknown");
        assert!(why.contains("did you mean \"vlsm\"?"), "{why}");
    }

    #[test]
    fn what_only_ours_tells_stays_with_ours() {
        let (figure, shown) = beside("vlsm-9", &["pebble"]);
        assert!(!shown && figure.runs().iter().all(|run| run.store.kind == "vlsm"), "chains");
        assert!(beside("vlsm-9", &["vlsm:lsmi"]).1);
        // A model that is not built is not repeated; another series is the model.
        let (figure, shown) = beside("silk-5", &["pebble"]);
        let of = |series: &str| figure.points().filter(|point| point.series == series).count();
        assert!(shown && of("pebble") == of("RocksDB"), "{}", of("pebble"));
        // Readers could not distinguish the jobs of two stores in the same lanes.
        let (figure, _) = beside("silk-2", &["pebble"]);
        assert!(figure.panels[0].points.iter().all(|point| !point.added));
        assert!(figure.panels[2].points.iter().any(|point| point.added));
    }
}
