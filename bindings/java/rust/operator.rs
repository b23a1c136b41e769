//! Merge operators in Java.
//!
//! Threads of the store call them. Threads that Java does not know are attached as daemons, so that
//! the JVM does not wait for them at its exit, and detached when they end. An exception of an
//! operator never leaves this module: the operands then "cannot be combined", and nothing is lost.

use crate::call::{InOperator, keep};
use crate::java::java;
use engine::MergeOperator;
use jni::JNIEnv;
use jni::objects::{GlobalRef, JByteArray, JClass, JObject, JObjectArray, JStaticMethodID};
use jni::signature::{Primitive, ReturnType};
use jni::sys::{jint, jvalue};
use std::sync::atomic::{AtomicBool, Ordering};

/// The local references of a call, besides one operand at a time.
const FRAME: i32 = 16;

/// An object of Java that is a merge operator.
pub struct Operator {
    name: String,
    object: GlobalRef,
    /// Whether an exception of it was already reported.
    reported: AtomicBool,
}

impl Operator {
    pub fn new(name: String, object: GlobalRef) -> Self {
        Self { name, object, reported: AtomicBool::new(false) }
    }

    /// Calls Java from any thread. Returns none if the call threw.
    fn attached<T>(
        &self,
        work: impl FnOnce(&mut JNIEnv<'_>) -> jni::errors::Result<Option<T>>,
    ) -> Option<T> {
        let _inside = InOperator::enter();
        let mut env = java().vm.attach_current_thread_as_daemon().ok()?;
        let done = env.with_local_frame(FRAME, |env| {
            let done = work(env);
            if !env.exception_check()? {
                return done;
            }
            // No other call is allowed before the exception is cleared.
            let thrown = env.exception_occurred()?;
            env.exception_clear()?;
            let thrown = env.new_global_ref(thrown)?;
            if let Some(thrown) = keep(thrown) {
                self.report(env, &thrown)?;
            }
            Ok(None)
        });
        if done.is_err() && env.exception_check().unwrap_or(false) {
            let _ = env.exception_clear();
        }
        done.ok().flatten()
    }

    /// Logs the first exception for which no caller waits.
    fn report(&self, env: &mut JNIEnv<'_>, thrown: &GlobalRef) -> jni::errors::Result<()> {
        if self.reported.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let name = env.new_string(&self.name)?;
        let arguments = [name.as_raw(), thrown.as_obj().as_raw()].map(|l| jvalue { l });
        let (java, void) = (java(), ReturnType::Primitive(Primitive::Void));
        // SAFETY: the method's signature is that of `java::Java::find`: two objects.
        unsafe { env.call_static_method_unchecked(java.class(), java.report, void, &arguments) }?;
        Ok(())
    }

    /// Calls a method that takes the operator and objects, and returns an array of bytes.
    fn bytes_of(
        &self,
        env: &mut JNIEnv<'_>,
        method: JStaticMethodID,
        arguments: &[&JObject<'_>],
    ) -> jni::errors::Result<Option<Vec<u8>>> {
        let mut values = vec![jvalue { l: self.object.as_obj().as_raw() }];
        values.extend(arguments.iter().map(|argument| jvalue { l: argument.as_raw() }));
        let class = java().class();
        // SAFETY: the callers pass what the signature in `java::Java::find` says.
        let found =
            unsafe { env.call_static_method_unchecked(class, method, ReturnType::Array, &values) }?;
        let found = JByteArray::from(found.l()?);
        if found.is_null() { Ok(None) } else { env.convert_byte_array(found).map(Some) }
    }
}

fn array_of<'local>(
    env: &mut JNIEnv<'local>,
    operands: &[&[u8]],
) -> jni::errors::Result<JObjectArray<'local>> {
    let class: &JClass<'_> = java().bytes.as_obj().into();
    let length = jint::try_from(operands.len()).unwrap_or(jint::MAX);
    let all = env.new_object_array(length, class, JObject::null())?;
    for (i, operand) in (0..length).zip(operands) {
        let array = env.byte_array_from_slice(operand)?;
        env.set_object_array_element(&all, i, &array)?;
        env.delete_local_ref(array)?;
    }
    Ok(all)
}

impl MergeOperator for Operator {
    fn name(&self) -> &str {
        &self.name
    }

    fn check_operand(&self, key: &[u8], operand: &[u8]) -> Result<(), &'static str> {
        let accepted = self.attached(|env| {
            let (key, operand) =
                (env.byte_array_from_slice(key)?, env.byte_array_from_slice(operand)?);
            let arguments = [self.object.as_obj().as_raw(), key.as_raw(), operand.as_raw()];
            let arguments = arguments.map(|l| jvalue { l });
            let (java, truth) = (java(), ReturnType::Primitive(Primitive::Boolean));
            // SAFETY: the method's signature is that of `java::Java::find`: three objects.
            let accepted = unsafe {
                env.call_static_method_unchecked(java.class(), java.accepts, truth, &arguments)
            }?;
            accepted.z().map(Some)
        });
        match accepted {
            Some(true) => Ok(()),
            Some(false) => Err("the method `accepts` of the operator returned false"),
            None => Err("the method `accepts` of the operator threw"),
        }
    }

    fn merge(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.attached(|env| {
            let key = env.byte_array_from_slice(key)?;
            let base = match base {
                Some(base) => env.byte_array_from_slice(base)?,
                None => JByteArray::from(JObject::null()),
            };
            let operands = array_of(env, operands)?;
            self.bytes_of(env, java().merge, &[&key, &base, &operands])
        })
    }

    fn merge_partial(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.attached(|env| {
            let key = env.byte_array_from_slice(key)?;
            let operands = array_of(env, operands)?;
            self.bytes_of(env, java().merge_partial, &[&key, &operands])
        })
    }
}
