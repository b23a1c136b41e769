//! Every profile in a closed loop with a device, in virtual time: the decisions of policies change
//! their next inputs (`plant/mod.rs`), and certain faults must not occur under any load
//! (`plant/watch.rs`).
//!
//! Loads are shares of the rate that the profile sustains, and times are in units of 32 memtables
//! at that rate (`plant/base.rs`), so new profiles are covered without changes. The last tests
//! spoil policies on purpose: each fault must be noticed.

mod files;
mod plant;

use plant::{Base, DEVICE, Fault, Faults, HeldBack, Load, Plant, Sample, base, unsettled};
use std::fmt::Write;
use vlsm_core::event::{JobKind, WaitCause};
use vlsm_core::{BytesPerSec, Micros};
use vlsm_policy::profile::PROFILES;
use vlsm_policy::schedule::silk::SilkOptions;
use vlsm_policy::{
    Admission, Admit, Candidate, Class, Grants, Policies, PolicyOptions, Running, Schedule, Signals,
};

/// Units in which all work that a scenario left must be done. It is little more than one unit's
/// work; a schedule that grants a tenth of the device may take ten times as long.
const DRAIN: f64 = 10.0;
/// Factor by which debt may exceed the base's with two trees, in a burst or on a slow device.
const BEYOND: f64 = 1.25;
/// The most resumptions of paused jobs while the load is high and constant: each of the few jobs
/// that ran when it began may resume in a free slot, once or twice.
const RESUMED_MAX: u64 = 10;

/// Plays a scenario for every profile, and panics with all faults of all of them.
fn every_profile(scenario: fn(&Base) -> Faults) {
    let mut report = String::new();
    for profile in PROFILES {
        let base = base(profile.name);
        for (fault, what) in scenario(&base) {
            _ = writeln!(report, "{}: {fault:?} {what}", profile.name);
        }
    }
    assert!(report.is_empty(), "\n{report}");
}

/// From idle to 80 % of the sustained rate, for two units. No backlog may grow: a write waits for
/// less than a unit, half of the scenario.
#[test]
fn step_load() {
    every_profile(|base| {
        let mut plant = base.plant(&[1.0]);
        step(base, &mut plant);
        plant.finish(DRAIN * base.unit)
    });
}

fn step(base: &Base, plant: &mut Plant) {
    plant.run(Load::IDLE, 2.0);
    plant.run(Load::writes(0.8 * base.sustained), 2.0 * base.unit);
    plant.check_waits(base.unit);
    // SILK's L1 grows as long as the load has no valley, see below.
    let beyond = if lets_l1_wait(&base.options) { BEYOND } else { 1.0 };
    plant.check_debt(beyond * base.debt);
}

/// Whether jobs out of L1 may wait as long as L0→L1 is due: SILK as written, where nothing bounds
/// the levels.
fn lets_l1_wait(options: &PolicyOptions) -> bool {
    let silk = &options.schedules.silk;
    let ahead = silk.scheduling && silk.overtakes_max == 0;
    options.schedule == "silk" && ahead && options.tree.overflow.is_none()
}

/// SILK as written under 80 % of the sustained rate. Without valleys L1 grows by its target and
/// more in each unit, because L0→L1 is always due; with a quarter of the time in valleys it stays
/// at a few targets. With turns (rule 8) L1 grows more slowly. All debt is paid when the load ends.
#[test]
fn silk_compacts_l1_in_valleys() {
    let base = base("silk");
    assert!(lets_l1_wait(&base.options));
    let l1_after = |valley: f64, overtakes: u32| {
        let mut options = base.options.clone();
        options.schedules.silk.overtakes_max = overtakes;
        let mut plant = base.plant_with(options.build().expect("legal options"), &[1.0]);
        for _ in 0..6 {
            plant.run(Load::writes(0.8 * base.sustained), (1.0 - valley) * base.unit);
            plant.run(Load::writes(0.05 * base.sustained), valley * base.unit);
        }
        plant.check_waits(base.unit);
        let l1 = plant.l1_bytes() as f64 / base.options.tree.l1_bytes.as_f64();
        assert_eq!(plant.finish(DRAIN * base.unit), Faults::new());
        l1
    };
    let (without, with) = (l1_after(0.0, 0), l1_after(0.25, 0));
    assert!(without > 20.0 && with < 8.0, "L1 at {without:.1} and {with:.1} targets");
    let (four, one) = (l1_after(0.0, 4), l1_after(0.0, 1));
    let slower = (four / without, one / without);
    assert!((0.7..0.9).contains(&slower.0) && (0.4..0.65).contains(&slower.1), "{slower:?}");
}

