//! The native side of the Java package `org.vlsm`.
//!
//! `Native.java` declares every function of this library, with the meaning of its numbers. Java
//! holds numbers, never pointers: the objects are in a table (`table`), so a call on one that was
//! closed, by whichever thread, is an error. Every call goes through `call`, which catches panics
//! and makes exceptions of errors. Bytes are copied between the Java heap and this library: no call
//! waits while it blocks the garbage collector.

mod batch;
mod call;
mod convert;
mod cursor;
mod db;
mod error;
mod java;
mod keyspace;
mod operator;
mod read;
mod table;
mod transaction;
