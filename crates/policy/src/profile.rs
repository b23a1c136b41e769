//! Named profiles: a shape, a schedule, an admission and their sizes, each a file in `profiles/`
//! (docs/mechanisms.md, "Profiles"). Any other combination is a profile with some mechanisms
//! replaced: `rocksdb/schedule=fifo/admission=open` has the sizes of `rocksdb`.
//!
//! A file has the options that it changes of another profile, as a user's file of options has:
//!
//! ```toml
//! profile = "rocksdb"          # `vlsm` where it is left out
//! schedule = "silk"
//! [tree]
//! memtable_bytes = "128M"
//! [silk]
//! window = 20_000
//! ```
//!
//! An option that only one table has may stand outside of it.

use crate::names::{suggestion, unknown};
use crate::options::PolicyOptions;
use std::collections::BTreeSet;
use toml::{Table, Value};
use vlsm_core::{Error, Result};

/// A name for a set of options.
#[derive(Debug, Clone, Copy)]
pub struct Profile {
    /// Its name.
    pub name: &'static str,
    /// Its file: `what` is a short description, the rest are options.
    text: &'static str,
}

macro_rules! profiles {
    ($($name:literal,)*) => {
        &[$(Profile {
            name: $name,
            text: include_str!(concat!("../profiles/", $name, ".toml")),
        },)*]
    };
}

/// All profiles; the first is the default.
pub static PROFILES: &[Profile] = profiles![
    "steady",
    "vlsm",
    "vlsm-4",
    "rocksdb",
    "rocksdb-io",
    "rocksdb-debt64",
    "rocksdb-overflow64",
    "triad",
    "lsmi",
    "rocksdb-auto",
    "silk",
    "silk-bandwidth",
    "silk-scheduling",
    "silk-dlc-load",
    "vlsm+silk",
    "dlc",
    "dlc-part",
    "dlc-delay-part",
    "dlc-no-burst",
    "adoc",
    "cruise",
    "vlsm+cruise",
    "pebblesdb",
    "blsm",
];

impl Profile {
    /// A short description.
    #[must_use]
    pub fn what(&self) -> String {
        let (what, _) = self.read().unwrap_or_default();
        what
    }

    /// Its options.
    ///
    /// # Errors
    /// [`Error::Internal`] if its file is wrong; a test reads them all.
    pub fn options(&self) -> Result<PolicyOptions> {
        let (_, options) = self
            .read()
            .map_err(|why| Error::Internal(format!("profiles/{}.toml: {why}", self.name)))?;
        Ok(options)
    }

    fn read(&self) -> std::result::Result<(String, PolicyOptions), String> {
        let mut file: Table = self.text.parse().map_err(|why: toml::de::Error| why.to_string())?;
        let Some(Value::String(what)) = file.remove("what") else {
            return Err("`what` is missing: a short description".into());
        };
        Ok((what, PolicyOptions::try_from(file)?))
    }
}

/// The options of the profile of this name: `NAME`, or `NAME/AXIS=MECHANISM/…` with the profile's
/// sizes and other mechanisms, where an axis is `shape`, `schedule` or `admission`.
///
/// # Errors
/// [`Error::InvalidOption`] that names the nearest known one, or says why the mechanisms do not
/// work together.
pub fn profile(name: &str) -> Result<PolicyOptions> {
    let (name, changes) = name.split_once('/').unwrap_or((name, ""));
    let Some(profile) = PROFILES.iter().find(|profile| profile.name == name) else {
        let known = PROFILES.iter().map(|profile| profile.name);
        return Err(unknown("profile", name, known));
    };
    let mut options = profile.options()?;
    for change in changes.split('/').filter(|change| !change.is_empty()) {
        let (axis, mechanism) = change.split_once('=').unwrap_or((change, ""));
        *options.axis(axis)? = mechanism.to_owned();
    }
    options.build()?;
    Ok(options)
}

