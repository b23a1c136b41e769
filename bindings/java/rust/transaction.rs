//! Transactions.
//!
//! `transact` lends a transaction to Java: it is in the table while the function runs, and is taken
//! back afterwards, unless the function has ended it.

use crate::call::call;
use crate::convert::{key, range, time, value, write_options};
use crate::error::{Failure, Outcome};
use crate::java::java;
use crate::read::{Reader, in_transaction};
use crate::table::{Object, Store, find, remove, share, store};
use engine::Transaction;
use jni::JNIEnv;
use jni::objects::{JByteArray, JClass, JObject};
use jni::signature::{Primitive, ReturnType};
use jni::sys::{jint, jlong, jvalue};
use parking_lot::Mutex;
use std::sync::Arc;

/// A call on a keyspace in a transaction.
fn within(
    id: jlong,
    keyspace: jlong,
    work: impl FnOnce(&mut Transaction, &engine::Keyspace) -> engine::Result<()>,
) -> Outcome<()> {
    let reader = Reader::find_as("transaction", id, keyspace)?;
    let keyspace = reader.keyspace()?;
    in_transaction(reader.object(), |own| work(own, keyspace))
}

/// Takes the transaction out of its object.
fn end(id: jlong) -> Outcome<(Arc<Store>, Option<Transaction>)> {
    let object = find(id, "transaction")?;
    let Object::Transaction(store, held) = &*object else {
        return Err(Failure::argument("the handle is not one of a transaction"));
    };
    Ok((store.clone(), held.lock().take()))
}

/// Runs the Java function with a transaction.
fn lend(
    env: &mut JNIEnv<'_>,
    store: &Arc<Store>,
    own: &mut Transaction,
    work: &JObject<'_>,
) -> Outcome<()> {
    let lent = std::mem::replace(own, store.db.transaction());
    let object = Arc::new(Object::Transaction(store.clone(), Mutex::new(Some(lent))));
    let id = share(object.clone());
    let arguments = [jvalue { l: work.as_raw() }, jvalue { j: id }];
    let (java, void) = (java(), ReturnType::Primitive(Primitive::Void));
    // SAFETY: the method's signature is that of `java::Java::find`: an object and a long.
    let done =
        unsafe { env.call_static_method_unchecked(java.class(), java.run, void, &arguments) };
    remove(id);
    if let Object::Transaction(_, held) = &*object
        && let Some(lent) = held.lock().take()
    {
        *own = lent;
    }
    match done {
        Ok(_) => Ok(()),
        Err(jni::errors::Error::JavaException) => {
            let thrown = env.exception_occurred()?;
            env.exception_clear()?;
            Err(Failure::Thrown(env.new_global_ref(thrown)?))
        }
        Err(error) => Err(error.into()),
    }
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_transact<'local>(
    env: JNIEnv<'local>,
    _: JClass<'local>,
    _: JObject<'local>,
    id: jlong,
    work: JObject<'local>,
    durability: jint,
    deadline: jlong,
) {
    call(env, (), |env| {
        let store = store(id)?;
        store.write(write_options(durability, deadline), |options| {
            store.db.try_transact_with(options, |own| {
                // Each run has references of its own.
                let mut done = Ok(());
                env.with_local_frame(16, |env| {
                    done = lend(env, &store, own, &work);
                    Ok::<_, jni::errors::Error>(())
                })?;
                done
            })
        })
    });
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_transactionPut<'local>(
    env: JNIEnv<'local>,
    _: JClass<'local>,
    _: JObject<'local>,
    id: jlong,
    _: JObject<'local>,
    keyspace: jlong,
    of: JByteArray<'local>,
    to: JByteArray<'local>,
    ttl: jlong,
) {
    call(env, (), |env| {
        let (key, value) = (key(env, &of)?, value(env, &to)?);
        within(id, keyspace, |own, keyspace| match time(ttl) {
            Some(ttl) => own.put_with_ttl(keyspace, key, value, ttl),
            None => own.put(keyspace, key, value),
        })
    });
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_transactionDelete<'local>(
    env: JNIEnv<'local>,
    _: JClass<'local>,
    _: JObject<'local>,
    id: jlong,
    _: JObject<'local>,
    keyspace: jlong,
    of: JByteArray<'local>,
) {
    call(env, (), |env| {
        let key = key(env, &of)?;
        within(id, keyspace, |own, keyspace| own.delete(keyspace, key))
    });
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_transactionDeleteRange<'local>(
    env: JNIEnv<'local>,
    _: JClass<'local>,
    _: JObject<'local>,
    id: jlong,
    _: JObject<'local>,
    keyspace: jlong,
    lo: JByteArray<'local>,
    hi: JByteArray<'local>,
    ends: jint,
) {
    call(env, (), |env| {
        let range = range(env, &lo, &hi, ends)?;
        within(id, keyspace, |own, keyspace| own.delete_range(keyspace, range))
    });
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_transactionMerge<'local>(
    env: JNIEnv<'local>,
    _: JClass<'local>,
    _: JObject<'local>,
    id: jlong,
    _: JObject<'local>,
    keyspace: jlong,
    of: JByteArray<'local>,
    operand: JByteArray<'local>,
) {
    call(env, (), |env| {
        let (key, operand) = (key(env, &of)?, value(env, &operand)?);
        within(id, keyspace, |own, keyspace| own.merge(keyspace, key, operand))
    });
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_savepoint<'local>(
    env: JNIEnv<'local>,
    _: JClass<'local>,
    _: JObject<'local>,
    id: jlong,
) {
    call(env, (), |_| {
        in_transaction(&*find(id, "transaction")?, |own| {
            own.savepoint();
            Ok(())
        })
    });
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_rollbackToSavepoint<'local>(
    env: JNIEnv<'local>,
    _: JClass<'local>,
    _: JObject<'local>,
    id: jlong,
) {
    call(env, (), |_| {
        in_transaction(&*find(id, "transaction")?, Transaction::rollback_to_savepoint)
    });
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_rollback<'local>(
    env: JNIEnv<'local>,
    _: JClass<'local>,
    _: JObject<'local>,
    id: jlong,
) {
    call(env, (), |_| match end(id) {
        Ok(_) | Err(Failure::Closed(_)) => Ok(()),
        Err(failure) => Err(failure),
    });
}

#[unsafe(no_mangle)]
extern "system" fn Java_org_vlsm_Native_commit<'local>(
    env: JNIEnv<'local>,
    _: JClass<'local>,
    _: JObject<'local>,
    id: jlong,
    durability: jint,
    deadline: jlong,
) {
    call(env, (), |_| {
        let (store, transaction) = end(id)?;
        let Some(transaction) = transaction else {
            let why = "the transaction was committed or rolled back: begin another one";
            return Err(Failure::argument(why));
        };
        store.write(write_options(durability, deadline), |options| {
            Ok(transaction.commit_with(options)?)
        })
    });
}
