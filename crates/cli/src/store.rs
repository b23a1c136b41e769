//! The store as the commands use it: all calls of the engine except those of `bench`.
//!
//! A command opens the store (read-only if it only reads), does its work on one keyspace and closes
//! it. Writes of `put`, `merge` and `delete` are `Sync`; those of `import` are `Buffered`, with one
//! sync at the end.

use crate::failure::{Failure, Result, say};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::time::Duration;
use vlsm::{
    Batch, Builder, DEFAULT_KEYSPACE, Db, Durability, Error, Event, IngestOptions, IngestReport,
    Keyspace, KeyspaceOptions, LockHolder, Options, WriteOptions,
};

/// The store and keyspace of a command.
#[derive(Debug, clap::Args)]
pub struct StoreArgs {
    /// Folder of the store
    pub store: PathBuf,
    /// Keyspace to work on
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub keyspace: String,
    /// Profile to open the store with, for example rocksdb, or rocksdb/admission=open to replace a
    /// mechanism [default: steady]
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,
    /// File of options to open the store with (docs/mechanisms.md, "Profiles")
    #[arg(long, value_name = "FILE", conflicts_with = "profile")]
    pub options: Option<PathBuf>,
    /// If the WAL is damaged, keep the batches before the damage and give up the rest
    #[arg(long)]
    pub salvage_wal: bool,
    /// Drop SSTs that are damaged or missing; older values of their keys may show again
    #[arg(long)]
    pub salvage_ssts: bool,
    /// The store, if it is open already: in a shell.
    #[arg(skip)]
    pub opened: Option<Db>,
}

impl StoreArgs {
    /// Whether these arguments request other options than the defaults for the open.
    pub fn differs(&self) -> bool {
        self.profile.is_some() || self.options.is_some() || self.salvage_wal || self.salvage_ssts
    }
}

/// The permission of a command to create its keyspace.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct CreateArgs {
    /// Create the keyspace if it does not exist; `default` always exists
    #[arg(long)]
    pub create: bool,
}

/// The access of a command to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reads it, and changes nothing in its folder.
    Read,
    /// Changes an existing store.
    Write,
    /// Changes it, and creates the store if it does not exist.
    Create,
}

/// An open store and one of its keyspaces.
pub struct Store {
    db: Db,
    keyspace: Keyspace,
    batch: Batch,
    /// Whether the store stays open when this is closed.
    stays: bool,
}

/// The keys a scan covers.
pub type Range = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// The metrics of a store that this program only reads, in the text format of Prometheus.
///
/// # Errors
/// Any error of opening it.
pub fn metrics(store: &Path) -> Result<String> {
    let builder = || Db::builder(store).read_only(true).keep_unknown_operators(true);
    let db = match builder().open() {
        Err(error @ Error::Locked { .. }) => {
            say_beside(&error);
            builder().follow(true).open()?
        }
        opened => opened?,
    };
    let page = db.stats().prometheus();
    db.close()?;
    Ok(page)
}

impl Store {
    /// Opens a store.
    ///
    /// # Errors
    /// Any error of opening it.
    pub fn open(args: &StoreArgs, access: Access) -> Result<Self> {
        let db = open_db(args, access)?;
        let keyspace = keyspace(&db, &args.keyspace)?;
        Ok(Self::over(args, db, keyspace))
    }

    fn over(args: &StoreArgs, db: Db, keyspace: Keyspace) -> Self {
        Self { keyspace, db, batch: Batch::new(), stays: args.opened.is_some() }
    }

    /// Opens a store to write records, and creates it if it does not exist. The keyspace is created
    /// only on demand, because its name may be a typo.
    ///
    /// # Errors
    /// Any error of opening it.
    pub fn open_to_add(args: &StoreArgs, create: CreateArgs) -> Result<Self> {
        let hint = |failure: Failure| match failure {
            Failure::Failed(what) => Failure::Failed(format!("{what}; --create makes it")),
            other => other,
        };
        if create.create || args.keyspace == DEFAULT_KEYSPACE {
            let db = open_db(args, Access::Create)?;
            let keyspace = match db.keyspace(&args.keyspace) {
                Ok(keyspace) => keyspace,
                Err(_) => db.create_keyspace(&args.keyspace, KeyspaceOptions::new())?,
            };
            return Ok(Self::over(args, db, keyspace));
        }
        // A store that does not exist has no such keyspace, and should not be left behind.
        let missing = |failure: Failure| match args.store.exists() {
            true => failure,
            false => hint(failure),
        };
        let db = open_db(args, Access::Write).map_err(missing)?;
        let keyspace = keyspace(&db, &args.keyspace).map_err(hint)?;
        Ok(Self::over(args, db, keyspace))
    }