/// Readers that never leave the device, over a tree with bounds: SILK as written pauses what the
/// next flush needs, and writes stop for ever. So such a tree is refused without
/// `resume_for_writers`.
#[test]
fn silk_lets_writers_go_on_while_readers_have_the_device() {
    let base = base("vlsm+silk");
    let written = |resume: bool| {
        let mut options = base.options.clone();
        options.schedules.silk.resume_for_writers = resume;
        assert_eq!(options.build().is_ok(), resume);
        // The schedule of a tree without bounds: the rule as written.
        options.tree.overflow = None;
        let (_, schedule, _) = options.build().expect("legal options");
        let (shape, _, admission) = base.options.build().expect("legal options");
        let mut plant = base.plant_with((shape, schedule, admission), &[1.0]);
        plant.run(Load::writes(0.8 * base.sustained), 0.5 * base.unit);
        let load = Load::writes(0.06 * base.sustained);
        plant.run(Load { misses: 0.9 * DEVICE, ..load }, 24.0 * base.unit);
        let before = plant.written();
        plant.run(Load { misses: 0.9 * DEVICE, ..load }, 12.0 * base.unit);
        plant.written() - before
    };
    assert_eq!(written(false), 0);
    let written = written(true) as f64;
    assert!(written > 0.5 * base.sustained * base.unit, "{written} bytes");
}

/// The same over two trees that share device and workers, one with three times the other's load:
/// neither starves. If a bounded L1 waits until all of L0 fits, the debt in a flood is that of one
/// full L0 and the L1 under it, for each tree.
#[test]
fn step_load_on_two_trees() {
    every_profile(|base| {
        let mut plant = base.plant(&[0.75, 0.25]);
        plant.run(Load::writes(0.8 * base.sustained), 2.0 * base.unit);
        plant.check_waits(base.unit);
        let bounded = base.options.shape == "tiered_l0" && base.options.tree.overflow.is_some();
        plant.check_debt(if bounded { 2.0 } else { BEYOND } * base.debt);
        plant.finish(DRAIN * base.unit)
    });
}

/// Bursts of ten times a low load, twice the sustained rate, and valleys without any load. A burst
/// brings eight memtables in an eighth of a unit; half of them are done meanwhile and the others
/// before the next burst. So no write waits for a unit.
#[test]
fn bursts_and_valleys() {
    every_profile(|base| {
        let mut plant = base.plant(&[1.0]);
        for _ in 0..3 {
            for (load, units) in [(0.2, 0.25), (2.0, 0.125), (0.2, 0.25), (0.0, 0.125)] {
                plant.run(Load::writes(load * base.sustained), units * base.unit);
            }
        }
        plant.check_waits(base.unit);
        plant.check_debt(BEYOND * base.debt);
        plant.finish(DRAIN * base.unit)
    });
}

/// At half of the sustained rate the device falls to a quarter of its speed for half a unit, and
/// recovers. An eighth of a unit's work is left by then, and is done in another quarter.
#[test]
fn slow_disk() {
    every_profile(|base| {
        let mut plant = base.plant(&[1.0]);
        let load = Load::writes(0.5 * base.sustained);
        plant.run(load, 0.25 * base.unit);
        plant.run(Load { device: DEVICE / 4.0, ..load }, 0.5 * base.unit);
        plant.run(load, 0.5 * base.unit);
        plant.check_waits(base.unit);
        plant.check_debt(BEYOND * base.debt);
        plant.finish(DRAIN * base.unit)
    });
}

