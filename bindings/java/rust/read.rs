//! Reads of a keyspace, or of a keyspace in a snapshot or a transaction.
//!
//! Java has one function for each kind of read: the object on which it is called determines what is
//! read.

use crate::call::call;
use crate::convert::{Direct, arrays, give, give_all, key};
use crate::cursor::{Cursor, Pairs};
use crate::error::{Failure, Outcome};
use crate::table::{Object, Store, find};
use engine::{Bytes, MAX_KEY_LEN};
use jni::JNIEnv;
use jni::objects::{JByteArray, JByteBuffer, JClass, JObject, JObjectArray};
use jni::sys::{jboolean, jbyteArray, jint, jlong, jobjectArray};
use std::ops::Bound;
use std::sync::Arc;

/// The place that is read.
pub struct Reader {
    object: Arc<Object>,
    /// The object of the keyspace, if there is one; else the read object is a keyspace itself, or
    /// the keyspace is `default`.
    keyspace: Option<Arc<Object>>,
}

/// The transaction that an object is, unless it has ended.
pub fn in_transaction<T>(
    object: &Object,
    work: impl FnOnce(&mut engine::Transaction) -> engine::Result<T>,
) -> Outcome<T> {
    let Object::Transaction(_, held) = object else {
        return Err(Failure::argument("the handle is not one of a transaction"));
    };
    match held.lock().as_mut() {
        Some(transaction) => Ok(work(transaction)?),
        None => {
            let why = "the transaction was committed or rolled back: begin another one";
            Err(Failure::argument(why))
        }
    }
}

impl Reader {
    /// The place that Java names by numbers; 0 stands for no keyspace.
    pub fn find(id: jlong, keyspace: jlong) -> Outcome<Self> {
        Self::find_as("object", id, keyspace)
    }

    /// Like [`Self::find`], with the kind of the object for the error.
    pub fn find_as(kind: &'static str, id: jlong, keyspace: jlong) -> Outcome<Self> {
        let object = find(id, kind)?;
        let keyspace = match keyspace {
            0 => None,
            keyspace => Some(find(keyspace, "keyspace")?),
        };
        Ok(Self { object, keyspace })
    }

    fn store(&self) -> Outcome<&Arc<Store>> {
        self.object.store()
    }

    pub fn object(&self) -> &Object {
        &self.object
    }

    pub fn keyspace(&self) -> Outcome<&engine::Keyspace> {
        match (&self.keyspace, &*self.object) {
            (Some(keyspace), _) => keyspace.keyspace(),
            (None, object @ (Object::Db(_) | Object::Keyspace(..))) => object.keyspace(),
            (None, object) => Ok(&object.store()?.default),
        }
    }

    fn get(&self, key: &[u8]) -> Outcome<Option<Bytes>> {
        let keyspace = self.keyspace()?;
        match &*self.object {
            Object::Snapshot(_, snapshot) => Ok(snapshot.get(keyspace, key)?),
            object @ Object::Transaction(..) => {
                in_transaction(object, |own| own.get(keyspace, key))
            }
            _ => Ok(keyspace.get(key)?),
        }
    }

    fn contains(&self, key: &[u8]) -> Outcome<bool> {
        let keyspace = self.keyspace()?;
        match &*self.object {
            Object::Snapshot(_, snapshot) => Ok(snapshot.contains_key(keyspace, key)?),
            object @ Object::Transaction(..) => {
                in_transaction(object, |own| own.contains_key(keyspace, key))
            }
            _ => Ok(keyspace.contains_key(key)?),
        }
    }

    fn multi_get(&self, keys: &[Vec<u8>]) -> Outcome<Vec<Option<Bytes>>> {
        let keyspace = self.keyspace()?;
        let found = match &*self.object {
            Object::Snapshot(_, snapshot) => snapshot.multi_get(keyspace, keys),
            object @ Object::Transaction(..) => {
                in_transaction(object, |own| Ok(own.multi_get(keyspace, keys)))?
            }
            _ => keyspace.multi_get(keys),
        };
        Ok(found.into_iter().collect::<engine::Result<Vec<_>>>()?)
    }

