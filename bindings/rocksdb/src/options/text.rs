//! Options as text: `name=value;name=value`, changes of an open store, and those of a store on
//! disk.
//!
//! Only options that `options.txt` has are known. vLSM writes no file of options, so the latest
//! options of a store are its column families, with default options for each.

use super::apply::{check, parse};
use crate::bag::{Bag, Status, row};
use crate::call::{
    Outcome, api, array, changed, count, give, path, pointers_out, shared, text, text_out,
};
use crate::options::shapes::rocksdb_cache_t;
use crate::status::Failure;
use crate::store::{rocksdb_column_family_handle_t, rocksdb_t, store};
use std::ffi::{c_char, c_int, c_void};

/// Sets one option by its name.
fn set_by_name(options: &mut Bag, name: &str, value: &str) -> Outcome {
    let row = row("options", name)
        .ok_or_else(|| Failure::argument(format!("there is no option {name:?}")))?;
    let value = parse(row, value)
        .ok_or_else(|| Failure::argument(format!("option {name}: invalid value {value:?}")))?;
    options.set(row.key, value);
    Ok(())
}

/// Checks changes of options while the store is open. Changes that RocksDB allows at any time have
/// no effect here.
unsafe fn change(
    db: *const rocksdb_t,
    number: c_int,
    keys: *const *const c_char,
    values: *const *const c_char,
) -> Outcome {
    unsafe {
        store(db)?;
        let number = count(number)?;
        if number == 0 {
            return Err(Failure::argument("empty input"));
        }
        let mut options = Bag::new("options");
        let pairs = array(keys, number)?.iter().zip(array(values, number)?);
        for (key, value) in pairs {
            set_by_name(&mut options, text(*key, "a name")?, text(*value, "a value")?)?;
        }
        let mapped = options.changes().find(|(row, _)| row.status == Status::Mapped);
        if let Some((row, _)) = mapped {
            let what = format!("option {} applies only when the database is opened", row.key);
            return Err(Failure::argument(what));
        }
        check(&options)
    }
}

api! {
    fallible fn rocksdb_get_options_from_string(
        base: *const Bag,
        string: *const c_char,
        to: *mut Bag,
    ) {
        let mut options = shared(base, "the options")?.clone();
        let string = text(string, "the text")?;
        for part in string.split(';').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').ok_or_else(|| {
                Failure::argument(format!("{part:?} is not of the form name=value"))
            })?;
            set_by_name(&mut options, name.trim(), value.trim())?;
        }
        *changed(to, "the new options")? = options;
        Ok(())
    }

    fallible fn rocksdb_set_options(
        db: *mut rocksdb_t,
        number: c_int,
        keys: *const *const c_char,
        values: *const *const c_char,
    ) {
        change(db, number, keys, values)
    }

    fallible fn rocksdb_set_options_cf(
        db: *mut rocksdb_t,
        family: *mut rocksdb_column_family_handle_t,
        number: c_int,
        keys: *const *const c_char,
        values: *const *const c_char,
    ) {
        crate::store::place(db, family)?;
        change(db, number, keys, values)
    }

    fallible fn rocksdb_load_latest_options(
        folder: *const c_char,
        env: *mut c_void,
        ignore_unknown: bool,
        cache: *mut rocksdb_cache_t,
        options: *mut *mut Bag,
        number: *mut usize,
        names: *mut *mut *mut c_char,
        families: *mut *mut *mut Bag,
    ) {
        let _ = (env, ignore_unknown, cache);
        let found = crate::open::names_of(path(folder)?)?;
        let places = (options.as_mut(), number.as_mut(), names.as_mut(), families.as_mut());
        let (Some(options), Some(number), Some(names), Some(families)) = places else {
            return Err(Failure::argument("the place of a result is NULL"));
        };
        *options = crate::bag::new("options");
        *number = found.len();
        let texts: Vec<*mut c_char> = found.iter().map(|name| text_out(name)).collect();
        *names = pointers_out(&texts);
        let each: Vec<*mut Bag> = found.iter().map(|_| give(Bag::new("options"))).collect();
        *families = pointers_out(&each);
        Ok(())
    }

    fn rocksdb_load_latest_options_destroy(
        options: *mut Bag,
        names: *mut *mut c_char,
        families: *mut *mut Bag,
        number: usize,
    ) {
        crate::call::free(options)?;
        for name in array(names, number)? {
            libc::free((*name).cast());
        }
        for family in array(families, number)? {
            crate::call::free(*family)?;
        }
        libc::free(names.cast());
        libc::free(families.cast());
        Ok(())
    }
}
