//! Each mechanism has options of its own and a line in the registry of its axis.
//!
//! Each axis lists its mechanisms once, in `registry!`. That makes the axis' `REGISTRY`, by which
//! a mechanism is found by name, and a struct with the options of each, a table of its own in a
//! file of options. Nothing else lists mechanisms or their options.

use crate::smaller::{Pick, Scale};
use crate::tree::TreeOptions;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;
use vlsm_core::Result;

/// A shape, a schedule or an admission with the facts that the registry needs.
pub trait Mechanism: Sized {
    /// A short description.
    const WHAT: &'static str;

    /// Its own options.
    type Options: MechanismOptions;

    /// Makes one for trees of these sizes.
    ///
    /// # Errors
    /// [`vlsm_core::Error::InvalidOption`] if its options do not work with these sizes.
    fn new(tree: &TreeOptions, own: &Self::Options) -> Result<Self>;
}

/// The options of one mechanism. [`Default`] gives the values that its source advises.
pub trait MechanismOptions:
    Debug + Clone + PartialEq + Default + Serialize + DeserializeOwned
{
    /// Refuses values that cannot work, whatever the sizes of the tree are.
    ///
    /// # Errors
    /// [`vlsm_core::Error::InvalidOption`] with the option and the reason.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// Makes options that depend on sizes or durations smaller, for smaller experiments.
    fn scale(&mut self, _: Scale) {}

    /// Draws options for a store of a test, which lives for milliseconds with memtables of a few
    /// kilobytes.
    fn shrink(&mut self, _: &TreeOptions, _: &mut Pick<'_>) {}
}

/// The options of a mechanism that has none.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct NoOptions {}

impl MechanismOptions for NoOptions {}

/// One mechanism of an axis, whose options are in `O`.
pub struct Entry<T: ?Sized, O> {
    /// Its name in options and reports.
    pub name: &'static str,
    /// A short description.
    pub what: &'static str,
    /// Makes one.
    pub make: fn(&TreeOptions, &O) -> Result<Box<T>>,
}

/// Lists the mechanisms of an axis: the struct of their options, and `REGISTRY`.
macro_rules! registry {
    (
        $(#[$doc:meta])* $options:ident of $axis:ident:
        $($name:ident = $mechanism:ty,)*
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Default, serde::Serialize)]
        #[non_exhaustive]
        pub struct $options {
            $(
                #[doc = concat!("Options of `", stringify!($name), "`.")]
                #[serde(skip_serializing_if = "crate::mechanism::is_empty")]
                pub $name: <$mechanism as $crate::mechanism::Mechanism>::Options,
            )*
        }

        /// All mechanisms of the axis.
        pub static REGISTRY: &[$crate::mechanism::Entry<dyn $axis, $options>] = &[
            $($crate::mechanism::Entry {
                name: stringify!($name),
                what: <$mechanism as $crate::mechanism::Mechanism>::WHAT,
                make: |tree, own| {
                    let made = <$mechanism as $crate::mechanism::Mechanism>::new(tree, &own.$name)?;
                    Ok(Box::new(made))
                },
            },)*
        ];

        impl $options {
            /// Takes the tables of these mechanisms out of a file of options.
            pub(crate) fn take(file: &mut toml::Table) -> std::result::Result<Self, String> {
                Ok(Self { $($name: $crate::mechanism::take(file, stringify!($name))?,)* })
            }

            /// Refuses constants that cannot work, of mechanisms in use or not.
            pub(crate) fn check(&self) -> vlsm_core::Result<()> {
                use $crate::mechanism::MechanismOptions;
                $(self.$name.check()?;)*
                Ok(())
            }

            /// Like [`MechanismOptions::scale`]($crate::mechanism::MechanismOptions::scale).
            pub(crate) fn scale(&mut self, by: $crate::smaller::Scale) {
                use $crate::mechanism::MechanismOptions;
                $(self.$name.scale(by);)*
            }

            /// Like [`MechanismOptions::shrink`]($crate::mechanism::MechanismOptions::shrink).
            pub(crate) fn shrink(
                &mut self,
                tree: &$crate::tree::TreeOptions,
                pick: &mut $crate::smaller::Pick<'_>,
            ) {
                use $crate::mechanism::MechanismOptions;
                $(self.$name.shrink(tree, pick);)*
            }
        }
    };
}
pub(crate) use registry;

/// Takes one table out of a file of options; the defaults where there is none.
pub(crate) fn take<T: DeserializeOwned + Default>(
    file: &mut toml::Table,
    name: &str,
) -> std::result::Result<T, String> {
    let Some(table) = file.remove(name) else { return Ok(T::default()) };
    table.try_into().map_err(|why: toml::de::Error| {
        let why = why.to_string();
        // The key follows on a line of its own.
        format!("{name}: {}", why.trim().replace('\n', " "))
    })
}

/// Whether a mechanism has no options.
pub(crate) fn is_empty<T>(_: &T) -> bool {
    size_of::<T>() == 0
}
