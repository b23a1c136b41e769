//! A store on a disk that is full for a while. A seed and a number of free bytes determine a story.
//!
//! 1. Some clients write while there is space. Then the disk is limited to a number of free bytes.
//! 2. They write until they are refused. A refused batch must never show; everything acknowledged
//!    must be readable.
//! 3. While the disk is full, writes, flushes and waits return at once: with success if the store
//!    won back some space, else with `NoSpace`. Reads are right. Some of the stories end here, with
//!    a power failure, the death of the process, or a close.
//! 4. Space is freed. The store must accept writes again soon, and by itself.
//! 5. Everything is flushed and checked, and the life ends. A reopened store must show what was
//!    promised. In half of the stories that ended on the full disk it is first opened there, and
//!    may refuse.

use crate::disk::{Damage, Disk};
use crate::env::{End, SimConfig, SimEnv};
use crate::history::{History, Loss, Promise};
use crate::oracle::{Op, Write};
use crate::rng::Rng;
use crate::world::{FOLDER, Mechanisms, SPACES, World};
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use vlsm::Options;
use vlsm_core::{Error, Result};
use vlsm_disk::Env;

/// The time within which writes are accepted again after space was freed.
const RESUME_MAX: Duration = Duration::from_secs(5);
/// The most batches of one client until the disk is full.
const BATCHES_MAX: u64 = 400;

/// The end of a story.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// It ends while the disk is full.
    Full(Loss),
    /// It ends after the disk had space again.
    Roomy(Loss),
}

const ENDINGS: [Ending; 6] = [
    Ending::Full(Loss::Nothing),
    Ending::Full(Loss::Process),
    Ending::Full(Loss::Power),
    Ending::Roomy(Loss::Nothing),
    Ending::Roomy(Loss::Process),
    Ending::Roomy(Loss::Power),
];

/// Counts over any number of stories.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    /// Stories.
    pub stories: u64,
    /// Stories in which writes were refused.
    pub refused: u64,
    /// Refusals for an SST, a WAL, a manifest.
    pub by_file: [u64; 3],
    /// Stories that continued after space was freed.
    pub resumed: u64,
    /// Stories that continued with space that the store won back itself.
    pub won_back: u64,
    /// Stories that ended while the disk was full.
    pub ended_full: u64,
    /// Stories that opened the store on the full disk.
    pub opened_full: u64,
    /// The longest time from the return of space to the first accepted write.
    pub longest: Duration,
}

impl Tally {
    /// Adds the counts of other stories.
    pub fn add(&mut self, other: &Self) {
        self.stories += other.stories;
        self.refused += other.refused;
        for (sum, more) in self.by_file.iter_mut().zip(other.by_file) {
            *sum += more;
        }
        self.resumed += other.resumed;
        self.won_back += other.won_back;
        self.ended_full += other.ended_full;
        self.opened_full += other.opened_full;
        self.longest = self.longest.max(other.longest);
    }
}

struct Shared {
    disk: Disk,
    history: Mutex<History>,
    tally: Mutex<Tally>,
}

/// Plays the story of a disk with this number of free bytes.
///
/// # Errors
/// The first wrong answer.
pub fn play(seed: u64, free: u64) -> Result<Tally, String> {
    let mut rng = Rng::new(seed ^ free.rotate_left(32));
    let clients = rng.between(1, 3) as usize;
    let shared = Arc::new(Shared {
        disk: Disk::new(),
        history: Mutex::new(History::new(clients, SPACES.len())),
        tally: Mutex::new(Tally { stories: 1, ..Tally::default() }),
    });
    let mechanisms = *rng.pick(Mechanisms::all());
    let options = mechanisms.options(&mut rng);
    let ending = *rng.pick(&ENDINGS);
    let told = |why: String| format!("seed {seed}, {free} free, {mechanisms}, {ending:?}: {why}");
    let config = SimConfig::new(rng.u64());
    let (inner, first) = (shared.clone(), options.clone());
    let story = rng.fork(1);
    let outcome = SimEnv::run(&config, &shared.disk, move |env| {
        fills_up(&env, &inner, &first, story, free, ending)
    });
    let (Ending::Full(loss) | Ending::Roomy(loss)) = ending;
    match (outcome.end, loss) {
        (End::Done(Ok(())), Loss::Nothing) => {}
        (End::Crashed, Loss::Process) => shared.disk.lose_process(),
        (End::Crashed, Loss::Power) => shared.disk.lose_power(Damage::random(&mut rng)),
        (End::Done(Err(why)) | End::Failed(why), _) => {
            return Err(told(format!("{why}\n{}", outcome.tail)));
        }
        (end, _) => return Err(told(format!("ended unasked: {end:?}"))),
    }
    shared.history.lock().lose(loss);
    for full in [true, false] {
        if full && (ending == Ending::Roomy(loss) || rng.one_in(2)) {
            continue;
        }
        if !full {
            shared.disk.set_capacity(None);
        }
        let (inner, options) = (shared.clone(), options.clone());
        let outcome = SimEnv::run(&SimConfig::new(rng.u64()), &shared.disk, move |env| {
            reopened(&env, &inner, &options, full)
        });
        match outcome.end {
            End::Done(Ok(())) => {}
            end => return Err(told(format!("reopened: {end:?}\n{}", outcome.tail))),
        }
    }
    let tally = *shared.tally.lock();
    Ok(tally)
}

