package org.vlsm;

import java.lang.ref.Cleaner;

/**
 * An object of the native library, by its number in a table there.
 *
 * <p>A number is never used twice, so a call with one that was released finds nothing and fails. A
 * call that is under way keeps its object until it returns. Native methods take the handle beside
 * its number: so it stays reachable, and is not released by the cleaner, while they run.
 */
abstract class Handle implements AutoCloseable {
    private static final Cleaner CLEANER = Cleaner.create();

    final long id;
    private final Cleaner.Cleanable released;

    Handle(long id) {
        this.id = id;
        this.released = CLEANER.register(this, () -> Native.release(id));
    }

    /** Releases the object; a second time does nothing. */
    @Override
    public void close() {
        released.clean();
    }
}