/// Reads the tables of a file over those of its profile.
impl TryFrom<Table> for PolicyOptions {
    type Error = String;

    fn try_from(mut file: Table) -> std::result::Result<Self, String> {
        let base = match file.remove("profile") {
            None => Self::default(),
            Some(Value::String(name)) => profile(&name).map_err(|why| why.to_string())?,
            Some(other) => return Err(format!("profile is a name, not {other}")),
        };
        let mut all = Table::try_from(base).map_err(|why| why.to_string())?;
        // An option outside of its table overrides the one in the table.
        let (tables, single): (Vec<_>, Vec<_>) = file.into_iter().partition(|(_, v)| v.is_table());
        for (key, value) in tables.into_iter().chain(single) {
            match (locate(&mut all, &key)?, value) {
                (Value::Table(table), Value::Table(said)) => merge(&key, table, said)?,
                (at, value) => *at = value,
            }
        }
        Self::of_tables(all)
    }
}

/// Puts what a file says into a table that has every option.
fn merge(name: &str, table: &mut Table, said: Table) -> std::result::Result<(), String> {
    for (key, value) in said {
        match table.get_mut(&key) {
            Some(at) => *at = value,
            None => {
                let why = suggestion(&key, table.keys().map(String::as_str));
                return Err(format!("{name}: {why}"));
            }
        }
    }
    Ok(())
}

