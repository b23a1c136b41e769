//! `rocksdb_options_t`: made, copied, read from text, and applied to a store.
//!
//! The plain setters and getters are generated (`bag`). This module has those that take other
//! objects, and those that set several options at once. `apply` converts the options to vLSM's.

pub(crate) mod apply;
pub(crate) mod shapes;
pub(crate) mod text;

use crate::bag::{Bag, Value};
use crate::call::{Outcome, api, array, changed, free, give, shared};
use std::ffi::{c_char, c_int};
use std::sync::Arc;

api! {
    fn rocksdb_options_create() -> *mut Bag {
        Ok(crate::bag::new("options"))
    }

    fn rocksdb_options_create_copy(options: *mut Bag) -> *mut Bag {
        Ok(give(shared(options, "the options")?.clone()))
    }

    fn rocksdb_options_destroy(options: *mut Bag) {
        free(options)
    }

    fn rocksdb_options_set_block_based_table_factory(options: *mut Bag, table: *mut Bag) {
        let table = table.as_ref().map(|table| Arc::new(table.clone()));
        let options = changed(options, "the options")?;
        match table {
            None => options.forget("table"),
            Some(table) => options.keep("table", table),
        }
        Ok(())
    }

    fn rocksdb_options_increase_parallelism(options: *mut Bag, threads: c_int) {
        changed(options, "the options")?.set("max_background_jobs", Value::Int(threads.into()));
        Ok(())
    }

    fn rocksdb_options_optimize_for_point_lookup(options: *mut Bag, cache_mb: u64) {
        let capacity = usize::try_from(cache_mb).unwrap_or(usize::MAX).saturating_mul(1 << 20);
        let mut table = Bag::new("block_based_options");
        let cache = shapes::rocksdb_cache_create_lru(capacity);
        shapes::rocksdb_block_based_options_set_block_cache(&raw mut table, cache);
        shapes::rocksdb_cache_destroy(cache);
        table.keep("filter_policy", Arc::new(10.0_f64));
        changed(options, "the options")?.keep("table", Arc::new(table));
        Ok(())
    }

    fn rocksdb_options_optimize_level_style_compaction(options: *mut Bag, memtables: u64) {
        let quarter = Value::Int((memtables / 4) as i64);
        changed(options, "the options")?.set("write_buffer_size", quarter);
        Ok(())
    }

    fn rocksdb_options_optimize_universal_style_compaction(options: *mut Bag, memtables: u64) {
        let options = changed(options, "the options")?;
        options.set("write_buffer_size", Value::Int((memtables / 4) as i64));
        options.set("compaction_style", Value::Int(1));
        Ok(())
    }

    fn rocksdb_options_prepare_for_bulk_load(options: *mut Bag) {
        changed(options, "the options")?.set("disable_auto_compactions", Value::Int(1));
        Ok(())
    }

    fn rocksdb_options_set_compression_per_level(
        options: *mut Bag,
        levels: *const c_int,
        count: usize,
    ) {
        let levels = array(levels, count)?.to_vec();
        changed(options, "the options")?.keep("compression_per_level", Arc::new(levels));
        Ok(())
    }

    fn rocksdb_options_set_universal_compaction_options(options: *mut Bag, style: *mut Bag) {
        let style = shared(style, "the options")?.clone();
        changed(options, "the options")?.keep("universal", Arc::new(style));
        Ok(())
    }

    fn rocksdb_options_set_fifo_compaction_options(options: *mut Bag, style: *mut Bag) {
        let style = shared(style, "the options")?.clone();
        changed(options, "the options")?.keep("fifo", Arc::new(style));
        Ok(())
    }

    fn rocksdb_options_set_row_cache(options: *mut Bag, cache: *mut shapes::rocksdb_cache_t) {
        let there = !cache.is_null();
        changed(options, "the options")?.set("row_cache", Value::Int(there.into()));
        Ok(())
    }

    fn rocksdb_options_set_wal_dir(options: *mut Bag, folder: *const c_char) {
        keep_text(options, "wal_dir", folder)
    }

    fn rocksdb_options_set_db_log_dir(options: *mut Bag, folder: *const c_char) {
        keep_text(options, "db_log_dir", folder)
    }

    fn rocksdb_options_enable_statistics(options: *mut Bag) {
        let options = changed(options, "the options")?;
        options.keep("statistics", Arc::new(crate::properties::Watched::default()));
        Ok(())
    }

    fn rocksdb_writeoptions_disable_WAL(options: *mut Bag, disable: c_int) {
        changed(options, "the options")?.set("disable_WAL", Value::Int((disable != 0).into()));
        Ok(())
    }

    fn rocksdb_options_compaction_readahead_size(options: *mut Bag, bytes: usize) {
        let bytes = Value::Int(bytes as i64);
        changed(options, "the options")?.set("compaction_readahead_size", bytes);
        Ok(())
    }

    fn rocksdb_hyper_clock_cache_options_create(capacity: usize, charge: usize) -> *mut Bag {
        let mut bag = Bag::new("hyper_clock_cache_options");
        bag.set("capacity", Value::Int(capacity as i64));
        bag.set("estimated_entry_charge", Value::Int(charge as i64));
        Ok(give(bag))
    }
}

/// Stores a text, and the fact that there is one.
unsafe fn keep_text(options: *mut Bag, key: &'static str, text: *const c_char) -> Outcome {
    let text = unsafe { crate::call::path(text)? }.to_owned();
    let options = unsafe { changed(options, "the options")? };
    options.set(key, Value::Int((!text.as_os_str().is_empty()).into()));
    options.keep(key, Arc::new(text));
    Ok(())
}
