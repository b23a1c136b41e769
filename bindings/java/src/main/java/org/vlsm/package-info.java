/**
 * vLSM: an embedded, ordered, durable key-value store without long write stalls.
 *
 * <p>{@link org.vlsm.Db} opens a store, and is itself the keyspace {@code default}. Keys and values
 * are bytes; keys are ordered as unsigned bytes. Every object that holds resources of the store is
 * {@link java.lang.AutoCloseable}. An object that is not closed is released some time after it
 * became unreachable. Objects may be closed in any order and by any thread. A call on a closed
 * object throws {@link org.vlsm.VlsmException.Closed}. All calls may be made from any thread.
 *
 * <p>Errors are unchecked: {@link org.vlsm.VlsmException}, with a subclass for each kind. A null
 * argument causes a {@link java.lang.NullPointerException}, unless the method says what null means.
 */
package org.vlsm;