/// Writes at 80 %, so that jobs are in progress; then reads take nine tenths of the device for
/// twelve units, while writes need two thirds of the rest; then there are no reads. By any model
/// the load is high: SILK and DLC must steadily hold back the jobs that they are made to hold back,
/// and must not stop the writers by it. Work that otherwise takes a tenth of a unit takes one: no
/// write waits for two.
#[test]
fn reads_at_the_devices_limit() {
    every_profile(|base| high_load(base, base.options.build().expect("legal options")));
}

fn high_load(base: &Base, policies: Policies) -> Faults {
    let mut plant = base.plant_with(policies, &[1.0]);
    plant.run(Load::writes(0.8 * base.sustained), 0.5 * base.unit);
    let before = plant.held_back();
    let load = Load::writes(0.06 * base.sustained);
    plant.run(Load { misses: 0.9 * DEVICE, ..load }, 12.0 * base.unit);
    if let Some(what) = lets_go(&base.options, plant.held_back().since(before)) {
        plant.fault(Fault::LetGo, what);
    }
    plant.run(load, 0.5 * base.unit);
    plant.check_waits(2.0 * base.unit);
    plant.finish(DRAIN * base.unit)
}

/// Checks that SILK and DLC held compactions back under a high load, and that no schedule resumed
/// jobs more than [`RESUMED_MAX`] times. Returns the counts if not.
fn lets_go(options: &PolicyOptions, held: HeldBack) -> Option<String> {
    let SilkOptions { bandwidth, scheduling, .. } = options.schedules.silk;
    let held_back = match &*options.schedule {
        // vLSM's L1 proposes only what the next run needs. That job has started by then, and is
        // paused.
        "silk" if bandwidth && scheduling && options.shape == "vlsm" => held.paused > 0,
        "silk" if bandwidth && scheduling => held.paused > 0 && held.deeper > 0,
        "dlc" => held.l0 > 0,
        _ => true,
    };
    (!held_back || held.resumed > RESUMED_MAX).then(|| format!("{held:?}"))
}

/// Half more than the sustained rate, without end. Writers have to wait. Their rate must be steady
/// with an admission that aims at a rate. With any admission at least two fifths of the sustained
/// rate are let in: growing debt costs additional work. (RocksDB's admission stops and goes by
/// design.)
#[test]
fn constant_overload() {
    every_profile(|base| {
        let aims_at_a_rate = base.options.admission == "cruise";
        // CruiseDB's controller takes about sixty windows to settle.
        let units = if aims_at_a_rate { 3.0 } else { 1.0 };
        let mut plant = base.plant(&[1.0]);
        plant.run(Load::writes(1.5 * base.sustained), units / 2.0 * base.unit);
        let before = plant.written();
        plant.run(Load::writes(1.5 * base.sustained), units / 2.0 * base.unit);
        let written = (plant.written() - before) as f64;
        let least = 0.4 * base.sustained * units / 2.0 * base.unit;
        if written < least {
            plant.fault(Fault::TooSlow, format!("{written:.0} bytes let in, not {least:.0}"));
        }
        if aims_at_a_rate
            && let Some(what) = unsettled(plant.samples(), base.options.tree.memtable_count)
        {
            plant.fault(Fault::Unsettled, what);
        }
        plant.send_away();
        plant.finish(DRAIN * base.unit)
    });
}

