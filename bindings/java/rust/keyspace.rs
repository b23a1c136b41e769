//! Writes into a keyspace, and operations on a whole keyspace.
//!
//! Every write goes through its store (`table`), which makes it durable at the end of the JVM.

use crate::call::call;
use crate::convert::{Asked, Direct, give, key, perhaps, range, text, time, value, write_options};
use crate::error::Outcome;
use crate::table::{Store, find};
use engine::{MAX_KEY_LEN, MAX_VALUE_LEN, WriteOptions};
use jni::JNIEnv;
use jni::objects::{JByteArray, JByteBuffer, JClass, JObject, JObjectArray};
use jni::sys::{jboolean, jbyteArray, jint, jlong, jlongArray, jstring};
use std::time::Duration;

/// A call on a keyspace.
fn on<T>(id: jlong, work: impl FnOnce(&engine::Keyspace) -> Outcome<T>) -> Outcome<T> {
    work(find(id, "keyspace")?.keyspace()?)
}

/// A write into a keyspace.
fn write<T>(
    id: jlong,
    options: WriteOptions,
    work: impl FnOnce(&engine::Keyspace, WriteOptions) -> engine::Result<T>,
) -> Outcome<T> {
    let object = find(id, "keyspace")?;
    let store: &Store = object.store()?;
    store.write(options, |options| Ok(work(object.keyspace()?, options)?))
}

