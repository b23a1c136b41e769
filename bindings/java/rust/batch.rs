//! Batches, as `WriteBatch.java` writes them.
//!
//! A write consists of its kind (1 byte), the index of its keyspace in a list (4 bytes), and by
//! kind: the lengths of key and value (4 bytes each) and both, preceded by 8 bytes of time for a
//! put that expires; or the length of a key and the key; or the ends of a range. Numbers have their
//! highest byte first. The bytes come from memory that another Java thread may have changed, so
//! they are checked completely.

use crate::call::call;
use crate::convert::{bound, part, time, write_options};
use crate::error::{Failure, Outcome};
use crate::table::{Object, find, store};
use engine::Batch;
use jni::JNIEnv;
use jni::objects::{JByteArray, JClass, JLongArray, JObject, JObjectArray};
use jni::sys::{jint, jlong};
use std::sync::Arc;

const PUT: u8 = 0;
const PUT_WITH_TTL: u8 = 1;
const DELETE: u8 = 2;
const DELETE_RANGE: u8 = 3;
const MERGE: u8 = 4;

/// The rest of the bytes.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, length: usize) -> Outcome<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or_else(damaged)?;
        self.0 = rest;
        Ok(taken)
    }

    fn number<const N: usize>(&mut self) -> Outcome<[u8; N]> {
        self.take(N)?.try_into().map_err(|_| damaged())
    }

    fn length(&mut self) -> Outcome<usize> {
        Ok(u32::from_be_bytes(self.number()?) as usize)
    }

    /// A length, or none for -1.
    fn limit(&mut self) -> Outcome<Option<usize>> {
        Ok(Some(self.length()?).filter(|&length| length != u32::MAX as usize))
    }
}

fn damaged() -> Failure {
    Failure::argument(
        "the batch was changed by another thread while it was written: use it in one thread only",
    )
}

/// The engine's batch.
fn batch(writes: &[u8], keyspaces: &[Arc<Object>]) -> Outcome<Batch> {
    let mut rest = Bytes(writes);
    let mut batch = Batch::new();
    while !rest.0.is_empty() {
        let [kind] = rest.number()?;
        let place = rest.length()?;
        let keyspace = keyspaces.get(place).ok_or_else(damaged)?.keyspace()?;
        match kind {
            PUT | PUT_WITH_TTL | MERGE => {
                let ttl = match kind {
                    PUT_WITH_TTL => time(i64::from_be_bytes(rest.number()?)),
                    _ => None,
                };
                let (key, value) = (rest.length()?, rest.length()?);
                let (key, value) = (rest.take(key)?, rest.take(value)?);
                match (kind, ttl) {
                    (MERGE, _) => batch.merge(keyspace, key, value),
                    (_, Some(ttl)) => batch.put_with_ttl(keyspace, key, value, ttl),
                    (_, None) => batch.put(keyspace, key, value),
                }
            }
            DELETE => {
                let key = rest.length()?;
                batch.delete(keyspace, rest.take(key)?);
            }
            DELETE_RANGE => {
                let [ends] = rest.number()?;
                let (lo, hi) = (rest.limit()?, rest.limit()?);
                let lo = lo.map(|length| rest.take(length)).transpose()?;
                let hi = hi.map(|length| rest.take(length)).transpose()?;
                let lo = bound(lo.map(<[u8]>::to_vec), ends & 1 != 0);
                let hi = bound(hi.map(<[u8]>::to_vec), ends & 2 != 0);
                batch.delete_range(keyspace, (lo, hi));
            }
            _ => return Err(damaged()),
        }
    }
    Ok(batch)
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_write<'local>(
    env: JNIEnv<'local>,
    _: JClass<'local>,
    _: JObject<'local>,
    id: jlong,
    _: JObjectArray<'local>,
    ids: JLongArray<'local>,
    writes: JByteArray<'local>,
    length: jint,
    durability: jint,
    deadline: jlong,
) {
    call(env, (), |env| {
        let store = store(id)?;
        let count = usize::try_from(env.get_array_length(&ids)?).unwrap_or(0);
        let mut numbers = vec![0; count];
        env.get_long_array_region(&ids, 0, &mut numbers)?;
        let keyspaces = numbers.into_iter().map(|id| find(id, "keyspace"));
        let keyspaces = keyspaces.collect::<Outcome<Vec<_>>>()?;
        let length = usize::try_from(length).unwrap_or(0);
        let writes = part(env, &writes, "the batch", length, i32::MAX as usize)?;
        let batch = batch(&writes, &keyspaces)?;
        drop(writes);
        let options = write_options(durability, deadline);
        store.write(options, |options| Ok(store.db.write(&batch, options)?))
    });
}
