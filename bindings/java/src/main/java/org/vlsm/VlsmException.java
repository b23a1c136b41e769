package org.vlsm;

/**
 * An error of the store. Each kind is a subclass. The message names the problem, the file or
 * option, and the remedy. It contains no key and no value.
 */
public class VlsmException extends RuntimeException {
    private static final long serialVersionUID = 1;

    private final String keyspace;

    private VlsmException(String message, String keyspace) {
        super(message);
        this.keyspace = keyspace;
    }

    /**
     * The name of the keyspace that the error concerns, or null.
     *
     * @return the name, or null
     */
    public String keyspace() {
        return keyspace;
    }

    /** The operating system refused an operation. */
    public static final class Io extends VlsmException {
        private static final long serialVersionUID = 1;

        private Io(String message, String keyspace) {
            super(message, keyspace);
        }
    }

    /** A file is damaged. */
    public static final class Corruption extends VlsmException {
        private static final long serialVersionUID = 1;

        private Corruption(String message, String keyspace) {
            super(message, keyspace);
        }
    }

    /** The device is full. The store accepts writes again when there is space. */
    public static final class NoSpace extends VlsmException {
        private static final long serialVersionUID = 1;

        private NoSpace(String message, String keyspace) {
            super(message, keyspace);
        }
    }

    /** An earlier failure made the store read-only until it is opened again. */
    public static final class ReadOnly extends VlsmException {
        private static final long serialVersionUID = 1;

        private ReadOnly(String message, String keyspace) {
            super(message, keyspace);
        }
    }

    /** The store was opened read-only. */
    public static final class OpenedReadOnly extends VlsmException {
        private static final long serialVersionUID = 1;

        private OpenedReadOnly(String message, String keyspace) {
            super(message, keyspace);
        }
    }

    /** A reader beside the writing process cannot see a later state. */
    public static final class CannotFollow extends VlsmException {
        private static final long serialVersionUID = 1;

        private CannotFollow(String message, String keyspace) {
            super(message, keyspace);
        }
    }

    /** The store is already open, in this or another process. */
    public static final class Locked extends VlsmException {
        private static final long serialVersionUID = 1;

        private Locked(String message, String keyspace) {
            super(message, keyspace);
        }
    }

    /** There is no store at the path. */
    public static final class Missing extends VlsmException {
        private static final long serialVersionUID = 1;

        private Missing(String message, String keyspace) {
            super(message, keyspace);
        }
    }

    /** The folder holds something that is not a store. */
    public static final class NotAStore extends VlsmException {
        private static final long serialVersionUID = 1;

        private NotAStore(String message, String keyspace) {
            super(message, keyspace);
        }
    }

    /** A number of the store has reached its maximum. The store can still be read. */
    public static final class UsedUp extends VlsmException {
        private static final long serialVersionUID = 1;

        private UsedUp(String message, String keyspace) {
            super(message, keyspace);
        }
    }

    /** There is already something at the path. */
    public static final class AlreadyExists extends VlsmException {
        private static final long serialVersionUID = 1;

        private AlreadyExists(String message, String keyspace) {
            super(message, keyspace);
        }
    }

    /** A file was written by a newer version of the library. */
    public static final class FormatVersion extends VlsmException {
        private static final long serialVersionUID = 1;

        private FormatVersion(String message, String keyspace) {
            super(message, keyspace);
        }
    }

    /** An option has an invalid value. */
    public static final class InvalidOption extends VlsmException {
        private static final long serialVersionUID = 1;

        private InvalidOption(String message, String keyspace) {
            super(message, keyspace);
        }
    }

    /** An argument is invalid, or a handle belongs to another store. */
    public static final class InvalidArgument extends VlsmException {
        private static final long serialVersionUID = 1;

        private InvalidArgument(String message, String keyspace) {
            super(message, keyspace);
        }
    }

    /** There is no keyspace with this name. */
    public static final class NoSuchKeyspace extends VlsmException {
        private static final long serialVersionUID = 1;

        private NoSuchKeyspace(String message, String keyspace) {
            super(message, keyspace);
        }
    }

    /** The keyspace of the handle was dropped. */
    public static final class KeyspaceDropped extends VlsmException {
        private static final long serialVersionUID = 1;

        private KeyspaceDropped(String message, String keyspace) {
            super(message, keyspace);
        }
    }

    /** The keyspace exists with other options, or its name is taken. */
    public static final class KeyspaceExists extends VlsmException {
        private static final long serialVersionUID = 1;

        private KeyspaceExists(String message, String keyspace) {
            super(message, keyspace);
        }
    }

    /**
     * A merge operator is unknown, refuses an operand, or cannot combine the operands of a key. The
     * cause is the exception of the operator, if it threw one.
     */
    public static final class MergeFailed extends VlsmException {
        private static final long serialVersionUID = 1;

        private MergeFailed(String message, String keyspace) {
            super(message, keyspace);
        }
    }

    /** The deadline of the write passed; nothing was written. */
    public static final class Busy extends VlsmException {
        private static final long serialVersionUID = 1;

        private Busy(String message, String keyspace) {
            super(message, keyspace);
        }
    }

    /** A transaction conflicts with another write. Nothing was written; run it again. */
    public static final class Conflict extends VlsmException {
        private static final long serialVersionUID = 1;

        private Conflict(String message, String keyspace) {
            super(message, keyspace);
        }
    }

    /** The store was closed, or the object that was called. */
    public static final class Closed extends VlsmException {
        private static final long serialVersionUID = 1;

        private Closed(String message, String keyspace) {
            super(message, keyspace);
        }
    }

    /** An internal error: a bug of the library. */
    public static final class Internal extends VlsmException {
        private static final long serialVersionUID = 1;

        private Internal(String message, String keyspace) {
            super(message, keyspace);
        }
    }

    /** The error of a kind. An unknown kind is a bug of the library. */
    static VlsmException of(String kind, String message, String keyspace) {
        return switch (kind) {
            case "Io" -> new Io(message, keyspace);
            case "Corruption" -> new Corruption(message, keyspace);
            case "NoSpace" -> new NoSpace(message, keyspace);
            case "ReadOnly" -> new ReadOnly(message, keyspace);
            case "OpenedReadOnly" -> new OpenedReadOnly(message, keyspace);
            case "CannotFollow" -> new CannotFollow(message, keyspace);
            case "Locked" -> new Locked(message, keyspace);
            case "Missing" -> new Missing(message, keyspace);
            case "NotAStore" -> new NotAStore(message, keyspace);
            case "UsedUp" -> new UsedUp(message, keyspace);
            case "AlreadyExists" -> new AlreadyExists(message, keyspace);
            case "FormatVersion" -> new FormatVersion(message, keyspace);
            case "InvalidOption" -> new InvalidOption(message, keyspace);
            case "InvalidArgument" -> new InvalidArgument(message, keyspace);
            case "NoSuchKeyspace" -> new NoSuchKeyspace(message, keyspace);
            case "KeyspaceDropped" -> new KeyspaceDropped(message, keyspace);
            case "KeyspaceExists" -> new KeyspaceExists(message, keyspace);
            case "MergeFailed" -> new MergeFailed(message, keyspace);
            case "Busy" -> new Busy(message, keyspace);
            case "Conflict" -> new Conflict(message, keyspace);
            case "Closed" -> new Closed(message, keyspace);
            default -> new Internal(message, keyspace);
        };
    }
}
