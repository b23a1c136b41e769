//! A small bank: an application that uses most of the store at once.
//!
//! ```text
//! cargo run -p vlsm --example bank                   # a demonstration in a temporary folder
//! cargo run -p vlsm --example bank -- FOLDER work    # works until its input ends, or it is killed
//! cargo run -p vlsm --example bank -- FOLDER follow  # beside a working bank: audits it
//! cargo run -p vlsm --example bank -- FOLDER audit   # of a bank that nobody works in
//! ```
//!
//! 1. **Accounts** have a balance and a city. `by_city` is a secondary index over them; every
//!    transaction that changes a city also changes the index.
//! 2. **Transfers** are transactions that run concurrently. They need a **session**: a token that
//!    expires by itself.
//! 3. **Counters** of the operations are merged in the same transaction. So they are exact, and
//!    cause no conflicts.
//! 4. **Backups** are checkpoints with a number. Each gets its name only once it is complete.
//! 5. A **follower**, another process, reads the store beside the working bank, and audits it.
//! 6. A **page of metrics** is served over HTTP.
//!
//! The audit reads one snapshot: the sum of all balances never changes, the index has exactly the
//! accounts, and no session is visible after its time. `tests/bank.rs` kills the bank again and
//! again, audits the store after each kill, and compares the counters with the acknowledged
//! operations.
#![allow(
    clippy::disallowed_methods,
    reason = "an application: its threads, clock and files are those of the system"
)]

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use vlsm::{Builder, Bytes, Db, Error, Keyspace, KeyspaceOptions, Result, Snapshot};

/// The number of accounts of the bank. Each begins with the balance [`BALANCE`].
pub const ACCOUNTS: u64 = 40;
/// The balance of each account at first.
pub const BALANCE: u64 = 1000;
const CITIES: [&str; 4] = ["Bern", "Lima", "Oslo", "Pune"];
const SESSION: Duration = Duration::from_millis(200);
/// The audit allows for this time between the creation of a session and its write.
const LATE: Duration = Duration::from_secs(1);

/// An operation of the bank. Its name is the key of its counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    /// A session was created.
    Login,
    /// An amount was transferred.
    Transfer,
    /// An account has another city.
    Move,
}

/// All operations.
pub const OPERATIONS: [Done; 3] = [Done::Login, Done::Transfer, Done::Move];

impl Done {
    fn key(self) -> &'static str {
        match self {
            Self::Login => "login",
            Self::Transfer => "transfer",
            Self::Move => "move",
        }
    }
}

/// The reason why a transfer was refused.
#[derive(Debug)]
pub enum Refused {
    /// The session is unknown or has expired.
    NoSession,
    /// The other account does not exist.
    NoAccount,
    /// The balance is too small.
    NotEnough,
    /// The store returned an error.
    Store(Error),
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoSession => f.write_str("there is no such session"),
            Self::NoAccount => f.write_str("there is no such account"),
            Self::NotEnough => f.write_str("the balance is too small"),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Refused {}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

/// A value of the table of accounts: the balance in eight bytes, and the city.
struct Account {
    balance: u64,
    city: String,
}

impl Account {
    fn encode(&self) -> Vec<u8> {
        [&self.balance.to_be_bytes(), self.city.as_bytes()].concat()
    }

    fn decode(bytes: &[u8]) -> Self {
        let (balance, city) = bytes.split_at(8);
        Self { balance: number(balance), city: String::from_utf8_lossy(city).into_owned() }
    }
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().expect("the bank writes numbers of eight bytes"))
}

fn city_key(city: &str, id: u64) -> Vec<u8> {
    [city.as_bytes(), &[0], &id.to_be_bytes()].concat()
}

fn now() -> Duration {
    SystemTime::UNIX_EPOCH.elapsed().expect("the clock is set")
}

