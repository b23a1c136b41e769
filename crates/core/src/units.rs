//! Units of measure as types: bytes, rates and times are never mixed up. Arithmetic is checked in
//! debug builds as for plain numbers; `Display` is meant for people.

use serde::de::{Error, Unexpected::Signed, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

/// One kibibyte in bytes.
pub const KIB: u64 = 1 << 10;
/// One mebibyte in bytes.
pub const MIB: u64 = 1 << 20;
/// One gibibyte in bytes.
pub const GIB: u64 = 1 << 30;

/// The short name within the store's own crates. It is not in the public interface, because
/// `bytes::Bytes` is.
pub use self::ByteCount as Bytes;

macro_rules! unit {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize,
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

/// In files, a number of bytes may be written as a size such as "8M".
macro_rules! sized {
    ($($name:ident),*) => {$(
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                from.deserialize_any(Size).map(|bytes| Self(bytes.0))
            }
        }
    )*};
}

sized!(ByteCount, BytesPerSec);

struct Size;

impl Visitor<'_> for Size {
    type Value = ByteCount;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of bytes, or a size such as \"8M\"")
    }

    fn visit_u64<E: Error>(self, bytes: u64) -> Result<ByteCount, E> {
        Ok(ByteCount(bytes))
    }

    fn visit_i64<E: Error>(self, bytes: i64) -> Result<ByteCount, E> {
        u64::try_from(bytes).map(ByteCount).map_err(|_| E::invalid_value(Signed(bytes), &self))
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<ByteCount, E> {
        parse_bytes(word).map_err(E::custom)
    }
}

/// Reads a size such as `8M`, `1.5G` or `300`. It also reads the form in which sizes are printed
/// for people: `8.0 MB`, where a MB is 2^20 bytes, too.
///
/// # Errors
/// The problem, in words.
pub fn parse_bytes(word: &str) -> Result<ByteCount, String> {
    let bad = || format!("{word:?} is not a size: write it as 300, 64K, 8M or 1.5G");
    let word = word.trim();
    let end = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
    let (digits, unit) = word.split_at(end);
    let unit = match &*unit.trim_start().to_ascii_uppercase() {
        "" | "B" => 1,
        "K" | "KB" | "KIB" => KIB,
        "M" | "MB" | "MIB" => MIB,
        "G" | "GB" | "GIB" => GIB,
        _ => return Err(bad()),
    };
    if let Ok(whole) = digits.parse::<u64>() {
        return whole.checked_mul(unit).map(ByteCount).ok_or_else(bad);
    }
    let value = digits.parse::<f64>().map_err(|_| bad())?;
    Ok(ByteCount((value * unit as f64).round() as u64))
}

/// A size with the largest suffix that represents it exactly.
#[must_use]
pub fn print_bytes(bytes: ByteCount) -> String {
    match bytes.0 {
        0 => "0".into(),
        n if n % GIB == 0 => format!("{}G", n / GIB),
        n if n % MIB == 0 => format!("{}M", n / MIB),
        n if n % KIB == 0 => format!("{}K", n / KIB),
        n => n.to_string(),
    }
}

unit!(
    /// A number of bytes.
    ByteCount
);
unit!(
    /// A rate in bytes per second.
    BytesPerSec
);
impl<'de> Deserialize<'de> for Micros {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        u64::deserialize(from).map(Self)
    }
}
unit!(
    /// A time span, or a point in time since the environment started, in microseconds.
    Micros
);

impl ByteCount {
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

impl fmt::Display for ByteCount {
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
        write!(f, "{}/s", ByteCount(self.0))
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
