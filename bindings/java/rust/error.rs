//! Errors of the engine as exceptions: subclasses of `org.vlsm.VlsmException`.
//!
//! Java makes the exception object, so that only one place in Java names the classes. A pending
//! exception is kept.

use crate::java::java;
use engine::Error;
use jni::JNIEnv;
use jni::objects::{GlobalRef, JObject, JThrowable};
use jni::signature::ReturnType;
use jni::sys::jvalue;

/// An error on its way to Java.
pub enum Failure {
    /// An error of the engine.
    Engine(Error),
    /// An object that was closed, by its kind.
    Closed(&'static str),
    /// An argument that may not be null.
    Null(&'static str),
    /// Something that Java threw in a callback.
    Thrown(GlobalRef),
    /// A call to Java failed; if it threw, the exception is pending.
    Jni(jni::errors::Error),
    /// A panic of this library.
    Panic(String),
}

pub type Outcome<T> = Result<T, Failure>;

impl Failure {
    pub fn argument(why: impl Into<String>) -> Self {
        Self::Engine(Error::InvalidArgument(why.into()))
    }

    /// Whether a merge operator caused the error.
    pub fn is_of_operator(&self) -> bool {
        matches!(self, Self::Engine(Error::OperandRefused { .. } | Error::MergeFailed { .. }))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

impl From<jni::errors::Error> for Failure {
    fn from(error: jni::errors::Error) -> Self {
        Self::Jni(error)
    }
}

/// Throws an error, with the exception of a merge operator as its cause.
pub fn throw(env: &mut JNIEnv<'_>, failure: Failure, cause: Option<GlobalRef>) {
    if env.exception_check().unwrap_or(true) {
        return;
    }
    let thrown = match failure {
        Failure::Thrown(thrown) => env
            .new_local_ref(thrown.as_obj())
            .and_then(|thrown| env.throw(JThrowable::from(thrown))),
        Failure::Null(what) => {
            env.throw_new("java/lang/NullPointerException", format!("{what} is null"))
        }
        Failure::Engine(error) => {
            throw_kind(env, kind(&error), &error.to_string(), error.keyspace(), cause)
        }
        Failure::Closed(what) => {
            let text = format!("the {what} was closed: it cannot be used any more");
            throw_kind(env, "Closed", &text, None, None)
        }
        Failure::Jni(error) => throw_kind(env, "Internal", &error.to_string(), None, None),
        Failure::Panic(text) => throw_kind(env, "Internal", &text, None, None),
    };
    if thrown.is_err() && !env.exception_check().unwrap_or(true) {
        let _ = env.throw_new("java/lang/InternalError", "vlsm: an error could not be thrown");
    }
}

fn throw_kind(
    env: &mut JNIEnv<'_>,
    kind: &str,
    text: &str,
    keyspace: Option<&str>,
    cause: Option<GlobalRef>,
) -> jni::errors::Result<()> {
    let kind = env.new_string(kind)?;
    let text = env.new_string(text)?;
    let keyspace: JObject<'_> = match keyspace {
        Some(name) => env.new_string(name)?.into(),
        None => JObject::null(),
    };
    let cause = cause.as_ref().map_or(std::ptr::null_mut(), |cause| cause.as_obj().as_raw());
    let arguments = [kind.as_raw(), text.as_raw(), keyspace.as_raw(), cause].map(|l| jvalue { l });
    let java = java();
    // SAFETY: the method's signature is that of `java::Java::find`: four objects.
    let made = unsafe {
        env.call_static_method_unchecked(java.class(), java.error, ReturnType::Object, &arguments)
    };
    env.throw(JThrowable::from(made?.l()?))
}

fn kind(error: &Error) -> &'static str {
    match error {
        Error::Io { .. } => "Io",
        Error::Corruption { .. } => "Corruption",
        Error::NoSpace { .. } => "NoSpace",
        Error::ReadOnly { .. } => "ReadOnly",
        Error::OpenedReadOnly => "OpenedReadOnly",
        Error::CannotFollow { .. } => "CannotFollow",
        Error::Locked { .. } => "Locked",
        Error::Missing { .. } => "Missing",
        Error::NotAStore { .. } => "NotAStore",
        Error::UsedUp { .. } => "UsedUp",
        Error::AlreadyExists { .. } => "AlreadyExists",
        Error::FormatVersion { .. } => "FormatVersion",
        Error::InvalidOption { .. } => "InvalidOption",
        Error::InvalidArgument(_) | Error::KeyspaceNeeded(_) => "InvalidArgument",
        Error::NoSuchKeyspace(_) => "NoSuchKeyspace",
        Error::KeyspaceDropped(_) => "KeyspaceDropped",
        Error::NameTaken(_) | Error::OptionFixed { .. } | Error::KeyspaceExists { .. } => {
            "KeyspaceExists"
        }
        Error::UnknownMergeOperator { .. }
        | Error::OperandRefused { .. }
        | Error::MergeFailed { .. } => "MergeFailed",
        Error::Busy { .. } => "Busy",
        Error::Conflict { .. } => "Conflict",
        Error::Closed => "Closed",
        _ => "Internal",
    }
}
