//! Stores: opening, closing, copying, keyspaces and statistics.
//!
//! `closeStore` closes a store although other objects of it exist, and releases its object. A
//! refused call does neither.

use crate::call::call;
use crate::convert::{Asked, arrays, path, perhaps_text, text};
use crate::error::{Failure, Outcome};
use crate::java::java;
use crate::operator::Operator;
use crate::table::{Object, Store, add, exit, find, remove, store};
use engine::{Db, Error, KeyspaceOptions, Options};
use jni::JNIEnv;
use jni::objects::{JByteArray, JClass, JObject, JObjectArray};
use jni::sys::{jboolean, jint, jlong, jobjectArray, jstring};
use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::Arc;

/// How a store is opened.
struct Opening {
    path: PathBuf,
    create: bool,
    read_only: bool,
    profile: Option<String>,
    toml: String,
    operators: Vec<Operator>,
    default: Option<KeyspaceOptions>,
}

impl Opening {
    fn open(self) -> Outcome<Db> {
        let mut options = Options::from_toml(&self.toml)?;
        if let Some(profile) = &self.profile {
            if options.policy != Options::default().policy {
                let why = format!(
                    "both a profile and a policy are given: leave out the profile {profile:?}, \
                     and set the option policy.profile to it"
                );
                return Err(Failure::argument(why));
            }
            options.set_profile(profile)?;
        }
        let mut builder = Db::builder(self.path)
            .options(options)
            .create_if_missing(self.create)
            .read_only(self.read_only);
        for operator in self.operators {
            builder = builder.merge_operator(Arc::new(operator));
        }
        if let Some(options) = self.default {
            builder = builder.default_keyspace(options);
        }
        Ok(builder.open()?)
    }
}

fn operators(
    env: &mut JNIEnv<'_>,
    names: &JObjectArray<'_>,
    objects: &JObjectArray<'_>,
) -> Outcome<Vec<Operator>> {
    let mut operators = Vec::new();
    for (i, name) in (0..).zip(arrays(env, names)?) {
        let name = String::from_utf8(name)
            .map_err(|_| Failure::argument("the name of a merge operator is not UTF-8"))?;
        let object = env.get_object_array_element(objects, i)?;
        if object.is_null() {
            return Err(Failure::Null("a merge operator"));
        }
        operators.push(Operator::new(name, env.new_global_ref(&object)?));
        env.delete_local_ref(object)?;
    }
    Ok(operators)
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_open<'local>(
    env: JNIEnv<'local>,
    _: JClass<'local>,
    folder: JByteArray<'local>,
    create: jboolean,
    read_only: jboolean,
    profile: JByteArray<'local>,
    toml: JByteArray<'local>,
    operator_names: JObjectArray<'local>,
    operator_objects: JObjectArray<'local>,
    with_default: jboolean,
    operator: JByteArray<'local>,
    ttl: jlong,
    compression: jint,
    block_bytes: jlong,
    bits_per_key: jint,
    memtable_bytes: jlong,
    splits: JObjectArray<'local>,
) -> jlong {
    call(env, 0, |env| {
        let (operator, splits) = (&operator, &splits);
        let asked =
            Asked { operator, ttl, compression, block_bytes, bits_per_key, memtable_bytes, splits };
        let default = asked.options(env)?;
        let opening = Opening {
            path: path(env, &folder)?,
            create: create != 0,
            read_only: read_only != 0,
            profile: perhaps_text(env, &profile, "the profile")?,
            toml: text(env, &toml, "the options")?,
            operators: operators(env, &operator_names, &operator_objects)?,
            default: (with_default != 0).then_some(default),
        };
        Ok(add(Object::Db(Store::new(opening.open()?))))
    })
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_openReadOnly<'local>(
    env: JNIEnv<'local>,
    _: JClass<'local>,
    folder: JByteArray<'local>,
) -> jlong {
    call(env, 0, |env| {
        let db = Db::open_read_only(path(env, &folder)?)?;
        Ok(add(Object::Db(Store::new(db))))
    })
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_closeStore<'local>(
    env: JNIEnv<'local>,
    _: JClass<'local>,
    _: JObject<'local>,
    id: jlong,
) {
    call(env, (), |_| match store(id) {
        Err(Failure::Closed(_)) => Ok(()),
        Err(failure) => Err(failure),
        Ok(store) => {
            let closed = store.db.clone().close();
            remove(id);
            match closed {
                Ok(()) | Err(Error::Closed) => Ok(()),
                Err(error) => Err(error.into()),
            }
        }
    });
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_isClosed<'local>(
    env: JNIEnv<'local>,
    _: JClass<'local>,
    _: JObject<'local>,
    id: jlong,
) -> jboolean {
    call(env, 0, |_| Ok(jboolean::from(find(id, "store").is_err())))
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_release<'local>(
    _: JNIEnv<'local>,
    _: JClass<'local>,
    id: jlong,
) {
    // A panic here could only come from dropping a store, and the caller could not react to it.
    let _ = std::panic::catch_unwind(|| remove(id));
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_exit<'local>(env: JNIEnv<'local>, _: JClass<'local>) {
    call(env, (), |_| exit());
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_keyspace<'local>(
    env: JNIEnv<'local>,
    _: JClass<'local>,
    _: JObject<'local>,
    id: jlong,
    name: JByteArray<'local>,
) -> jlong {
    call(env, 0, |env| {
        let (name, store) = (text(env, &name, "the name")?, store(id)?);
        let keyspace = store.db.keyspace(&name)?;
        Ok(add(Object::Keyspace(store, keyspace)))
    })
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_createKeyspace<'local>(
    env: JNIEnv<'local>,
    _: JClass<'local>,
    _: JObject<'local>,
    id: jlong,
    name: JByteArray<'local>,
    operator: JByteArray<'local>,
    ttl: jlong,
    compression: jint,
    block_bytes: jlong,
    bits_per_key: jint,
    memtable_bytes: jlong,
    splits: JObjectArray<'local>,
) -> jlong {
    call(env, 0, |env| {
        let (operator, splits) = (&operator, &splits);
        let asked =
            Asked { operator, ttl, compression, block_bytes, bits_per_key, memtable_bytes, splits };
        let (name, options) = (text(env, &name, "the name")?, asked.options(env)?);
        let store = store(id)?;
        let keyspace = store.db.create_keyspace(&name, options)?;
        Ok(add(Object::Keyspace(store, keyspace)))
    })
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_dropKeyspace<'local>(
    env: JNIEnv<'local>,
    _: JClass<'local>,
    _: JObject<'local>,
    id: jlong,
    _: JObject<'local>,
    keyspace: jlong,
) {
    call(env, (), |_| {
        let keyspace = find(keyspace, "keyspace")?;
        Ok(store(id)?.db.drop_keyspace(keyspace.keyspace()?)?)
    });
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_keyspaces<'local>(
    env: JNIEnv<'local>,
    _: JClass<'local>,
    _: JObject<'local>,
    id: jlong,
) -> jobjectArray {
    call(env, std::ptr::null_mut(), |env| {
        let names = store(id)?.db.keyspaces();
        let length = jint::try_from(names.len()).expect("as many as keyspaces");
        let class: &JClass<'_> = java().string.as_obj().into();
        let array = env.new_object_array(length, class, JObject::null())?;
        for (i, name) in (0..).zip(names) {
            let name = env.new_string(name)?;
            env.set_object_array_element(&array, i, &name)?;
            env.delete_local_ref(name)?;
        }
        Ok(array.into_raw())
    })
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_snapshot<'local>(
    env: JNIEnv<'local>,
    _: JClass<'local>,
    _: JObject<'local>,
    id: jlong,
) -> jlong {
    call(env, 0, |_| {
        let store = store(id)?;
        let snapshot = store.db.snapshot();
        Ok(add(Object::Snapshot(store, snapshot)))
    })
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_transaction<'local>(
    env: JNIEnv<'local>,
    _: JClass<'local>,
    _: JObject<'local>,
    id: jlong,
) -> jlong {
    call(env, 0, |_| {
        let store = store(id)?;
        let transaction = Mutex::new(Some(store.db.transaction()));
        Ok(add(Object::Transaction(store, transaction)))
    })
}

