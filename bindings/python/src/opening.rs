//! The arguments with which a store is opened: whether it may be created or written, its options
//! and its merge operators.

use crate::operators::Operator;
use crate::options::toml;
use engine::{Db, Error, Options, Result};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

/// How a store is opened.
pub struct Opening {
    create: bool,
    read_only: bool,
    follow: bool,
    profile: Option<String>,
    /// In TOML.
    options: String,
    merge_operators: Vec<Operator>,
}

impl Opening {
    /// From keyword arguments.
    ///
    /// # Errors
    /// `TypeError` for an unknown argument, or one of a wrong type.
    pub fn of(arguments: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let mut opening = Self {
            create: true,
            read_only: false,
            follow: false,
            profile: None,
            options: String::new(),
            merge_operators: Vec::new(),
        };
        for (name, value) in arguments.into_iter().flatten().filter(|(_, value)| !value.is_none()) {
            match name.extract::<String>()?.as_str() {
                "create" => opening.create = value.extract()?,
                "read_only" => opening.read_only = value.extract()?,
                "follow" => opening.follow = value.extract()?,
                "profile" => opening.profile = value.extract()?,
                "options" => opening.options = toml(&value)?,
                "merge_operators" => opening.merge_operators = operators(&value)?,
                other => {
                    let why = format!(
                        "unknown argument {other}: the arguments are create, read_only, follow, \
                         profile, options and merge_operators"
                    );
                    return Err(PyTypeError::new_err(why));
                }
            }
        }
        Ok(opening)
    }

    /// Opens the store.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn open(self, path: PathBuf) -> Result<Db> {
        if self.follow {
            return Db::open_read_only(path);
        }
        let mut options = Options::from_toml(&self.options)?;
        if let Some(profile) = &self.profile {
            if options.policy != Options::default().policy {
                let why = format!(
                    "both a profile and a policy are given: leave out profile={profile:?}, and \
                     write policy.profile = {profile:?} in the options"
                );
                return Err(Error::InvalidArgument(why));
            }
            options.set_profile(profile)?;
        }
        let mut builder = Db::builder(path)
            .options(options)
            .create_if_missing(self.create)
            .read_only(self.read_only);
        for operator in self.merge_operators {
            builder = builder.merge_operator(Arc::new(operator));
        }
        builder.open()
    }
}

fn operators(named: &Bound<'_, PyAny>) -> PyResult<Vec<Operator>> {
    let named = named.extract::<HashMap<String, Bound<'_, PyAny>>>()?;
    let operator = |(name, function): (String, Bound<'_, PyAny>)| {
        if !function.is_callable() {
            let why =
                format!("the merge operator {name:?} is not callable: a function is expected");
            return Err(PyTypeError::new_err(why));
        }
        Ok(Operator { name, function: function.unbind() })
    };
    named.into_iter().map(operator).collect()
}