/// The first life.
fn fills_up(
    env: &Arc<SimEnv>,
    shared: &Arc<Shared>,
    options: &Options,
    mut rng: Rng,
    free: u64,
    ending: Ending,
) -> Result<(), String> {
    let world = World::open(env, options).map_err(|error| format!("open: {error}"))?;
    all_write(env, shared, &world, &mut rng, 20)?;
    shared.disk.set_capacity(Some(shared.disk.used() + free));
    let refused = all_write(env, shared, &world, &mut rng, BATCHES_MAX)?;
    look(shared, &world)?;
    if refused {
        shared.tally.lock().refused += 1;
        stay_full(env, shared, &world, &mut rng)?;
    }
    if let Ending::Full(loss) = ending {
        shared.tally.lock().ended_full += u64::from(refused);
        return end(env, world, loss);
    }
    shared.disk.set_capacity(None);
    if refused {
        resume(env, shared, &world, &mut rng)?;
    }
    all_write(env, shared, &world, &mut rng, 20)?;
    let flushed = world.flush();
    if !refused && matches!(flushed, Err(Error::NoSpace { .. })) {
        // Only a job has met the full disk so far, and it ended when no client wrote any more.
        resume(env, shared, &world, &mut rng)?;
        world.flush().map_err(|error| format!("flush after the return of space: {error}"))?;
    } else {
        flushed.map_err(|error| format!("flush with room: {error}"))?;
    }
    world.wait_idle().map_err(|error| format!("idle with room: {error}"))?;
    look(shared, &world)?;
    let stats = world.db().stats();
    if stats.out_of_space || (refused && stats.shortages == 0) || stats.read_only.is_some() {
        return Err(format!("the store is not well, or never said that it was not: {stats:?}"));
    }
    let (Ending::Full(loss) | Ending::Roomy(loss)) = ending;
    end(env, world, loss)
}

fn end(env: &Arc<SimEnv>, world: World, loss: Loss) -> Result<(), String> {
    if loss != Loss::Nothing {
        env.device().crash();
    }
    world.close().map_err(|error| format!("close: {error}"))
}

/// The size of a leftover, larger than the space that an open takes.
const LEFTOVER: usize = 2 << 20;

/// Opens a store that died on a full disk. A leftover of the store itself fills the disk: an SST
/// that no tree names, a manifest, or a WAL that is older than the log or unfinished. So the open
/// must succeed.
///
/// # Errors
/// The failure.
pub fn opens_full_of_leftovers(seed: u64) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let shared = Arc::new(Shared {
        disk: Disk::new(),
        history: Mutex::new(History::new(1, SPACES.len())),
        tally: Mutex::default(),
    });
    let options = Mechanisms::of(seed).options(&mut rng);
    let told = |why: String| format!("seed {seed}: {why}");
    let (inner, first, mut story) = (shared.clone(), options.clone(), rng.fork(1));
    let outcome = SimEnv::run(&SimConfig::new(rng.u64()), &shared.disk, move |env| {
        let world = World::open(&env, &first).map_err(|error| error.to_string())?;
        all_write(&env, &inner, &world, &mut story, 100)?;
        world.flush().map_err(|error| error.to_string())?;
        all_write(&env, &inner, &world, &mut story, 20)?;
        env.device().crash();
        Ok::<(), String>(())
    });
    let End::Crashed = outcome.end else { return Err(told(format!("{:?}", outcome.end))) };
    shared.disk.lose_process();
    shared.history.lock().lose(Loss::Process);
    // The numbers are larger than those of the store's files, but still valid for a file of the
    // store.
    let names = ["900000.sst", "MANIFEST-900000", "900000.wal.tmp", "000000.wal"];
    let name = *rng.pick(&names);
    shared.disk.set_content(&Path::new(FOLDER).join(name), vec![0; LEFTOVER]);
    shared.disk.set_capacity(Some(shared.disk.used()));
    let inner = shared.clone();
    let outcome = SimEnv::run(&SimConfig::new(rng.u64()), &shared.disk, move |env| {
        let told = |error: Error| format!("full of {name}: {error}");
        let world = World::open(&env, &options).map_err(told)?;
        let view = world.contents().map_err(told)?;
        inner.history.lock().reopened(&view)?;
        write(&inner, &world, 0, &mut Rng::new(1)).map_err(told)?;
        look(&inner, &world)?;
        world.close().map_err(told)
    });
    match outcome.end {
        End::Done(result) => result.map_err(|why| told(format!("{why}\n{}", outcome.tail))),
        end => Err(told(format!("{end:?}\n{}", outcome.tail))),
    }
}

