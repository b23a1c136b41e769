//! redb: a file opened to read only. redb lets nobody open a file to read while a process can write
//! it; that is refused, as is a file that its process left without closing it, because only a
//! writer repairs it.
//!
//! Tables have types, which a program must know to open them. Here the names of the types are asked
//! for ([`types`]), and the bytes are read as they are ([`RawKey`], [`RawValue`]).
//!
//! **Keys**: they must have the order of their bytes, as all keys here.
//! - Bytes, arrays of bytes, strings, `bool` and `()`: redb orders them by their bytes.
//! - Unsigned integers and `char`: redb keeps them little-endian and orders them by value. They
//!   come over big-endian. Signed ones do so with the highest bit flipped: -1 is before 0.
//! - All others (tuples, options, floats, types of the program): refused before anything is
//!   written, because their order is code of theirs.
//!
//! **Values**: the bytes that redb keeps, whatever the type: integers are little-endian.
//!
//! Multimap tables, which have several values of a key, are refused.
//!
//! Threads: the types of the table that is open are a matter of the thread.

use super::{Lines, Outcome, chosen};
use redb::{
    DatabaseError, Key, MultimapTableHandle, ReadOnlyDatabase, ReadTransaction, ReadableDatabase,
    ReadableTable, TableDefinition, TableError, TableHandle, TypeName, Value,
};
use std::borrow::Cow;
use std::cell::RefCell;
use std::cmp::Ordering;
use std::io::Write;
use std::path::Path;

/// The type of a key or a value.
#[derive(Clone)]
struct Type {
    name: TypeName,
    width: Option<usize>,
}

thread_local! {
    static KEY: RefCell<Type> = RefCell::new(unknown());
    static VALUE: RefCell<Type> = RefCell::new(unknown());
}

/// A width that no type has.
const WRONG: Option<usize> = Some(usize::MAX);

/// A type that no table has.
fn unknown() -> Type {
    Type { name: TypeName::new("peers::export::Unknown"), width: WRONG }
}

/// A key of any type, as its bytes.
#[derive(Debug)]
struct RawKey;
/// A value of any type, as its bytes.
#[derive(Debug)]
struct RawValue;

macro_rules! raw {
    ($raw:ty, $of:ident) => {
        impl Value for $raw {
            type SelfType<'a> = &'a [u8];
            type AsBytes<'a> = &'a [u8];

            fn fixed_width() -> Option<usize> {
                $of.with_borrow(|of| of.width)
            }

            fn from_bytes<'a>(data: &'a [u8]) -> &'a [u8]
            where
                Self: 'a,
            {
                data
            }

            fn as_bytes<'a, 'b: 'a>(value: &'a &'b [u8]) -> &'a [u8]
            where
                Self: 'b,
            {
                value
            }

            fn type_name() -> TypeName {
                $of.with_borrow(|of| of.name.clone())
            }
        }
    };
}

raw!(RawKey, KEY);
raw!(RawValue, VALUE);

impl Key for RawKey {
    /// A whole table is read, so nothing is searched.
    fn compare(one: &[u8], other: &[u8]) -> Ordering {
        one.cmp(other)
    }
}

pub fn export(path: &Path, only: &[String], lines: &mut Lines<impl Write>) -> Outcome {
    let db = ReadOnlyDatabase::open(path).map_err(|error| explain(&error))?;
    let txn = db.begin_read().map_err(told)?;
    let plain: Vec<String> =
        txn.list_tables().map_err(told)?.map(|table| table.name().to_owned()).collect();
    let multimaps = txn.list_multimap_tables().map_err(told)?;
    let multimaps: Vec<String> = multimaps.map(|table| table.name().to_owned()).collect();
    let names = plain.into_iter().chain(multimaps.iter().cloned()).collect();
    let mut tables = Vec::new();
    for name in chosen(names, only, "table")? {
        if multimaps.contains(&name) {
            return Err(format!(
                "table {name:?} is a multimap, with several values of a key, where vlsm has one: \
                 write it over in your program, with the value in the key; {OMIT}"
            ));
        }
        let (key, value) = types(&txn, &name)?;
        let order = Order::of(&key).map_err(|why| format!("table {name:?}: {why}; {OMIT}"))?;
        tables.push((name, key, value, order));
    }
    for (name, key, value, order) in tables {
        lines.keyspace(&name)?;
        set(key, value);
        let table =
            txn.open_table(TableDefinition::<RawKey, RawValue>::new(&name)).map_err(told)?;
        for pair in table.iter().map_err(told)? {
            let (key, value) = pair.map_err(told)?;
            lines.pair(&order.portable(key.value()), value.value())?;
        }
    }
    Ok(())
}

