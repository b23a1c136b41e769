//! Units of measure as types: bytes, rates and times are never mixed up. Arithmetic is checked in
//! debug builds as for plain numbers; `Display` is meant for people.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

/// One kibibyte in bytes.
pub const KIB: u64 = 1 << 10;
/// One mebibyte in bytes.
pub const MIB: u64 = 1 << 20;
/// One gibibyte in bytes.
pub const GIB: u64 = 1 << 30;

macro_rules! unit {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default,
            Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// Zero.
            pub const ZERO: Self = Self(0);

            /// The difference, or zero where `other` is larger.
            #[must_use]
            pub fn saturating_sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }

            /// The value as a float, for ratios.
            #[must_use]
            pub fn as_f64(self) -> f64 {
                self.0 as f64
            }
        }
        impl Add for $name {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }
        impl AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                self.0 += other.0;
            }
        }
        impl Sub for $name {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Self(self.0 - other.0)
            }
        }
        impl SubAssign for $name {
            fn sub_assign(&mut self, other: Self) {
                self.0 -= other.0;
            }
        }
        impl Mul<u64> for $name {
            type Output = Self;
            fn mul(self, factor: u64) -> Self {
                Self(self.0 * factor)
            }
        }
        impl Div<u64> for $name {
            type Output = Self;
            fn div(self, divisor: u64) -> Self {
                Self(self.0 / divisor)
            }
        }
        impl Sum for $name {
            fn sum<I: Iterator<Item = Self>>(items: I) -> Self {
                Self(items.map(|item| item.0).sum())
            }
        }
    };
}

unit!(
    /// A number of bytes.
    Bytes
);
unit!(
    /// A rate in bytes per second.
    BytesPerSec
);
unit!(
    /// A time span, or a point in time since the environment started, in microseconds.
    Micros
);

impl Bytes {
    /// `n` kibibytes.
    #[must_use]
    pub const fn kib(n: u64) -> Self {
        Self(n * KIB)
    }

    /// `n` mebibytes.
    #[must_use]
    pub const fn mib(n: u64) -> Self {
        Self(n * MIB)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.0 as f64;
        match self.0 {
            0..KIB => write!(f, "{} B", self.0),
            KIB..MIB => write!(f, "{:.1} KB", n / KIB as f64),
            MIB..GIB => write!(f, "{:.1} MB", n / MIB as f64),
            _ => write!(f, "{:.2} GB", n / GIB as f64),
        }
    }
}

impl fmt::Display for BytesPerSec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s", Bytes(self.0))
    }
}

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.0 as f64;
        match self.0 {
            0..1_000 => write!(f, "{} µs", self.0),
            1_000..1_000_000 => write!(f, "{:.1} ms", n / 1e3),
            _ => write!(f, "{:.2} s", n / 1e6),
        }
    }
}

impl Micros {
    /// The time in seconds.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
}