/// A call without results on a store.
fn simple(env: JNIEnv<'_>, id: jlong, work: impl FnOnce(&Db) -> engine::Result<()>) {
    call(env, (), |_| Ok(work(&store(id)?.db)?));
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_catchUp<'local>(
    env: JNIEnv<'local>,
    _: JClass<'local>,
    _: JObject<'local>,
    id: jlong,
) {
    simple(env, id, |db| db.catch_up().map(drop));
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_sync<'local>(
    env: JNIEnv<'local>,
    _: JClass<'local>,
    _: JObject<'local>,
    id: jlong,
) {
    simple(env, id, Db::sync);
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_flush<'local>(
    env: JNIEnv<'local>,
    _: JClass<'local>,
    _: JObject<'local>,
    id: jlong,
) {
    simple(env, id, Db::flush);
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_waitIdle<'local>(
    env: JNIEnv<'local>,
    _: JClass<'local>,
    _: JObject<'local>,
    id: jlong,
) {
    simple(env, id, Db::wait_idle);
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_checkpoint<'local>(
    env: JNIEnv<'local>,
    _: JClass<'local>,
    _: JObject<'local>,
    id: jlong,
    target: JByteArray<'local>,
) {
    call(env, (), |env| {
        let target = path(env, &target)?;
        Ok(store(id)?.db.checkpoint(target).map(drop)?)
    });
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_restore<'local>(
    env: JNIEnv<'local>,
    _: JClass<'local>,
    from: JByteArray<'local>,
    target: JByteArray<'local>,
) {
    call(env, (), |env| {
        let (from, target) = (path(env, &from)?, path(env, &target)?);
        Ok(engine::restore(from, target).map(drop)?)
    });
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_stats<'local>(
    env: JNIEnv<'local>,
    _: JClass<'local>,
    _: JObject<'local>,
    id: jlong,
) -> jstring {
    call(env, std::ptr::null_mut(), |env| {
        let text = store(id)?.db.stats().prometheus();
        Ok(env.new_string(text)?.into_raw())
    })
}