/// A later life: acknowledged batches are there as promised, and the store works. On a full disk it
/// may refuse to open.
fn reopened(
    env: &Arc<SimEnv>,
    shared: &Shared,
    options: &Options,
    full: bool,
) -> Result<(), String> {
    let told = |error: Error| error.to_string();
    let world = match World::open(env, options) {
        Err(Error::NoSpace { .. }) if full => return Ok(()),
        opened => opened.map_err(told)?,
    };
    let view = world.contents().map_err(told)?;
    shared.history.lock().reopened(&view)?;
    if full {
        shared.tally.lock().opened_full += 1;
        return world.close().map_err(told);
    }
    write(shared, &world, 0, &mut Rng::new(1)).map_err(told)?;
    world.flush().map_err(told)?;
    look(shared, &world)?;
    world.close().map_err(told)
}

/// All clients write this number of batches at once. True if one was refused.
fn all_write(
    env: &Arc<SimEnv>,
    shared: &Arc<Shared>,
    world: &World,
    rng: &mut Rng,
    batches: u64,
) -> Result<bool, String> {
    let clients = shared.history.lock().issued().len();
    let client = |client: usize| {
        let (shared, world, mut rng) = (shared.clone(), world.clone(), rng.fork(client as u64));
        env.task(&format!("client {client}"), move || {
            let mut writes = (0..batches).map(|_| write(&shared, &world, client, &mut rng));
            writes.find_map(Result::err)
        })
    };
    let tasks: Vec<_> = (0..clients).map(client).collect();
    let mut refused = false;
    for task in tasks {
        match task.join().ok_or("a client vanished")? {
            None => {}
            Some(Error::NoSpace { path }) => {
                refused = true;
                let name = path.to_string_lossy().into_owned();
                let kinds = [name.ends_with(".sst"), name.contains(".wal"), name.contains("MAN")];
                for (count, is) in shared.tally.lock().by_file.iter_mut().zip(kinds) {
                    *count += u64::from(is);
                }
            }
            Some(error) => return Err(format!("a client: {error}")),
        }
    }
    Ok(refused)
}

/// Writes one batch of a client.
fn write(shared: &Shared, world: &World, client: usize, rng: &mut Rng) -> Result<()> {
    let len = match rng.below(200) {
        // Above the size at which batches go into the WAL as fragments.
        0 => 300_000,
        1..20 => 2_000,
        _ => rng.index(400),
    };
    let put = |_| {
        let key = format!("c{client:02}/k{:02}", rng.below(40));
        let value = (!rng.one_in(5)).then(|| vec![b'v'; len]);
        Write {
            space: rng.index(SPACES.len()),
            key: key.into_bytes(),
            op: value.map_or(Op::Delete, Op::Put),
        }
    };
    let writes = (0..3).map(put).collect();
    let promise = *rng.pick(&[Promise::Lazy, Promise::Process, Promise::Process, Promise::Power]);
    let writes = shared.history.lock().issue(client, writes);
    let result = world.write(&writes, promise);
    let mut history = shared.history.lock();
    match &result {
        Ok(()) => history.acknowledge(client, promise),
        Err(Error::NoSpace { .. }) => history.refuse(client),
        Err(_) => {}
    }
    result
}

/// Checks that the store shows exactly the acknowledged batches.
fn look(shared: &Shared, world: &World) -> Result<(), String> {
    let view = world.contents().map_err(|error| format!("a look: {error}"))?;
    let history = shared.history.lock();
    let all = history.issued();
    history.check(&view, &all, &all).map(drop)
}

/// Step 3: the disk is full.
fn stay_full(
    env: &Arc<SimEnv>,
    shared: &Arc<Shared>,
    world: &World,
    rng: &mut Rng,
) -> Result<(), String> {
    let mut won_back = false;
    for _ in 0..rng.between(1, 6) {
        let answer = match rng.below(4) {
            0 => world.flush(),
            1 => world.wait_idle(),
            _ => write(shared, world, 0, rng).inspect(|()| won_back = true),
        };
        match answer {
            Ok(()) | Err(Error::NoSpace { .. }) => {}
            Err(error) => return Err(format!("on a full disk: {error}")),
        }
        look(shared, world)?;
        env.sleep(Duration::from_millis(rng.below(1_000)));
    }
    shared.tally.lock().won_back += u64::from(won_back);
    Ok(())
}

/// Step 4: space is free again, and writes are accepted soon.
fn resume(
    env: &Arc<SimEnv>,
    shared: &Arc<Shared>,
    world: &World,
    rng: &mut Rng,
) -> Result<(), String> {
    let begun = env.now();
    loop {
        let result = write(shared, world, 0, rng);
        let took = env.now() - begun;
        match result {
            Ok(()) => {
                let mut tally = shared.tally.lock();
                tally.resumed += 1;
                tally.longest = tally.longest.max(took);
                return Ok(());
            }
            Err(Error::NoSpace { .. }) if took < RESUME_MAX => {
                env.sleep(Duration::from_millis(10));
            }
            Err(error) => return Err(format!("{took:?} after space returned: {error}")),
        }
    }
}