const OMIT: &str = "--only NAME exports the tables that you name";

fn told(error: impl std::fmt::Display) -> String {
    format!("redb: {error}")
}

fn explain(error: &DatabaseError) -> String {
    match error {
        DatabaseError::DatabaseAlreadyOpen => {
            "a process has it open: end that process first; redb \
                                               lets nobody read beside it"
                .to_owned()
        }
        DatabaseError::RepairAborted => "its process ended without closing it, so it must be \
                                         repaired first: open it once with its own program"
            .to_owned(),
        DatabaseError::UpgradeRequired(version) => format!(
            "its file format {version} is old: upgrade it with the redb crate that made it \
             (Database::upgrade)"
        ),
        error => told(error),
    }
}

/// The types of a table. redb tells them one after the other when a table is opened with wrong
/// ones: the names, then the width of the key, then that of the value.
fn types(txn: &ReadTransaction, name: &str) -> Outcome<(Type, Type)> {
    let (mut key, mut value) = (unknown(), unknown());
    for _ in 0..4 {
        set(key.clone(), value.clone());
        match txn.open_table(TableDefinition::<RawKey, RawValue>::new(name)) {
            Ok(_) => return Ok((key, value)),
            Err(TableError::TableTypeMismatch { key: keys, value: values, .. }) => {
                key.name = keys;
                value.name = values;
            }
            Err(TableError::TypeDefinitionChanged { width, .. }) if key.width == WRONG => {
                key.width = width;
            }
            Err(TableError::TypeDefinitionChanged { width, .. }) => value.width = width,
            Err(error) => return Err(told(error)),
        }
    }
    Err(format!("the types of table {name:?} are not understood"))
}

fn set(key: Type, value: Type) {
    KEY.set(key);
    VALUE.set(value);
}

/// The order of keys, and so the form in which they come over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Order {
    /// That of their bytes.
    Bytes,
    /// That of a little-endian number.
    Unsigned,
    /// That of a little-endian number in two's complement.
    Signed,
}

impl Order {
    /// The order of a type.
    ///
    /// # Errors
    /// It is not known, or is not that of bytes.
    fn of(key: &Type) -> Outcome<Self> {
        let name = key.name.name();
        // A type of the program may have the name of one of redb's.
        let own = key.name == TypeName::new(name);
        match name {
            _ if own => Err(format!(
                "its keys are of the type {name}, whose order is code of its program, and vlsm \
                 orders keys by their bytes: write it over in your program"
            )),
            "&[u8]" | "&str" | "String" | "bool" | "()" => Ok(Self::Bytes),
            _ if name.starts_with("[u8;") => Ok(Self::Bytes),
            "u8" | "u16" | "u32" | "u64" | "u128" | "char" => Ok(Self::Unsigned),
            "i8" | "i16" | "i32" | "i64" | "i128" => Ok(Self::Signed),
            _ if name.starts_with("NonZeroU") => Ok(Self::Unsigned),
            _ if name.starts_with("NonZeroI") => Ok(Self::Signed),
            _ => Err(format!(
                "its keys are of the type {name}, which redb does not order by the bytes it keeps, \
                 as vlsm does: write it over in your program, with keys whose bytes have the order"
            )),
        }
    }

    /// The key with bytes of this order.
    fn portable(self, key: &[u8]) -> Cow<'_, [u8]> {
        if self == Self::Bytes {
            return Cow::Borrowed(key);
        }
        let mut key: Vec<u8> = key.iter().rev().copied().collect();
        if self == Self::Signed
            && let Some(high) = key.first_mut()
        {
            *high ^= 0x80;
        }
        Cow::Owned(key)
    }
}
