/**
 * vLSM: an embedded, ordered, durable key-value store without long write stalls.
 *
 * <p>{@link org.vlsm.Db} opens a store; it is itself the keyspace {@code default}. Keys and values
 * are bytes; keys are ordered as unsigned bytes. Every object that holds something of the store is
 * {@link java.lang.AutoCloseable}; one that is forgotten is released some time after it became
 * unreachable. They may be closed in any order and by any thread: a call on a closed one throws
 * {@link org.vlsm.VlsmException.Closed}. All calls may be made from any thread.
 *
 * <p>Errors are unchecked: {@link org.vlsm.VlsmException}, with a subclass for each kind. A null
 * argument is a {@link java.lang.NullPointerException}, unless the method says what null stands
 * for.
 */
package org.vlsm;
