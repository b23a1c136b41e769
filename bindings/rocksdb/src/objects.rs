//! Objects to which options may refer, but which vLSM does not need: environments, rate limiters,
//! paths, managers of memory and files, loggers.
//!
//! They can be made and freed, so that programs that use them work, but they have no effect. Only
//! an environment in memory is refused, when a store is opened with it.

use crate::bag::{Bag, Value};
use crate::call::{api, changed, free, give, path, shared};
use std::ffi::{c_char, c_int, c_void};

/// Functions that free objects.
macro_rules! objects {
    ($($destroy:ident)*) => {
        api! { $(fn $destroy(object: *mut Bag) { free(object) })* }
    };
}

objects! {
    rocksdb_env_destroy rocksdb_ratelimiter_destroy rocksdb_dbpath_destroy
    rocksdb_write_buffer_manager_destroy rocksdb_sst_file_manager_destroy
    rocksdb_logger_destroy rocksdb_memory_allocator_destroy
    rocksdb_file_checksum_gen_factory_destroy rocksdb_sst_partitioner_factory_destroy
    rocksdb_optimistictransactiondb_lock_buckets_destroy
}

api! {
    fn rocksdb_create_default_env() -> *mut Bag {
        Ok(crate::bag::new("env"))
    }

    fn rocksdb_create_mem_env() -> *mut Bag {
        let mut env = Bag::new("env");
        env.set("memory", Value::Int(1));
        Ok(give(env))
    }

    fn rocksdb_options_set_env(options: *mut Bag, env: *mut Bag) {
        let memory = env.as_ref().is_some_and(|env| env.flag("memory"));
        changed(options, "the options")?.set("env", Value::Int(memory.into()));
        Ok(())
    }

    fallible fn rocksdb_create_dir_if_missing(env: *mut Bag, folder: *const c_char) {
        shared(env, "the environment")?;
        Ok(std::fs::create_dir_all(path(folder)?)?)
    }

    fn rocksdb_ratelimiter_create(rate: i64, refill: i64, fairness: i32) -> *mut Bag {
        let _ = (rate, refill, fairness);
        Ok(crate::bag::new("ratelimiter"))
    }

    fn rocksdb_ratelimiter_create_auto_tuned(rate: i64, refill: i64, fairness: i32) -> *mut Bag {
        let _ = (rate, refill, fairness);
        Ok(crate::bag::new("ratelimiter"))
    }

    fn rocksdb_ratelimiter_create_with_mode(
        rate: i64, refill: i64, fairness: i32, mode: c_int, tuned: bool,
    ) -> *mut Bag {
        let _ = (rate, refill, fairness, mode, tuned);
        Ok(crate::bag::new("ratelimiter"))
    }

    fn rocksdb_dbpath_create(folder: *const c_char, target: u64) -> *mut Bag {
        let _ = (path(folder)?, target);
        Ok(crate::bag::new("dbpath"))
    }

    fn rocksdb_write_buffer_manager_create(size: usize, stall: bool) -> *mut Bag {
        let _ = stall;
        let mut manager = Bag::new("write_buffer_manager");
        manager.set("buffer_size", Value::Int(size as i64));
        Ok(give(manager))
    }

    fn rocksdb_write_buffer_manager_create_with_cache(
        size: usize, cache: *const c_void, stall: bool,
    ) -> *mut Bag {
        let _ = cache;
        Ok(rocksdb_write_buffer_manager_create(size, stall))
    }

    fn rocksdb_write_buffer_manager_enabled(manager: *mut Bag) -> bool {
        Ok(shared(manager, "the manager")?.get::<u64>("buffer_size") > 0)
    }

    fn rocksdb_write_buffer_manager_buffer_size(manager: *mut Bag) -> usize {
        Ok(shared(manager, "the manager")?.get("buffer_size"))
    }

    fn rocksdb_sst_file_manager_create(env: *mut Bag) -> *mut Bag {
        let _ = env;
        Ok(crate::bag::new("sst_file_manager"))
    }

    fn rocksdb_logger_create_stderr_logger(level: c_int, prefix: *const c_char) -> *mut Bag {
        let _ = (level, prefix);
        Ok(crate::bag::new("logger"))
    }

    fn rocksdb_logger_create_callback_logger(
        level: c_int, callback: *mut c_void, state: *mut c_void,
    ) -> *mut Bag {
        let _ = (level, callback, state);
        Ok(crate::bag::new("logger"))
    }

    fn rocksdb_file_checksum_gen_crc32c_factory_create() -> *mut Bag {
        Ok(crate::bag::new("file_checksum_gen_factory"))
    }

    fn rocksdb_sst_partitioner_fixed_prefix_factory_create(len: usize) -> *mut Bag {
        let _ = len;
        Ok(crate::bag::new("sst_partitioner_factory"))
    }

    fn rocksdb_optimistictransactiondb_lock_buckets_create(
        buckets: usize, aligned: u8,
    ) -> *mut Bag {
        let _ = (buckets, aligned);
        Ok(crate::bag::new("lock_buckets"))
    }
}
