//! The Java methods that this library calls: static methods of `Native`, looked up when the library
//! is loaded.
//!
//! Threads of the store could not find them later, because they only have the system's class
//! loader.

use jni::objects::{GlobalRef, JClass, JStaticMethodID};
use jni::sys::{JNI_VERSION_1_8, jint};
use jni::{JNIEnv, JavaVM};
use std::ffi::c_void;
use std::sync::OnceLock;

/// The virtual machine, and the methods.
pub struct Java {
    pub vm: JavaVM,
    class: GlobalRef,
    pub bytes: GlobalRef,
    pub string: GlobalRef,
    pub error: JStaticMethodID,
    pub merge: JStaticMethodID,
    pub merge_partial: JStaticMethodID,
    pub accepts: JStaticMethodID,
    pub report: JStaticMethodID,
    pub run: JStaticMethodID,
}

static JAVA: OnceLock<Java> = OnceLock::new();

impl Java {
    pub fn class(&self) -> &JClass<'static> {
        self.class.as_obj().into()
    }

    fn find(env: &mut JNIEnv<'_>) -> jni::errors::Result<Self> {
        let class = env.find_class("org/vlsm/Native")?;
        let mut method =
            |name: &str, signature: &str| env.get_static_method_id(&class, name, signature);
        let error = method(
            "error",
            "(Ljava/lang/String;Ljava/lang/String;Ljava/lang/String;Ljava/lang/Throwable;)\
             Lorg/vlsm/VlsmException;",
        )?;
        let merge = method("merge", "(Lorg/vlsm/MergeOperator;[B[B[[B)[B")?;
        let merge_partial = method("mergePartial", "(Lorg/vlsm/MergeOperator;[B[[B)[B")?;
        let accepts = method("accepts", "(Lorg/vlsm/MergeOperator;[B[B)Z")?;
        let report = method("report", "(Ljava/lang/String;Ljava/lang/Throwable;)V")?;
        let run = method("run", "(Lorg/vlsm/Native$TransactionWork;J)V")?;
        let bytes = env.find_class("[B")?;
        let string = env.find_class("java/lang/String")?;
        Ok(Self {
            vm: env.get_java_vm()?,
            class: env.new_global_ref(class)?,
            bytes: env.new_global_ref(bytes)?,
            string: env.new_global_ref(string)?,
            error,
            merge,
            merge_partial,
            accepts,
            report,
            run,
        })
    }
}

/// Java, which has loaded this library.
pub fn java() -> &'static Java {
    JAVA.get().expect("set when the library is loaded, before any call")
}

/// Called by `System.load`. If a method is missing, the exception stays pending, and `load` throws
/// it.
#[unsafe(no_mangle)]
extern "system" fn JNI_OnLoad(vm: JavaVM, _: *mut c_void) -> jint {
    let found = vm.get_env().and_then(|mut env| Java::find(&mut env));
    match found {
        Ok(found) => {
            let _ = JAVA.set(found);
            JNI_VERSION_1_8
        }
        Err(_) => -1,
    }
}
