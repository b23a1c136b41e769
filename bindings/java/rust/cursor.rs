//! Cursors: iterators whose pairs go to Java in chunks.
//!
//! A chunk is a sequence of pairs: the lengths of key and value, 4 bytes each with the highest byte
//! first, then both. It has few pairs at first and more each time, so that a short scan reads
//! little ahead. A cursor of a transaction hands over one pair at a time, because every pair that
//! it fetches counts as read.

use crate::call::call;
use crate::convert::{give, key, range};
use crate::error::{Failure, Outcome};
use crate::read::Reader;
use crate::table::{Object, Store, add, find};
use engine::{Bytes, Iter, Snapshot, TransactionIter};
use jni::JNIEnv;
use jni::objects::{JByteArray, JClass, JObject};
use jni::sys::{jboolean, jbyteArray, jint, jlong};
use parking_lot::Mutex;
use std::ops::Bound;
use std::sync::Arc;

const FIRST_PAIRS: usize = 8;
const MOST_PAIRS: usize = 2048;
/// A chunk of at least this many bytes gets no further pair. This is below the size from which the
/// garbage collector treats an array separately.
const CHUNK: usize = 128 * 1024;

/// The pairs over which a cursor iterates.
pub enum Pairs {
    Plain(Box<Iter>),
    /// Backwards. A seek makes a new iterator on the same snapshot.
    Back {
        pairs: Box<Iter>,
        at: Snapshot,
        keyspace: engine::Keyspace,
    },
    WithOwnWrites {
        pairs: Box<TransactionIter>,
        reverse: bool,
    },
}

/// A cursor.
pub struct Cursor {
    /// Keeps the store open.
    _store: Arc<Store>,
    pairs: Pairs,
    lo: Bound<Bytes>,
    hi: Bound<Bytes>,
    /// An error that is returned after the pairs before it.
    failed: Option<engine::Error>,
    most: usize,
}

impl Cursor {
    pub fn new(store: &Arc<Store>, pairs: Pairs, (lo, hi): (Bound<Bytes>, Bound<Bytes>)) -> Self {
        Self { _store: store.clone(), pairs, lo, hi, failed: None, most: FIRST_PAIRS }
    }

    fn step(&mut self) -> Option<engine::Result<(Bytes, Bytes)>> {
        match &mut self.pairs {
            Pairs::Plain(pairs) => pairs.next(),
            Pairs::Back { pairs, .. } => pairs.next_back(),
            Pairs::WithOwnWrites { pairs, reverse: false } => pairs.next(),
            Pairs::WithOwnWrites { pairs, reverse: true } => pairs.next_back(),
        }
    }

    /// The next chunk, or none at the end.
    fn chunk(&mut self) -> engine::Result<Option<Vec<u8>>> {
        if let Some(failed) = self.failed.take() {
            return Err(failed);
        }
        let most = if matches!(self.pairs, Pairs::WithOwnWrites { .. }) { 1 } else { self.most };
        self.most = (self.most * 4).min(MOST_PAIRS);
        let mut chunk = Vec::new();
        for _ in 0..most {
            match self.step() {
                None => break,
                Some(Ok((key, value))) => {
                    let length = |of: &Bytes| (of.len() as u32).to_be_bytes();
                    chunk.reserve(8 + key.len() + value.len());
                    chunk.extend_from_slice(&length(&key));
                    chunk.extend_from_slice(&length(&value));
                    chunk.extend_from_slice(&key);
                    chunk.extend_from_slice(&value);
                }
                Some(Err(error)) if chunk.is_empty() => return Err(error),
                Some(Err(error)) => {
                    self.failed = Some(error);
                    break;
                }
            }
            if chunk.len() >= CHUNK {
                break;
            }
        }
        Ok((!chunk.is_empty()).then_some(chunk))
    }

    fn seek(&mut self, to: Vec<u8>) -> Outcome<()> {
        match &mut self.pairs {
            Pairs::Plain(pairs) => pairs.seek(to),
            Pairs::WithOwnWrites { pairs, reverse: false } => pairs.seek(to),
            Pairs::Back { pairs, at, keyspace } => {
                let beyond = match &self.hi {
                    Bound::Included(hi) | Bound::Excluded(hi) => to[..] >= **hi,
                    Bound::Unbounded => false,
                };
                let hi = if beyond { self.hi.clone() } else { Bound::Included(to.into()) };
                **pairs = at.range(keyspace, (self.lo.clone(), hi));
            }
            Pairs::WithOwnWrites { reverse: true, .. } => {
                let why = "a reversed cursor of a transaction has no seek: make another one with \
                           a range that ends at the key";
                return Err(Failure::argument(why));
            }
        }
        (self.failed, self.most) = (None, FIRST_PAIRS);
        Ok(())
    }
}

fn with<T>(id: jlong, work: impl FnOnce(&mut Cursor) -> Outcome<T>) -> Outcome<T> {
    match &*find(id, "cursor")? {
        Object::Cursor(cursor) => work(&mut cursor.lock()),
        _ => Err(Failure::argument("the handle is not one of a cursor")),
    }
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_cursor<'local>(
    env: JNIEnv<'local>,
    _: JClass<'local>,
    _: JObject<'local>,
    id: jlong,
    _: JObject<'local>,
    keyspace: jlong,
    lo: JByteArray<'local>,
    hi: JByteArray<'local>,
    ends: jint,
    reverse: jboolean,
) -> jlong {
    call(env, 0, |env| {
        let range = range(env, &lo, &hi, ends)?;
        let cursor = Reader::find(id, keyspace)?.cursor(range, reverse != 0)?;
        Ok(add(Object::Cursor(Mutex::new(cursor))))
    })
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_next<'local>(
    env: JNIEnv<'local>,
    _: JClass<'local>,
    _: JObject<'local>,
    id: jlong,
) -> jbyteArray {
    call(env, std::ptr::null_mut(), |env| {
        let chunk = with(id, |cursor| Ok(cursor.chunk()?))?;
        give(env, chunk.as_deref())
    })
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_seek<'local>(
    env: JNIEnv<'local>,
    _: JClass<'local>,
    _: JObject<'local>,
    id: jlong,
    to: JByteArray<'local>,
) {
    call(env, (), |env| {
        let to = key(env, &to)?;
        with(id, |cursor| cursor.seek(to))
    });
}