/// The findings of an audit, all as of one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audit {
    /// The sum of all balances.
    pub total: u64,
    /// The counters of [`OPERATIONS`].
    pub counters: [u64; 3],
    /// The number of sessions that have not expired.
    pub sessions: usize,
}

/// The open bank. Clones are handles to the same bank.
#[derive(Clone)]
pub struct Bank {
    db: Db,
    accounts: Keyspace,
    by_city: Keyspace,
    sessions: Keyspace,
    counters: Keyspace,
}

impl Bank {
    /// Opens the bank. An empty store gets all accounts in one transaction.
    pub fn open(builder: Builder) -> Result<Self> {
        let db = builder.open()?;
        let accounts = db.create_keyspace("accounts", KeyspaceOptions::new())?;
        let by_city = db.create_keyspace("by_city", KeyspaceOptions::new())?;
        let ttl = KeyspaceOptions::new().ttl(SESSION);
        let sessions = db.create_keyspace("sessions", ttl)?;
        let add = KeyspaceOptions::new().merge_operator("add");
        let counters = db.create_keyspace("counters", add)?;
        let bank = Self { db, accounts, by_city, sessions, counters };
        if bank.accounts.is_empty()? {
            bank.db.transact(|transaction| {
                for id in 0..ACCOUNTS {
                    let city = CITIES[(id % 4) as usize].to_owned();
                    transaction.put(&bank.by_city, city_key(&city, id), "")?;
                    let account = Account { balance: BALANCE, city }.encode();
                    transaction.put(&bank.accounts, id.to_be_bytes(), account)?;
                }
                Ok(())
            })?;
        }
        Ok(bank)
    }

    /// Opens a bank that no process uses, for reading only.
    pub fn look_into(folder: &Path) -> Result<Self> {
        Self::of(Db::builder(folder).read_only(true).open()?)
    }

    /// Opens a bank that another process uses, as it is now. [`Bank::catch_up`] shows later states.
    pub fn beside(folder: &Path) -> Result<Self> {
        Self::of(Db::open_read_only(folder)?)
    }

    /// Shows the later operations of the other process.
    pub fn catch_up(&self) -> Result<()> {
        self.db.catch_up().map(drop)
    }

    /// A reader cannot create keyspaces, so they must exist.
    fn of(db: Db) -> Result<Self> {
        let [accounts, by_city, sessions, counters] =
            ["accounts", "by_city", "sessions", "counters"].map(|name| db.keyspace(name));
        let (accounts, by_city) = (accounts?, by_city?);
        Ok(Self { db, accounts, by_city, sessions: sessions?, counters: counters? })
    }

    /// Creates a session for an account and returns its token.
    pub fn login(&self, id: u64) -> Result<u64> {
        self.login_for(id, SESSION)
    }

    /// Creates a session that ends after this time.
    fn login_for(&self, id: u64, span: Duration) -> Result<u64> {
        let token: u64 = rand::random();
        let until = (now() + span).as_micros() as u64;
        self.db.transact(|transaction| {
            let session = [id.to_be_bytes(), until.to_be_bytes()].concat();
            transaction.put_with_ttl(&self.sessions, token.to_be_bytes(), session, span)?;
            transaction.merge(&self.counters, Done::Login.key(), 1_u64.to_le_bytes())
        })?;
        Ok(token)
    }

    /// Transfers an amount from the account of a session to another one.
    pub fn transfer(&self, token: u64, to: u64, amount: u64) -> Result<(), Refused> {
        self.db.try_transact(|transaction| {
            let session = transaction.get(&self.sessions, token.to_be_bytes())?;
            let session = session.ok_or(Refused::NoSession)?;
            let from = &session[..8];
            let payer = transaction.get(&self.accounts, from)?;
            let mut payer = Account::decode(&payer.expect("sessions are of accounts"));
            payer.balance = payer.balance.checked_sub(amount).ok_or(Refused::NotEnough)?;
            transaction.put(&self.accounts, from, payer.encode())?;
            // Read after the write, so that a transfer to the same account changes nothing.
            let payee = transaction.get(&self.accounts, to.to_be_bytes())?;
            let mut payee = Account::decode(&payee.ok_or(Refused::NoAccount)?);
            payee.balance += amount;
            transaction.put(&self.accounts, to.to_be_bytes(), payee.encode())?;
            transaction.merge(&self.counters, Done::Transfer.key(), 1_u64.to_le_bytes())?;
            Ok(())
        })
    }