/// Half more than the sustained rate, for three units. Returns the least that was let in during a
/// half second, as a share of the mean, and all faults.
fn least_let_in(base: &Base, schedule: &str, admission: &str) -> (f64, Faults) {
    let mut options = base.options.clone();
    (options.schedule, options.admission) = (schedule.into(), admission.into());
    let mut plant = base.plant_with(options.build().expect("legal options"), &[1.0]);
    let load = Load::writes(1.5 * base.sustained);
    plant.run(load, 0.25 * base.unit);
    let mut halves = Vec::new();
    let end = plant.now + Micros((3.0 * base.unit * 1e6) as u64);
    while plant.now < end {
        let before = plant.written();
        plant.run(load, 0.5);
        halves.push((plant.written() - before) as f64);
    }
    plant.send_away();
    let mean = halves.iter().sum::<f64>() / halves.len() as f64;
    (halves.into_iter().fold(f64::INFINITY, f64::min) / mean, plant.finish(DRAIN * base.unit))
}

/// bLSM's promise (2012, §4): merges bound the rate of writes, but never for long. Under overload
/// every half second lets in at least two fifths of the mean. With the gear alone writers stop
/// whenever memory is full, and with the spring alone they wait for whole merges of C1′.
#[test]
fn bounded_waits_under_overload() {
    let base = base("blsm");
    let (least, faults) = least_let_in(&base, "gear", "spring");
    assert!(least >= 0.4 && faults.is_empty(), "{least:.2} of the mean, {faults:#?}");
    for (schedule, admission, most) in [("gear", "open", 0.0), ("fifo", "spring", 0.35)] {
        let (least, _) = least_let_in(&base, schedule, admission);
        assert!(least <= most, "{schedule} and {admission}: {least:.2} of the mean");
    }
}

/// Spoils the decision of a good schedule, given the signals, the candidates and the running jobs.
type Spoil = fn(&mut Grants, &Signals, &[&Candidate], &[Running]);

/// A good schedule whose decisions are spoilt.
#[derive(Debug)]
struct Spoilt {
    good: Box<dyn Schedule>,
    spoil: Spoil,
}

impl Schedule for Spoilt {
    fn name(&self) -> &'static str {
        "spoilt"
    }

    fn decide(
        &mut self,
        signals: &Signals,
        candidates: &[&Candidate],
        running: &[Running],
    ) -> Grants {
        let mut grants = self.good.decide(signals, candidates, running);
        (self.spoil)(&mut grants, signals, candidates, running);
        grants
    }
}

/// An admission that is a function of the time and of the bytes written.
#[derive(Debug)]
struct Spoiler(fn(&Signals) -> Admit);

impl Admission for Spoiler {
    fn name(&self) -> &'static str {
        "spoiler"
    }

    fn decide(&mut self, signals: &Signals) -> Admit {
        (self.0)(signals)
    }
}

/// RocksDB under half of the rate that it sustains, with spoilt policies.
fn spoilt(spoil: impl FnOnce(Policies) -> Policies) -> Faults {
    let base = base("rocksdb");
    let policies = spoil(base.options.build().expect("legal options"));
    let mut plant = base.plant_with(policies, &[1.0]);
    plant.run(Load::writes(0.5 * base.sustained), 1.5 * base.unit);
    plant.check_waits(base.unit);
    plant.finish(2.0 * base.unit)
}

fn with_schedule(spoil: Spoil) -> Faults {
    spoilt(|(shape, good, admission)| (shape, Box::new(Spoilt { good, spoil }), admission))
}

fn with_admission(decide: fn(&Signals) -> Admit) -> Faults {
    spoilt(|(shape, schedule, _)| (shape, schedule, Box::new(Spoiler(decide))))
}

fn in_a_second(signals: &Signals) -> Option<Micros> {
    Some(signals.now + Micros(1_000_000))
}

/// Once there was load, compactions are paused and never resumed.
fn pauses_for_ever(grants: &mut Grants, signals: &Signals, _: &[&Candidate], running: &[Running]) {
    if signals.counters.write_bytes.0 > 0 {
        let compactions = running.iter().filter(|job| job.candidate.frees != Class::Memtable);
        grants.paused = compactions.map(|job| job.job).collect();
    }
}