    /// Opens a store for merges. With an operator, the keyspace is created with it, or must
    /// already have it.
    ///
    /// # Errors
    /// Any error of opening it.
    pub fn open_for_merges(args: &StoreArgs, operator: Option<&str>) -> Result<Self> {
        let Some(operator) = operator else { return Self::open(args, Access::Write) };
        let options = KeyspaceOptions::new().merge_operator(operator);
        if let Some(db) = &args.opened {
            let keyspace = db.create_keyspace(&args.keyspace, options)?;
            return Ok(Self::over(args, db.clone(), keyspace));
        }
        let mut builder = builder(args, Access::Create)?;
        if args.keyspace == DEFAULT_KEYSPACE {
            builder = builder.default_keyspace(options.clone());
        }
        let db = builder.open()?;
        let keyspace = db.create_keyspace(&args.keyspace, options)?;
        Ok(Self::over(args, db, keyspace))
    }

    /// Opens a store to read its readable records, although SSTs may be missing.
    ///
    /// # Errors
    /// Any error of opening it.
    pub fn open_damaged(args: &StoreArgs) -> Result<Self> {
        if args.opened.is_some() {
            return Self::open(args, Access::Read);
        }
        let db = builder(args, Access::Read)?.allow_missing_ssts(true).open()?;
        let keyspace = keyspace(&db, &args.keyspace)?;
        Ok(Self::over(args, db, keyspace))
    }

    /// A keyspace of the store by its name. With `create` it is created if it does not exist.
    ///
    /// # Errors
    /// It does not exist, or cannot be created.
    pub fn other_keyspace(&self, name: &str, create: bool) -> Result<Keyspace> {
        match keyspace(&self.db, name) {
            Err(_) if create => Ok(self.db.create_keyspace(name, KeyspaceOptions::new())?),
            found => found,
        }
    }

    /// Makes this the keyspace of the following writes. Returns the previous one.
    pub fn use_keyspace(&mut self, keyspace: Keyspace) -> Keyspace {
        std::mem::replace(&mut self.keyspace, keyspace)
    }

    /// The readable pairs, and the ranges of keys that cannot be read.
    pub fn salvage(&self) -> vlsm::Salvage {
        self.keyspace.salvage()
    }

    /// The value of a key.
    pub fn get(&self, key: &[u8]) -> Result<Option<bytes::Bytes>> {
        Ok(self.keyspace.get(key)?)
    }

    /// Pairs within a range, as of now.
    pub fn range(&self, range: Range) -> vlsm::Iter {
        self.keyspace.range(range)
    }

    /// Pairs whose keys begin with a prefix, as of now.
    pub fn prefix(&self, prefix: &[u8]) -> vlsm::Iter {
        self.keyspace.prefix(prefix)
    }

    /// The approximate size of a range.
    pub fn size(&self, range: Range) -> Result<vlsm::ApproximateSize> {
        Ok(self.keyspace.approximate_size(range)?)
    }

    /// Merges a range down to the last level.
    pub fn compact(&self, range: Range) -> Result {
        Ok(self.keyspace.compact_range(range)?)
    }

    /// Ingests files of sorted records.
    pub fn ingest(&self, files: &[PathBuf], options: IngestOptions) -> Result<IngestReport> {
        Ok(self.keyspace.ingest_with(files, options)?)
    }

    /// Adds a write to the batch.
    pub fn batch_put(&mut self, key: &[u8], value: &[u8]) {
        self.batch.put(&self.keyspace, key, value);
    }

    /// Adds a write that expires after this time to the batch.
    pub fn batch_put_with_ttl(&mut self, key: &[u8], value: &[u8], ttl: Duration) {
        self.batch.put_with_ttl(&self.keyspace, key, value, ttl);
    }

    /// Adds a removal to the batch.
    pub fn batch_delete(&mut self, key: &[u8]) {
        self.batch.delete(&self.keyspace, key);
    }