    /// Gives an account another city, in the table and in the index.
    pub fn relocate(&self, id: u64, city: &str) -> Result<()> {
        self.db.transact(|transaction| {
            let account = transaction.get(&self.accounts, id.to_be_bytes())?;
            let account =
                account.ok_or_else(|| Error::InvalidArgument("no such account".into()))?;
            let mut account = Account::decode(&account);
            transaction.delete(&self.by_city, city_key(&account.city, id))?;
            transaction.put(&self.by_city, city_key(city, id), "")?;
            account.city = city.to_owned();
            transaction.put(&self.accounts, id.to_be_bytes(), account.encode())?;
            transaction.merge(&self.counters, Done::Move.key(), 1_u64.to_le_bytes())
        })
    }

    /// The accounts of a city, by the index.
    pub fn in_city(&self, city: &str) -> Result<Vec<u64>> {
        let keys = self.by_city.prefix(format!("{city}\0")).map(|pair| Ok(pair?.0));
        keys.map(|key: Result<Bytes>| Ok(number(&key?[city.len() + 1..]))).collect()
    }

    fn counter(&self, at: &Snapshot, done: Done) -> Result<u64> {
        let bytes = at.get(&self.counters, done.key())?;
        let number = |bytes: Bytes| u64::from_le_bytes(bytes[..].try_into().expect("`add` has 8"));
        Ok(bytes.map_or(0, number))
    }

    /// Checks the invariants of the bank on one snapshot. A violation panics.
    pub fn audit(&self) -> Result<Audit> {
        let began = now();
        let at = self.db.snapshot();
        let (mut total, mut expected) = (0, BTreeSet::new());
        for pair in at.iter(&self.accounts) {
            let (key, value) = pair?;
            let account = Account::decode(&value);
            total += account.balance;
            expected.insert(city_key(&account.city, number(&key)));
        }
        assert_eq!(total, ACCOUNTS * BALANCE, "money was made or lost");
        assert_eq!(expected.len() as u64, ACCOUNTS);
        let index = at.iter(&self.by_city).map(|pair| Ok(pair?.0.to_vec()));
        assert_eq!(index.collect::<Result<BTreeSet<_>>>()?, expected, "the index is wrong");
        let mut sessions = 0;
        for pair in at.iter(&self.sessions) {
            let until = Duration::from_micros(number(&pair?.1[8..]));
            assert!(until + LATE > began, "a session is seen {:?} after its end", began - until);
            sessions += 1;
        }
        let [login, transfer, relocated] = OPERATIONS.map(|done| self.counter(&at, done));
        Ok(Audit { total, counters: [login?, transfer?, relocated?], sessions })
    }