fn pauses_flushes(grants: &mut Grants, _: &Signals, _: &[&Candidate], running: &[Running]) {
    let flushes = running.iter().filter(|job| job.candidate.kind == JobKind::Flush);
    grants.paused = flushes.map(|job| job.job).collect();
}

fn starts_no_flush(grants: &mut Grants, _: &Signals, list: &[&Candidate], _: &[Running]) {
    grants.start.retain(|index| list[*index].kind != JobKind::Flush);
}

fn forgets_deep_levels(grants: &mut Grants, _: &Signals, list: &[&Candidate], _: &[Running]) {
    grants.start.retain(|index| !matches!(list[*index].frees, Class::Level(_)));
}

/// Compactions start in the first tenth of each ten seconds only.
fn dawdles(grants: &mut Grants, signals: &Signals, list: &[&Candidate], _: &[Running]) {
    if signals.now.0 % 10_000_000 > 1_000_000 {
        grants.start.retain(|index| list[*index].frees == Class::Memtable);
        if !list.is_empty() {
            grants.again = in_a_second(signals);
        }
    }
}

/// Jobs that are half done are cancelled, and begin again.
fn cancels(grants: &mut Grants, signals: &Signals, _: &[&Candidate], running: &[Running]) {
    let compactions = running.iter().filter(|job| job.candidate.frees != Class::Memtable);
    grants.cancel = compactions.filter(|job| job.done > job.left).map(|job| job.job).collect();
    grants.again = (!running.is_empty()).then(|| signals.now + Micros(10_000));
}

fn wakes_the_idle(grants: &mut Grants, signals: &Signals, _: &[&Candidate], _: &[Running]) {
    grants.again = in_a_second(signals);
}

fn asks_in_the_past(grants: &mut Grants, signals: &Signals, _: &[&Candidate], _: &[Running]) {
    grants.again = Some(signals.now);
}

fn starts_twice(grants: &mut Grants, _: &Signals, _: &[&Candidate], _: &[Running]) {
    grants.start.extend(grants.start.clone());
}

/// Lets in a few memtables, and then nothing.
fn shuts(signals: &Signals) -> Admit {
    match signals.counters.write_bytes.0 >> 28 {
        0 => Admit::OPEN,
        _ => Admit::stop(WaitCause::Admission),
    }
}

/// Lets in a thousandth of what is offered.
fn trickles(_: &Signals) -> Admit {
    Admit { writes: Some(BytesPerSec(16 << 10)), ..Admit::OPEN }
}

/// Ten times as much in every other half minute.
fn swings(signals: &Signals) -> Admit {
    let even = (signals.now.0 / 30_000_000).is_multiple_of(2);
    let rate = if even { 50 << 20 } else { 5 << 20 };
    Admit { writes: Some(BytesPerSec(rate)), again: in_a_second(signals), ..Admit::OPEN }
}

#[test]
fn bad_habits_are_noticed() {
    assert_eq!(spoilt(|policies| policies), Faults::new(), "there is none yet");
    let habits: [(&str, Spoil, Fault); 9] = [
        ("pauses for ever", pauses_for_ever, Fault::PausedForEver),
        ("pauses flushes", pauses_flushes, Fault::FlushHeldBack),
        ("starts no flush", starts_no_flush, Fault::FlushHeldBack),
        ("forgets deep levels", forgets_deep_levels, Fault::Starved),
        ("dawdles", dawdles, Fault::Idle),
        ("cancels", cancels, Fault::Wasted),
        ("wakes the idle", wakes_the_idle, Fault::Woken),
        ("asks in the past", asks_in_the_past, Fault::BadTime),
        ("starts twice", starts_twice, Fault::BadGrant),
    ];
    for (name, spoil, fault) in habits {
        let faults = with_schedule(spoil);
        assert!(faults.contains_key(&fault), "a schedule that {name}: {faults:#?}");
    }
    let faults = with_schedule(forgets_deep_levels);
    assert!(faults.contains_key(&Fault::NotDrained), "{faults:#?}");
    let faults = with_schedule(pauses_for_ever);
    assert!(faults.contains_key(&Fault::NotDrained), "{faults:#?}");
    let faults = with_admission(shuts);
    assert!(faults.contains_key(&Fault::Stalled), "{faults:#?}");
    let faults = with_admission(trickles);
    assert!(faults.contains_key(&Fault::Waited), "{faults:#?}");
}

