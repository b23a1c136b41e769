//! After a failed sync the system counts the pages as clean, so programs may read bytes that the
//! device does not have.

use std::path::Path;
use std::sync::Arc;
use vlsm_core::Error;
use vlsm_disk::manifest::{Manifest, Numbers, Record, State};
use vlsm_disk::{Env, Fs, RealEnv};
use vlsm_testfs::{CrashMode, FailedSync, Fault, FaultFs, Op, Rule, SimFs};

const DIR: &str = "/store";

fn env(fs: impl Fs + 'static) -> Arc<dyn Env> {
    RealEnv::with_fs(Arc::new(fs))
}

fn recover(disk: &SimFs) -> Result<State, Error> {
    Manifest::recover(&env(disk.clone()), Path::new(DIR)).map(|(_, state)| state)
}

fn next_file(number: u64) -> [Record; 1] {
    [Record::Numbers(Numbers { next_file: number, ..Numbers::default() })]
}

/// The process dies. The next open may believe the contents of the pages, but then it must make
/// them durable.
#[test]
fn what_an_opening_believes_survives_the_power() {
    for after in [FailedSync::Keeps, FailedSync::Reverts] {
        let disk = SimFs::new();
        disk.create_dir_all(Path::new(DIR)).expect("made");
        let faulty = FaultFs::new(Arc::new(disk.clone()));
        let mut manifest =
            Manifest::create(&env(faulty.clone()), Path::new(DIR), &State::default())
                .expect("created");
        manifest.append(&next_file(7)).expect("appended");
        faulty.add(Rule::once(Op::Sync, "MANIFEST", Fault::Eio));
        assert!(manifest.append(&next_file(9)).is_err());
        disk.fail_sync(manifest.path(), after);
        disk.kill();
        let believed = recover(&disk).expect("sound");
        let expected = if after == FailedSync::Keeps { 9 } else { 7 };
        assert_eq!(believed.numbers.next_file, expected);
        for (mode, seed) in CrashMode::ALL.into_iter().zip(0..) {
            let fs = disk.fork();
            fs.crash(mode, seed);
            assert_eq!(recover(&fs).expect("sound"), believed, "{after:?} {mode:?}");
        }
    }
}