    /// Makes a backup into `folder` and returns its path.
    pub fn backup(
        &self,
        folder: &Path,
    ) -> std::result::Result<PathBuf, Box<dyn std::error::Error>> {
        std::fs::create_dir_all(folder)?;
        let part = folder.join("part");
        match std::fs::remove_dir_all(&part) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {} // the rest of an interrupted backup
        }
        self.db.checkpoint(&part)?;
        let last = backups(folder)?.pop().map_or(0, |(number, _)| number);
        let whole = folder.join((last + 1).to_string());
        std::fs::rename(part, &whole)?;
        Ok(whole)
    }

    /// The page of metrics for Prometheus: the counters, and the statistics of the store.
    fn metrics(&self) -> Result<String> {
        let at = self.db.snapshot();
        let mut page = String::from("# TYPE bank_operations_total counter\n");
        for done in OPERATIONS {
            let count = self.counter(&at, done)?;
            page += &format!("bank_operations_total{{kind=\"{}\"}} {count}\n", done.key());
        }
        page += &self.db.stats().prometheus();
        Ok(page)
    }

    /// Answers requests for the page of metrics, one after the other, forever.
    pub fn serve(&self, listener: &TcpListener) {
        for stream in listener.incoming() {
            if let Err(error) = stream.map_err(Into::into).and_then(|stream| self.answer(stream)) {
                eprintln!("a request failed: {error}"); // a lost client does not stop the server
            }
        }
    }

    fn answer(&self, mut stream: TcpStream) -> std::result::Result<(), Box<dyn std::error::Error>> {
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        let _length = stream.read(&mut [0; 4096])?; // every request gets the same page
        let page = self.metrics()?;
        let kind = "text/plain; version=0.0.4";
        let length = page.len();
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n")?;
        Ok(write!(stream, "Content-Length: {length}\r\nConnection: close\r\n\r\n{page}")?)
    }

    /// Works as a clerk: logs in, transfers, gives an account another city. `tell` is called after
    /// each acknowledged operation; the work ends when it returns false.
    pub fn work(&self, tell: impl Fn(Done) -> bool) -> Result<()> {
        loop {
            let token = self.login(rand::random_range(0..ACCOUNTS))?;
            if !tell(Done::Login) {
                return Ok(());
            }
            for _ in 0..10 {
                let (to, amount) = (rand::random_range(0..ACCOUNTS), rand::random_range(0..300));
                match self.transfer(token, to, amount) {
                    Ok(()) if !tell(Done::Transfer) => return Ok(()),
                    Err(Refused::Store(error)) => return Err(error),
                    _ => {}
                }
            }
            let city = CITIES[rand::random_range(0..CITIES.len())];
            self.relocate(rand::random_range(0..ACCOUNTS), city)?;
            if !tell(Done::Move) {
                return Ok(());
            }
        }
    }

    /// Closes the bank.
    pub fn close(self) -> Result<()> {
        self.db.close()
    }
}

/// The complete backups in a folder, oldest first.
fn backups(folder: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    if !folder.exists() {
        return Ok(found);
    }
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        found.extend(name.and_then(|name| name.parse().ok()).map(|number| (number, path.clone())));
    }
    found.sort();
    Ok(found)
}

/// Opens the newest backup for reading only, and audits it. None if there is no backup yet.
pub fn newest_backup(
    folder: &Path,
) -> std::result::Result<Option<(u64, Audit)>, Box<dyn std::error::Error>> {
    let found = backups(folder)?.pop();
    let Some((number, path)) = found else { return Ok(None) };
    let bank = Bank::look_into(&path)?;
    let audit = bank.audit()?;
    bank.close()?;
    Ok(Some((number, audit)))
}

/// Runs the bank: two clerks, periodic backups, and a page of metrics on any free port.
pub fn serve_and_work(
    bank: &Bank,
    copies: &Path,
    tell: impl Fn(Done) -> bool + Sync,
) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    eprintln!("the metrics are at http://{}/", listener.local_addr()?);
    let server = bank.clone();
    std::thread::spawn(move || server.serve(&listener));
    std::thread::scope(|scope| {
        let clerks = [scope.spawn(|| bank.work(&tell)), scope.spawn(|| bank.work(&tell))];
        while !clerks.iter().any(|clerk| clerk.is_finished()) {
            bank.backup(copies)?;
            std::thread::sleep(Duration::from_millis(20));
        }
        for clerk in clerks {
            clerk.join().expect("no clerk panics")?;
        }
        Ok(())
    })
}