fn put(
    id: jlong,
    key: &[u8],
    value: &[u8],
    ttl: Option<Duration>,
    options: WriteOptions,
) -> Outcome<()> {
    write(id, options, |keyspace, options| match ttl {
        Some(ttl) => keyspace.put_with_ttl_with(key, value, ttl, options),
        None => keyspace.put_with(key, value, options),
    })
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_name<'local>(
    env: JNIEnv<'local>,
    _: JClass<'local>,
    _: JObject<'local>,
    id: jlong,
) -> jstring {
    call(env, std::ptr::null_mut(), |env| {
        let name = on(id, |keyspace| Ok(keyspace.name()))?;
        Ok(env.new_string(name)?.into_raw())
    })
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_put<'local>(
    env: JNIEnv<'local>,
    _: JClass<'local>,
    _: JObject<'local>,
    id: jlong,
    of: JByteArray<'local>,
    to: JByteArray<'local>,
    ttl: jlong,
    durability: jint,
    deadline: jlong,
) {
    call(env, (), |env| {
        let (key, value) = (key(env, &of)?, value(env, &to)?);
        put(id, &key, &value, time(ttl), write_options(durability, deadline))
    });
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_putDirect<'local>(
    env: JNIEnv<'local>,
    _: JClass<'local>,
    _: JObject<'local>,
    id: jlong,
    of: JByteBuffer<'local>,
    of_at: jint,
    of_length: jint,
    to: JByteBuffer<'local>,
    to_at: jint,
    to_length: jint,
    ttl: jlong,
    durability: jint,
    deadline: jlong,
) {
    call(env, (), |env| {
        let of = Direct { buffer: &of, at: of_at, length: of_length };
        let to = Direct { buffer: &to, at: to_at, length: to_length };
        let key = of.copy(env, "the key", MAX_KEY_LEN)?;
        let value = to.copy(env, "the value", MAX_VALUE_LEN)?;
        put(id, &key, &value, time(ttl), write_options(durability, deadline))
    });
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_delete<'local>(
    env: JNIEnv<'local>,
    _: JClass<'local>,
    _: JObject<'local>,
    id: jlong,
    of: JByteArray<'local>,
    durability: jint,
    deadline: jlong,
) {
    call(env, (), |env| {
        let key = key(env, &of)?;
        let options = write_options(durability, deadline);
        write(id, options, |keyspace, options| keyspace.delete_with(&key, options))
    });
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_deleteRange<'local>(
    env: JNIEnv<'local>,
    _: JClass<'local>,
    _: JObject<'local>,
    id: jlong,
    lo: JByteArray<'local>,
    hi: JByteArray<'local>,
    ends: jint,
    durability: jint,
    deadline: jlong,
) {
    call(env, (), |env| {
        let range = range(env, &lo, &hi, ends)?;
        let options = write_options(durability, deadline);
        write(id, options, |keyspace, options| keyspace.delete_range_with(range, options))
    });
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_merge<'local>(
    env: JNIEnv<'local>,
    _: JClass<'local>,
    _: JObject<'local>,
    id: jlong,
    of: JByteArray<'local>,
    operand: JByteArray<'local>,
    durability: jint,
    deadline: jlong,
) {
    call(env, (), |env| {
        let (key, operand) = (key(env, &of)?, value(env, &operand)?);
        let options = write_options(durability, deadline);
        write(id, options, |keyspace, options| keyspace.merge_with(&key, &operand, options))
    });
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_compareAndSwap<'local>(
    env: JNIEnv<'local>,
    _: JClass<'local>,
    _: JObject<'local>,
    id: jlong,
    of: JByteArray<'local>,
    expected: JByteArray<'local>,
    new: JByteArray<'local>,
) -> jboolean {
    call(env, 0, |env| {
        let key = key(env, &of)?;
        let (expected, new) = (perhaps(env, &expected)?, perhaps(env, &new)?);
        let (expected, new) = (expected.as_deref(), new.as_deref());
        let swapped = write(id, WriteOptions::default(), |keyspace, _| {
            keyspace.compare_and_swap(&key, expected, new)
        })?;
        Ok(jboolean::from(swapped.is_ok()))
    })
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_putIfAbsent<'local>(
    env: JNIEnv<'local>,
    _: JClass<'local>,
    _: JObject<'local>,
    id: jlong,
    of: JByteArray<'local>,
    to: JByteArray<'local>,
) -> jbyteArray {
    call(env, std::ptr::null_mut(), |env| {
        let (key, value) = (key(env, &of)?, value(env, &to)?);
        let there = write(id, WriteOptions::default(), |keyspace, _| {
            keyspace.insert_if_absent(&key, &value)
        })?;
        give(env, there.as_deref())
    })
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_count<'local>(
    env: JNIEnv<'local>,
    _: JClass<'local>,
    _: JObject<'local>,
    id: jlong,
) -> jlong {
    call(env, 0, |_| on(id, |keyspace| Ok(keyspace.len()? as jlong)))
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_clear<'local>(
    env: JNIEnv<'local>,
    _: JClass<'local>,
    _: JObject<'local>,
    id: jlong,
) {
    call(env, (), |_| on(id, |keyspace| Ok(keyspace.clear()?)));
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_rename<'local>(
    env: JNIEnv<'local>,
    _: JClass<'local>,
    _: JObject<'local>,
    id: jlong,
    name: JByteArray<'local>,
) {
    call(env, (), |env| {
        let name = text(env, &name, "the name")?;
        on(id, |keyspace| Ok(keyspace.rename(&name)?))
    });
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_setOptions<'local>(
    env: JNIEnv<'local>,
    _: JClass<'local>,
    _: JObject<'local>,
    id: jlong,
    operator: JByteArray<'local>,
    ttl: jlong,
    compression: jint,
    block_bytes: jlong,
    bits_per_key: jint,
    memtable_bytes: jlong,
    splits: JObjectArray<'local>,
) {
    call(env, (), |env| {
        let (operator, splits) = (&operator, &splits);
        let asked =
            Asked { operator, ttl, compression, block_bytes, bits_per_key, memtable_bytes, splits };
        let options = asked.options(env)?;
        on(id, |keyspace| Ok(keyspace.set_options(options)?))
    });
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_compactRange<'local>(
    env: JNIEnv<'local>,
    _: JClass<'local>,
    _: JObject<'local>,
    id: jlong,
    lo: JByteArray<'local>,
    hi: JByteArray<'local>,
    ends: jint,
) {
    call(env, (), |env| {
        let range = range(env, &lo, &hi, ends)?;
        on(id, |keyspace| Ok(keyspace.compact_range(range)?))
    });
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_approximateSize<'local>(
    env: JNIEnv<'local>,
    _: JClass<'local>,
    _: JObject<'local>,
    id: jlong,
    lo: JByteArray<'local>,
    hi: JByteArray<'local>,
    ends: jint,
) -> jlongArray {
    call(env, std::ptr::null_mut(), |env| {
        let range = range(env, &lo, &hi, ends)?;
        let size = on(id, |keyspace| Ok(keyspace.approximate_size(range)?))?;
        let array = env.new_long_array(2)?;
        env.set_long_array_region(&array, 0, &[size.bytes.0 as jlong, size.entries as jlong])?;
        Ok(array.into_raw())
    })
}