    /// A cursor over a range.
    pub fn cursor(&self, range: (Bound<Bytes>, Bound<Bytes>), reverse: bool) -> Outcome<Cursor> {
        let (store, keyspace) = (self.store()?, self.keyspace()?);
        let bounds = range.clone();
        let pairs = match &*self.object {
            object @ Object::Transaction(..) => {
                let pairs = in_transaction(object, |own| Ok(own.range(keyspace, bounds)))?;
                Pairs::WithOwnWrites { pairs: Box::new(pairs), reverse }
            }
            object if reverse => {
                let at = match object {
                    Object::Snapshot(_, snapshot) => snapshot.clone(),
                    _ => store.db.snapshot(),
                };
                let pairs = Box::new(at.range(keyspace, bounds));
                Pairs::Back { pairs, at, keyspace: keyspace.clone() }
            }
            Object::Snapshot(_, snapshot) => {
                Pairs::Plain(Box::new(snapshot.range(keyspace, bounds)))
            }
            _ => Pairs::Plain(Box::new(keyspace.range(bounds))),
        };
        Ok(Cursor::new(store, pairs, range))
    }
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_get<'local>(
    env: JNIEnv<'local>,
    _: JClass<'local>,
    _: JObject<'local>,
    id: jlong,
    _: JObject<'local>,
    keyspace: jlong,
    of: JByteArray<'local>,
) -> jbyteArray {
    call(env, std::ptr::null_mut(), |env| {
        let key = key(env, &of)?;
        let found = Reader::find(id, keyspace)?.get(&key)?;
        give(env, found.as_deref())
    })
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_getDirect<'local>(
    env: JNIEnv<'local>,
    _: JClass<'local>,
    _: JObject<'local>,
    id: jlong,
    _: JObject<'local>,
    keyspace: jlong,
    of: JByteBuffer<'local>,
    of_at: jint,
    of_length: jint,
    into: JByteBuffer<'local>,
    at: jint,
    length: jint,
) -> jint {
    call(env, -1, |env| {
        let of = Direct { buffer: &of, at: of_at, length: of_length };
        let key = of.copy(env, "the key", MAX_KEY_LEN)?;
        let Some(value) = Reader::find(id, keyspace)?.get(&key)? else { return Ok(-1) };
        Direct { buffer: &into, at, length }.fill(env, &value)?;
        Ok(jint::try_from(value.len()).expect("at most MAX_VALUE_LEN"))
    })
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_contains<'local>(
    env: JNIEnv<'local>,
    _: JClass<'local>,
    _: JObject<'local>,
    id: jlong,
    _: JObject<'local>,
    keyspace: jlong,
    of: JByteArray<'local>,
) -> jboolean {
    call(env, 0, |env| {
        let key = key(env, &of)?;
        Ok(jboolean::from(Reader::find(id, keyspace)?.contains(&key)?))
    })
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_multiGet<'local>(
    env: JNIEnv<'local>,
    _: JClass<'local>,
    _: JObject<'local>,
    id: jlong,
    _: JObject<'local>,
    keyspace: jlong,
    of: JObjectArray<'local>,
) -> jobjectArray {
    call(env, std::ptr::null_mut(), |env| {
        let keys = arrays(env, &of)?;
        let found = Reader::find(id, keyspace)?.multi_get(&keys)?;
        give_all(env, &found)
    })
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_getForUpdate<'local>(
    env: JNIEnv<'local>,
    _: JClass<'local>,
    _: JObject<'local>,
    id: jlong,
    _: JObject<'local>,
    keyspace: jlong,
    of: JByteArray<'local>,
) -> jbyteArray {
    call(env, std::ptr::null_mut(), |env| {
        let key = key(env, &of)?;
        let reader = Reader::find_as("transaction", id, keyspace)?;
        let keyspace = reader.keyspace()?;
        let found = in_transaction(reader.object(), |own| own.get_for_update(keyspace, &key))?;
        give(env, found.as_deref())
    })
}