    /// Adds the removal of a range of keys to the batch.
    pub fn batch_delete_range(&mut self, from: &[u8], to: &[u8]) {
        self.batch.delete_range(&self.keyspace, from..to);
    }

    /// Adds an operand to the batch.
    pub fn batch_merge(&mut self, key: &[u8], operand: &[u8]) {
        self.batch.merge(&self.keyspace, key, operand);
    }

    /// Records and bytes in the batch.
    pub fn batch_len(&self) -> (usize, usize) {
        (self.batch.len(), self.batch.encoded_len())
    }

    /// Writes the batch so that it survives a crash of the process, and empties it.
    pub fn batch_write(&mut self) -> Result {
        self.db.write(&self.batch, WriteOptions::durability(Durability::Buffered))?;
        self.batch.clear();
        Ok(())
    }

    /// Writes the batch, and makes it and all earlier batches survive power loss.
    pub fn sync(&mut self) -> Result {
        self.batch_write()?;
        Ok(self.db.sync()?)
    }

    /// Closes the store.
    pub fn close(self) -> Result {
        let Self { db, keyspace, batch: _, stays } = self;
        drop(keyspace);
        if stays { Ok(()) } else { Ok(db.close()?) }
    }
}

/// A keyspace by its name.
fn keyspace(db: &Db, name: &str) -> Result<Keyspace> {
    match db.keyspace(name) {
        Err(vlsm_core::Error::NoSuchKeyspace(_)) => {
            Err(no_keyspace(name, db.keyspaces().iter().map(String::as_str)))
        }
        other => Ok(other?),
    }
}

/// The failure for a keyspace that does not exist, with those that do.
pub fn no_keyspace<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Failure {
    let known: Vec<&str> = known.collect();
    let hint = match vlsm_policy::names::nearest(name, known.iter().copied()) {
        Some(near) => format!("; did you mean {near:?}?"),
        None => ".".to_owned(),
    };
    Failure::new(format!(
        "there is no keyspace {name:?} in the store{hint} There are: {}",
        known.join(", ")
    ))
}

/// Opens the engine. A command that only reads works beside a process that has the store open: it
/// then shows the store as it is at that moment.
pub fn open_db(args: &StoreArgs, access: Access) -> Result<Db> {
    if let Some(db) = &args.opened {
        return Ok(db.clone());
    }
    match builder(args, access)?.open() {
        Err(error @ Error::Locked { .. }) if access == Access::Read => {
            say_beside(&error);
            Ok(builder(args, access)?.follow(true).open()?)
        }
        opened => Ok(opened?),
    }
}

/// Reports that a command reads a store that is in use.
pub fn say_beside(locked: &Error) {
    let what = "reading beside it, as of now";
    match locked {
        Error::Locked { path, holder: LockHolder::Process(id) } => {
            say(format_args!("{} is in use by process {id}: {what}", path.display()));
        }
        Error::Locked { path, .. } => say(format_args!("{} is in use: {what}", path.display())),
        other => say(format_args!("{other}: {what}")),
    }
}

/// Reads a file of options.
///
/// # Errors
/// A message that names the file: it cannot be read, or an option in it is wrong.
pub fn read_options(path: &Path) -> std::result::Result<Options, String> {
    let named = |why: String| format!("{}: {why}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| named(error.to_string()))?;
    let options = Options::from_toml(&text).map_err(|error| named(error.to_string()))?;
    options.check().map_err(|error| named(error.to_string()))?;
    Ok(options)
}

fn builder(args: &StoreArgs, access: Access) -> Result<Builder> {
    let mut builder = Db::builder(&args.store);
    if let Some(path) = &args.options {
        builder = builder.options(read_options(path).map_err(Failure::usage)?);
    }
    let mut builder = builder
        .create_if_missing(access == Access::Create)
        .read_only(access == Access::Read)
        .keep_unknown_operators(true)
        .configure(|options| {
            options.salvage_wal = args.salvage_wal;
            options.salvage_ssts = args.salvage_ssts;
        })
        .listener(|event| {
            if let Event::WalDamaged { .. } | Event::WalLost { .. } | Event::SstLost { .. } = event
            {
                say(format_args!("{event}"));
            }
        });
    if let Some(profile) = &args.profile {
        builder = builder.profile(profile)?;
    }
    Ok(builder)
}