/// A demonstration in `folder`: each feature once, with checks.
pub fn run(folder: &Path) -> std::result::Result<String, Box<dyn std::error::Error>> {
    let bank = Bank::open(Db::builder(folder.join("store")))?;
    let before = bank.audit()?;
    let token = bank.login_for(7, Duration::from_secs(3600))?;
    bank.transfer(token, 8, 1)?;
    bank.transfer(token, 7, 0)?; // to itself
    let too_much = bank.transfer(token, 8, BALANCE * ACCOUNTS + 1);
    assert!(matches!(too_much, Err(Refused::NotEnough)));
    assert!(matches!(bank.transfer(token, ACCOUNTS, 1), Err(Refused::NoAccount)));
    assert!(matches!(bank.transfer(!token, 8, 0), Err(Refused::NoSession)));
    bank.relocate(7, "Rome")?;
    assert_eq!(bank.in_city("Rome")?, [7]);
    let brief = bank.login(7)?;
    while !matches!(bank.transfer(brief, 8, 0), Err(Refused::NoSession)) {
        std::thread::sleep(Duration::from_millis(5)); // until the session has expired
    }
    bank.transfer(token, 8, 0)?;

    // Two clerks, until one of them has done 200 operations.
    let count = std::sync::atomic::AtomicU64::new(0);
    let ordering = std::sync::atomic::Ordering::Relaxed;
    let copies = folder.join("copies");
    serve_and_work(&bank, &copies, |_| count.fetch_add(1, ordering) < 200)?;
    let after = bank.audit()?;
    let sum = |audit: &Audit| audit.counters.iter().sum::<u64>();
    assert!(sum(&after) >= sum(&before) + 203, "{before:?}, {after:?}");

    // Read the page, as a scraper does.
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let server = bank.clone();
    std::thread::spawn(move || server.serve(&listener));
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n")?;
    let mut page = String::new();
    stream.read_to_string(&mut page)?;
    let line = format!("bank_operations_total{{kind=\"transfer\"}} {}\n", after.counters[1]);
    assert!(page.contains(&line) && page.contains("vlsm_"), "{page}");

    // A backup is a bank of its own.
    bank.backup(&copies)?;
    let (number, copy) = newest_backup(&copies)?.expect("a backup was made");
    assert_eq!((copy.total, copy.counters), (after.total, after.counters));
    // A reader beside the bank sees the same.
    let beside = Bank::beside(&folder.join("store"))?;
    assert_eq!(beside.audit()?.counters, after.counters);
    bank.relocate(7, "Oslo")?;
    beside.catch_up()?;
    assert_eq!(beside.audit()?.counters[2], after.counters[2] + 1);
    beside.close()?;
    bank.close()?;
    let kinds = OPERATIONS.map(Done::key).join(", ");
    Ok(format!("{:?} times {kinds}; backup {number} has the same\n", after.counters))
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [] => print!("{}", run(tempfile::tempdir()?.path())?),
        [folder] => print!("{}", run(Path::new(folder))?),
        [folder, "work"] => {
            let folder = Path::new(folder);
            let bank = Bank::open(Db::builder(folder.join("store")))?;
            let over = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
            let ended = std::sync::Arc::clone(&over);
            std::thread::spawn(move || {
                io::copy(&mut io::stdin(), &mut io::sink()).ok();
                ended.store(true, std::sync::atomic::Ordering::Relaxed);
            });
            let goes_on = |_| !over.load(std::sync::atomic::Ordering::Relaxed);
            serve_and_work(&bank, &folder.join("copies"), goes_on)?;
            println!("{:?}", bank.audit()?);
            bank.close()?;
        }
        [folder, "audit"] => {
            let bank = Bank::look_into(&Path::new(folder).join("store"))?;
            println!("{:?}", bank.audit()?);
        }
        [folder, "follow"] => {
            let bank = Bank::beside(&Path::new(folder).join("store"))?;
            loop {
                println!("{:?}", bank.audit()?);
                std::thread::sleep(Duration::from_millis(500));
                bank.catch_up()?;
            }
        }
        _ => return Err("usage: bank [FOLDER [work | audit | follow]]".into()),
    }
    Ok(())
}