/// A schedule that ignores a high load, and one that hesitates.
#[test]
fn letting_go_under_a_high_load_is_noticed() {
    for profile in ["silk", "dlc"] {
        let base = base(profile);
        let mut fifo = base.options.clone();
        fifo.schedule = "fifo".into();
        let faults = high_load(&base, fifo.build().expect("legal options"));
        assert!(faults.contains_key(&Fault::LetGo), "{profile}: {faults:#?}");
    }
    let base = base("silk");
    let (shape, good, admission) = base.options.build().expect("legal options");
    let spoil: Spoil = |grants, signals, _, _| {
        if (signals.now.0 / 1_000_000).is_multiple_of(2) {
            grants.paused.clear();
        }
    };
    let faults = high_load(&base, (shape, Box::new(Spoilt { good, spoil }), admission));
    assert!(faults.contains_key(&Fault::LetGo), "{faults:#?}");
}

/// A schedule that only flushes: writers wait or, if nothing stops them, debt grows.
#[test]
fn debt_that_nobody_pays_is_noticed() {
    let only_flushes: Spoil = |grants, _, list, _| {
        grants.start.retain(|index| list[*index].frees == Class::Memtable);
    };
    for profile in PROFILES {
        let base = base(profile.name);
        let (shape, good, admission) = base.options.build().expect("legal options");
        let spoilt = Box::new(Spoilt { good, spoil: only_flushes });
        let mut plant = base.plant_with((shape, spoilt, admission), &[1.0]);
        step(&base, &mut plant);
        let faults = plant.finish(0.0);
        // If nothing may enter memory before a merge, missing jobs are noticed before writes wait.
        let noticed = [Fault::Waited, Fault::Stalled, Fault::DebtGrew, Fault::Idle];
        let noticed = noticed.iter().any(|fault| faults.contains_key(fault));
        assert!(noticed, "{}: {faults:#?}", profile.name);
    }
}

/// A minute and a half of a fill by the second, at one rate.
fn samples(fill: fn(usize) -> f64, rate: Option<BytesPerSec>) -> Vec<Sample> {
    (0..90).map(|second| Sample { fill: fill(second), rate }).collect()
}

/// An admission that swings is noticed on the plant. Faults of the memtables' fill are noticed in
/// samples made by hand.
#[test]
fn an_admission_that_does_not_settle_is_noticed() {
    let base = base("rocksdb");
    let (shape, schedule, _) = base.options.build().expect("legal options");
    let mut plant = base.plant_with((shape, schedule, Box::new(Spoiler(swings))), &[1.0]);
    plant.run(Load::writes(1.5 * base.sustained), 3.0 * base.unit);
    let what = unsettled(plant.samples(), 2).expect("it swings");
    assert!(what.contains("rates"), "{what}");

    let rate = Some(BytesPerSec(1 << 20));
    let settles = |second: usize| if second < 60 { 0.9 } else { 0.6 };
    assert_eq!(unsettled(&samples(settles, rate), 12), None);
    assert!(unsettled(&samples(settles, None), 12).is_some(), "there is no limit");
    let full = unsettled(&samples(|_| 0.9, rate), 12).expect("the memtables stay full");
    assert!(full.contains("fill"), "{full}");
    assert_eq!(unsettled(&samples(|_| 0.9, rate), 2), None, "two memtables say nothing");
    assert!(unsettled(&samples(|second| (second % 2) as f64, rate), 12).is_some());
}
