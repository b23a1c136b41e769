package org.vlsm;

import java.lang.ref.Cleaner;

/**
 * An object of the native library, identified by its number in a table there.
 *
 * <p>A number is never used twice, so a call with the number of a released object fails. A call in
 * progress keeps its object until it returns. Native methods take the handle as well as its number,
 * so that it stays reachable while they run and the cleaner does not release it.
 */
abstract class Handle implements AutoCloseable {
    private static final Cleaner CLEANER = Cleaner.create();

    final long id;
    private final Cleaner.Cleanable released;

    Handle(long id) {
        this.id = id;
        this.released = CLEANER.register(this, () -> Native.release(id));
    }

    /** Releases the object. A second call does nothing. */
    @Override
    public void close() {
        released.clean();
    }
}
