/**
 * State stores of Kafka Streams on vLSM.
 *
 * <p>{@link org.vlsm.kafka.VlsmStores} has the suppliers for single stores, and {@link
 * org.vlsm.kafka.VlsmDslStoreSuppliers} supplies all stores of a topology.
 *
 * <p>All stores of a task are keyspaces of one vLSM store in the task's folder. See {@code
 * TaskDb} for the layout, {@code StoreState} for offsets and position, and {@code Segments} for
 * windows and retention.
 */
package org.vlsm.kafka;