/// Finds the place for the value of a key of the file: at the top, or in the one table that has the
/// key.
fn locate<'a>(all: &'a mut Table, key: &str) -> std::result::Result<&'a mut Value, String> {
    let has = |value: &Value| value.as_table().is_some_and(|table| table.contains_key(key));
    let mut names: BTreeSet<String> = all.keys().cloned().collect();
    if all.contains_key(key) {
        return Ok(&mut all[key]);
    }
    let mut holders = names.iter().filter(|name| has(&all[name.as_str()]));
    match (holders.next(), holders.next()) {
        (Some(table), None) => Ok(&mut all[table.as_str()][key]),
        (Some(one), Some(other)) => {
            Err(format!("{key} is in several tables: {one}.{key}, {other}.{key}, …"))
        }
        _ => {
            let tables = all.values().filter_map(Value::as_table);
            names.extend(tables.flat_map(|table| table.keys().cloned()));
            names.insert("profile".into());
            Err(suggestion(key, names.iter().map(String::as_str)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::TreeOptions;

    #[test]
    fn every_profile_builds() {
        for entry in PROFILES {
            profile(entry.name).expect("known").build().expect(entry.name);
        }
        assert_eq!(profile("vlsm").expect("known"), PolicyOptions::default());
    }

    #[test]
    fn a_triple_of_ones_own_has_a_profiles_sizes() {
        let own = profile("rocksdb/shape=lsmi/admission=open").expect("known");
        let (shape, admission) = ("lsmi".into(), "open".into());
        assert_eq!(own, PolicyOptions { shape, admission, ..profile("rocksdb").expect("known") });
        assert_eq!(profile("vlsm/").expect("known"), PolicyOptions::default());
        let refused = |name: &str| profile(name).expect_err("unknown").to_string();
        assert!(refused("rocksbd/shape=lsmi").contains("did you mean \"rocksdb\"?"));
        let near = "option admission: \"opne\" is not known; did you mean \"open\"?";
        assert!(refused("rocksdb/admission=opne").starts_with(near));
        assert!(refused("rocksdb/shap=lsmi").contains("did you mean \"shape\"?"));
        assert!(refused("rocksdb/lsmi").contains("There are: shape, schedule, admission"));
    }

    #[test]
    fn what_no_paper_has_is_in_the_default_profile_only() {
        let with = |has: fn(&TreeOptions) -> bool| -> Vec<_> {
            let has = |named: &&Profile| has(&profile(named.name).expect("it ships").tree);
            PROFILES.iter().filter(has).map(|named| named.name).collect()
        };
        assert_eq!(with(|tree| tree.jobs_yield), ["steady"]);
        assert_eq!(with(|tree| tree.cache_rewrites), ["steady"]);
    }

    fn read(text: &str) -> std::result::Result<PolicyOptions, String> {
        PolicyOptions::try_from(text.parse::<Table>().map_err(|why| why.to_string())?)
    }

    #[test]
    fn a_file_says_what_it_changes_of_a_profile() {
        let read = |text| read(text).expect("it is right");
        assert_eq!(read(""), PolicyOptions::default());
        let silk = read("profile = 'rocksdb'\nschedule = 'silk'\n[silk]\nwindow = 20_000");
        let mut expected = profile("rocksdb").expect("known");
        expected.schedule = "silk".into();
        expected.schedules.silk.window = vlsm_core::Micros(20_000);
        assert_eq!(silk, expected);
        let sizes =
            read("[tree]\nmemtable_bytes = '32M'\noverflow = 'none'\ndebt_soft = '1G'").tree;
        assert_eq!(sizes.memtable_bytes, vlsm_core::Bytes::mib(32));
        assert_eq!((sizes.overflow, sizes.debt_soft), (None, Some(vlsm_core::Bytes(1 << 30))));
        // As in files that were written before there were tables.
        let flat = read("sst_min = 4096\nmerge_flushed = 3\n[silk]\nwindow = 20_000");
        assert_eq!(flat.shapes.vlsm.sst_min, vlsm_core::Bytes(4096));
        assert_eq!(flat.shapes.tiered_l0.merge_flushed, 3);
    }

    #[test]
    fn whatever_a_profile_has_is_read_back() {
        for entry in PROFILES {
            let options = entry.options().expect("it is whole");
            let file = Table::try_from(&options).expect("it can be written");
            assert_eq!(PolicyOptions::try_from(file), Ok(options), "{}", entry.name);
        }
    }

    #[test]
    fn mistakes_in_files_are_answered_with_help() {
        let refused = |text: &str, parts: &[&str]| {
            let why = read(text).expect_err("refused");
            assert!(parts.iter().all(|part| why.contains(part)), "{why}");
        };
        refused("memtable_byts = 1", &["did you mean \"memtable_bytes\"?"]);
        refused("[tree]\nsst_maxx = 1", &["tree: ", "did you mean \"sst_max\"?"]);
        refused("[silc]\nwindow = 1", &["did you mean \"silk\"?"]);
        refused("load = 'weighted'", &["several tables", "silk.load", "dlc.load"]);
        refused("profile = 'rocksbd'", &["did you mean \"rocksdb\"?"]);
        refused("profle = 'rocksdb'", &["did you mean \"profile\"?"]);
        refused("profile = 3", &["a name, not 3"]);
        refused("[tree]\nlevels = 'many'", &["tree: ", "many", "levels"]);
        refused("[tree]\nmemtable_bytes = '8X'", &["8X", "64K"]);
        refused("[tree]\noverflow = 'lots'", &["overflow", "none"]);
        refused("[fifo]\nspeed = 1", &["\"fifo\" is not known"]);
        refused("tree = 4", &["tree"]);
    }

    #[test]
    fn mistakes_are_answered_with_help() {
        let refused = profile("rocksdb-oi").expect_err("unknown").to_string();
        let near = "option profile: \"rocksdb-oi\" is not known; did you mean \"rocksdb-io\"? ";
        assert!(refused.starts_with(near), "{refused}");
        assert!(PROFILES.iter().all(|profile| refused.contains(profile.name)), "{refused}");
        let options = PolicyOptions { shape: "colunm".into(), ..PolicyOptions::default() };
        assert!(options.build().expect_err("unknown").to_string().starts_with("option shape"));
        let options = {
            let tree = TreeOptions { l0_max: 0, ..TreeOptions::default() };
            PolicyOptions { tree, ..PolicyOptions::default() }
        };
        assert!(options.build().expect_err("refused").to_string().contains("l0_trigger"));
    }
}
