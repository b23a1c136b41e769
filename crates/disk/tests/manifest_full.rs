//! The manifest on a full device: a refused group is written again, or never comes back.

use std::path::Path;
use std::sync::Arc;
use vlsm_core::{Error, Micros};
use vlsm_disk::manifest::log::read;
use vlsm_disk::manifest::{Manifest, Record, State};
use vlsm_disk::{Env, Fs, RealEnv};
use vlsm_testfs::{CrashMode, Fault, FaultFs, Op, Rule, SimFs};

const DIR: &str = "/store";

fn env(fs: &FaultFs) -> Arc<dyn Env> {
    RealEnv::with_fs(Arc::new(fs.clone()))
}

fn state(disk: &SimFs) -> State {
    read(disk, Path::new(DIR)).expect("sound").state
}

/// A new store that lists one WAL.
fn begun() -> (SimFs, FaultFs, Manifest) {
    let disk = SimFs::new();
    disk.create_dir_all(Path::new(DIR)).expect("made");
    let faults = FaultFs::new(Arc::new(disk.clone()));
    let created = Manifest::create(&env(&faults), Path::new(DIR), &State::default());
    let mut manifest = created.expect("made");
    manifest.append(&[Record::Wals(vec![1])]).expect("appended");
    (disk, faults, manifest)
}

/// A manifest may be settled again after a full device refused it the first time.
#[test]
fn what_could_not_be_settled_is_there_the_next_time() {
    for cut in [0, 20, usize::MAX] {
        let (disk, faults, manifest) = begun();
        drop(manifest);
        let (mut manifest, _) = Manifest::open(&env(&faults), Path::new(DIR)).expect("opened");
        faults.add(Rule::once(Op::Write, "CURRENT", Fault::NoSpace).forever());
        faults.add(Rule::once(Op::Write, "MANIFEST", Fault::CutWrite(cut)));
        let refused = manifest.settle();
        assert!(matches!(refused, Err(Error::NoSpace { .. })), "{cut}: {refused:?}");
        manifest.settle().expect("there is space");
        manifest.append(&[Record::Clock(Micros(7))]).expect("appended");
        let state = state(&disk);
        assert_eq!((state.wals, state.clock), (vec![1], Micros(7)), "{cut}");
    }
}

/// The write of a group may be refused although all of it is on the device.
#[test]
fn a_refused_group_that_is_given_up_never_comes_back() {
    let wals = |disk: &SimFs| state(disk).wals;
    for cut in [0, 20, usize::MAX] {
        let (disk, faults, mut manifest) = begun();
        faults.add(Rule::once(Op::Write, "MANIFEST", Fault::CutWrite(cut)));
        let refused = manifest.append(&[Record::Wals(vec![2])]);
        assert!(matches!(refused, Err(Error::NoSpace { .. })), "{cut}: {refused:?}");
        assert_eq!(wals(&disk), [if cut == usize::MAX { 2 } else { 1 }], "{cut}");
        manifest.forget_refused().expect("it takes no space");
        for (mode, seed) in CrashMode::ALL.into_iter().zip(0..) {
            let disk = disk.fork();
            disk.crash(mode, seed);
            assert_eq!(wals(&disk), [1], "{cut} {mode:?}: it is back");
        }
        manifest.append(&[Record::Wals(vec![3])]).expect("there is space again");
        assert_eq!(wals(&disk), [3], "{cut}");
        faults.add(Rule::once(Op::Sync, "MANIFEST", Fault::Eio));
        assert!(manifest.forget_refused().is_err());
        let after = manifest.append(&[Record::Wals(vec![4])]);
        assert!(matches!(after, Err(Error::ReadOnly { .. })), "{cut}: nobody knows any more");
    }
}
