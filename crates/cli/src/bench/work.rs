//! The options that `vlsm bench` and `vlsm-lab compare` share: the data, the clients, and how the
//! store writes. The file also parses the numbers and names of the command line.

use vlsm::{Compression, Durability, Options};
use vlsm_core::Bytes;
use vlsm_measure::workload::data::{MIN_KEY_SIZE, Shape};
use vlsm_measure::workload::sizes::Sizes;

/// The data, the clients, and how the store writes.
#[derive(Debug, clap::Args)]
pub struct Work {
    /// Pairs to load
    #[arg(long, value_name = "N", default_value = "4M", value_parser = count)]
    pub pairs: u64,
    /// Client threads [default: the number of cores, at most 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Bytes of a key [default: the workload's, mostly 24]
    #[arg(long, value_name = "BYTES")]
    pub key_size: Option<usize>,
    /// Bytes of a value, which are random [default: the workload's, mostly 176]
    #[arg(long, value_name = "BYTES")]
    pub value_size: Option<usize>,
    /// Share of a value's bytes that repeat earlier ones, in percent; the others are random
    #[arg(long, value_name = "PERCENT", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u8).range(0..=99))]
    pub compressible: u8,
    /// When a write is acknowledged: sync, buffered, lazy or no-wal [default: buffered]
    #[arg(long, value_name = "WHEN", value_parser = durability)]
    pub durability: Option<Durability>,
    /// Compression of SSTs: none, lz4 or zstd [default: the store's; of comparisons, none]
    #[arg(long, value_name = "NAME", value_parser = compression)]
    pub compression: Option<Compression>,
    /// Size of a memtable [default: the profile's; of other stores, RocksDB's 64M]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub memtable: Option<Bytes>,
    /// Seed of keys, values and random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

impl Work {
    /// The pairs, given those of the workload.
    ///
    /// # Errors
    /// A message, if a key or value would be too short or too long.
    pub fn shape(&self, of_workload: Shape) -> Result<Shape, String> {
        let mut shape = of_workload;
        shape.key_size = self.key_size.unwrap_or(shape.key_size);
        shape.values = self.value_size.map_or(shape.values, Sizes::Fixed);
        shape.compressible = self.compressible;
        if shape.key_size < MIN_KEY_SIZE {
            return Err(format!("--key-size: keys need {MIN_KEY_SIZE} bytes at least to differ"));
        }
        vlsm_core::key::check_lengths(shape.key_size, shape.values.max())
            .map_err(|error| error.to_string())?;
        Ok(shape)
    }

    /// Sets durability and compression, if they are given.
    pub fn apply(&self, options: &mut Options) {
        options.durability = self.durability.unwrap_or(options.durability);
        if let Some(compression) = self.compression {
            options.compression = vec![compression];
        }
    }

    /// Client threads.
    #[must_use]
    pub fn threads(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.threads.map_or_else(|| cores().min(4), usize::from)
    }
}

/// A number with an optional suffix k, M or G (thousands).
///
/// # Errors
/// A message with the reason why the text is not such a number.
pub fn count(text: &str) -> Result<u64, String> {
    match suffixed(text, 1000)? {
        0 => Err("must be at least 1".into()),
        number => Ok(number),
    }
}

/// A number of bytes with an optional suffix K, M or G (binary).
///
/// # Errors
/// A message with the reason why the text is not such a number.
pub fn size(text: &str) -> Result<Bytes, String> {
    Ok(Bytes(suffixed(text.trim_end_matches(['B', 'b']), 1024)?))
}

fn suffixed(text: &str, base: u64) -> Result<u64, String> {
    let (digits, power) = match text.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&text[..at], 1),
        Some((at, 'm' | 'M')) => (&text[..at], 2),
        Some((at, 'g' | 'G')) => (&text[..at], 3),
        _ => (text, 0),
    };
    let number: u64 = digits
        .replace([',', '_'], "")
        .parse()
        .map_err(|_| format!("{text:?} is not a whole number with an optional suffix k, M or G"))?;
    number.checked_mul(base.pow(power)).ok_or_else(|| format!("{text} is too large"))
}

/// A positive number.
///
/// # Errors
/// A message, if the text is no number above 0 and below 10⁹.
pub fn positive(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if number > 0.0 && number < 1e9 => Ok(number),
        _ => Err(format!("{text:?} is not a positive number")),
    }
}

/// A number from 0 to 100, with or without `%`.
///
/// # Errors
/// A message, if the text is no such number.
pub fn percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').parse() {
        Ok(number) if (0.0..=100.0).contains(&number) => Ok(number),
        _ => Err(format!("{text:?} is not within 0 and 100")),
    }
}

/// A durability by its name.
///
/// # Errors
/// The names.
pub fn durability(text: &str) -> Result<Durability, String> {
    Ok(match text {
        "sync" => Durability::Sync,
        "buffered" => Durability::Buffered,
        "lazy" => Durability::Lazy,
        "no-wal" | "nowal" => Durability::NoWal,
        _ => return Err("use sync, buffered, lazy or no-wal".into()),
    })
}

/// A compression by its name.
///
/// # Errors
/// The names.
pub fn compression(text: &str) -> Result<Compression, String> {
    Ok(match text {
        "none" => Compression::None,
        "lz4" => Compression::Lz4,
        "zstd" => Compression::Zstd,
        _ => return Err("use none, lz4 or zstd".into()),
    })
}
