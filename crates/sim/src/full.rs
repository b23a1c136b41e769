//! A store on a disk that is full for a while: one seed and one number of free bytes are one story.
//!
//! 1. Some clients write on a disk with room. Then it gets so many free bytes, and no more.
//! 2. They write on until they are refused. A refused batch must have left nothing behind, for
//!    good; all that was acknowledged must be readable.
//! 3. While the disk is full: writes, flushes and waits are answered at once, by success where the
//!    store won back some space, else by `NoSpace`; reads are right. A part of the stories ends
//!    here, with the power, the process or a close.
//! 4. Space is returned. Writes must be taken again soon, and by themselves.
//! 5. All is flushed and looked at; the life ends; a reopened store must show what it must. In half
//!    of the stories that ended on the full disk it is opened there first, and may refuse.

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

/// Writes are taken again within this time after space returned.
const RESUME_MAX: Duration = Duration::from_secs(5);
/// Batches of one client on the disk that fills up.
const BATCHES_MAX: u64 = 400;

/// How a story ends, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// While the disk is full.
    Full(Loss),
    /// After it had space again.
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

/// How often things happened.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    /// Stories.
    pub stories: u64,
    /// Those in which writes were refused.
    pub refused: u64,
    /// Refused for an SST, a WAL, a manifest.
    pub by_file: [u64; 3],
    /// Those that went on after space had returned.
    pub resumed: u64,
    /// Those that went on by what the store won back itself.
    pub won_back: u64,
    /// Those that ended while the disk was full.
    pub ended_full: u64,
    /// Those that opened the store on the full disk.
    pub opened_full: u64,
    /// The longest time from the return of space to the first write taken.
    pub longest: Duration,
}

impl Tally {
    /// Adds another one.
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

/// Plays the story of a disk with so many free bytes.
///
/// # Errors
/// What was wrong.
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
        // Of the full disk only a job knew so far, which ended when no client wrote any more.
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

/// Bytes of a leftover: more than an opening takes.
const LEFTOVER: usize = 2 << 20;

/// A store that died on a full disk. What fills the disk is the store's own leftover: an SST that
/// no tree names, a manifest, or a WAL from before the log or on its way. So it must open.
///
/// # Errors
/// What was wrong.
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
    // No file of the store has a number so far off, but one that is not too far for it.
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

/// A later life: what was acknowledged is there as promised, and the store works. On a full disk it
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

/// All clients write so many batches at once. True when one was refused.
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

/// One batch of a client.
fn write(shared: &Shared, world: &World, client: usize, rng: &mut Rng) -> Result<()> {
    let len = match rng.below(200) {
        // Beyond the size at which batches go into the WAL in fragments.
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

/// What the store shows is what was acknowledged, no more and no less.
fn look(shared: &Shared, world: &World) -> Result<(), String> {
    let view = world.contents().map_err(|error| format!("a look: {error}"))?;
    let history = shared.history.lock();
    let all = history.issued();
    history.check(&view, &all, &all).map(drop)
}

/// The disk is full.
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

/// There is space again: writes are taken soon, by themselves.
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
