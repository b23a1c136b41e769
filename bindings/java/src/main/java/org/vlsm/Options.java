package org.vlsm;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** How a store is opened. An option that is not set has a sensible default. */
public final class Options {
    boolean createIfMissing = true;
    boolean readOnly;
    String profile;
    final StringBuilder toml = new StringBuilder();

    /** Values in TOML by their names, in quotes. */
    private final Map<String, String> settings = new LinkedHashMap<>();

    KeyspaceOptions defaultKeyspace;
    final List<String> operatorNames = new ArrayList<>();
    final List<MergeOperator> operators = new ArrayList<>();

    /** The defaults. */
    public Options() {}

    /**
     * Sets whether a store that does not exist is created.
     *
     * @param create true by default
     * @return this
     */
    public Options createIfMissing(boolean create) {
        createIfMissing = create;
        return this;
    }

    /**
     * Sets whether the store is opened read-only. No other process may write it meanwhile; to read
     * beside a writer, use {@link Db#openReadOnly}.
     *
     * @param readOnly false by default
     * @return this
     */
    public Options readOnly(boolean readOnly) {
        this.readOnly = readOnly;
        return this;
    }

    /**
     * Chooses a named set of options for shape, schedule and admission (docs/mechanisms.md).
     *
     * @param name the name, such as {@code steady}
     * @return this
     */
    public Options profile(String name) {
        profile = Objects.requireNonNull(name, "name");
        return this;
    }

    /**
     * Adds options as a text in TOML. docs/mechanisms.md describes them.
     *
     * @param text the text
     * @return this
     */
    public Options toml(String text) {
        toml.append(Objects.requireNonNull(text, "text")).append('\n');
        return this;
    }

    /**
     * Sets one option by its name, such as {@code memory_limit} or {@code
     * policy.tree.memtable_bytes}. The last value set is used.
     *
     * @param name the name, with dots between tables
     * @param value a text, such as {@code 64 MiB}
     * @return this
     */
    public Options set(String name, String value) {
        return line(name, quoted(Objects.requireNonNull(value, "value")));
    }

    /**
     * Sets one option by its name.
     *
     * @param name the name, with dots between tables
     * @param value a number
     * @return this
     */
    public Options set(String name, long value) {
        return line(name, Long.toString(value));
    }

    /**
     * Sets one option by its name.
     *
     * @param name the name, with dots between tables
     * @param value true or false
     * @return this
     */
    public Options set(String name, boolean value) {
        return line(name, Boolean.toString(value));
    }

    /**
     * Sets the limit for memtables, cache, indexes and filters together. This memory is outside the
     * Java heap.
     *
     * @param bytes the limit
     * @return this
     */
    public Options memoryLimit(long bytes) {
        return set("memory_limit", Native.notNegative(bytes, "memoryLimit"));
    }

    /**
     * Sets the durability of writes that do not set one.
     *
     * @param durability {@link Durability#BUFFERED} by default
     * @return this
     */
    public Options durability(Durability durability) {
        return set("durability", durability.name().toLowerCase(java.util.Locale.ROOT));
    }

    /**
     * Registers a merge operator. A store whose keyspaces use it cannot be opened without it.
     *
     * @param name the name, which the store records; an operator that combines differently needs
     *     another name
     * @param operator the operator
     * @return this
     */
    public Options mergeOperator(String name, MergeOperator operator) {
        operatorNames.add(Objects.requireNonNull(name, "name"));
        operators.add(Objects.requireNonNull(operator, "operator"));
        return this;
    }

    /**
     * Sets the options of the keyspace {@code default}.
     *
     * @param options the options
     * @return this
     */
    public Options defaultKeyspace(KeyspaceOptions options) {
        defaultKeyspace = Objects.requireNonNull(options, "options");
        return this;
    }

    private Options line(String name, String value) {
        String[] parts = Objects.requireNonNull(name, "name").split("\\.", -1);
        settings.put(Stream.of(parts).map(Options::quoted).collect(Collectors.joining(".")), value);
        return this;
    }

    /** A text as TOML's basic string. */
    private static String quoted(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                quoted.append('\\').append(c);
            } else if (c < ' ' || c == 0x7f) {
                quoted.append(String.format("\\u%04x", (int) c));
            } else {
                quoted.append(c);
            }
        }
        return quoted.append('"').toString();
    }

    /** All options in TOML. Single settings come first, because they are outside of all tables. */
    String text() {
        StringBuilder text = new StringBuilder();
        settings.forEach((name, value) -> text.append(name).append(" = ").append(value)
                .append('\n'));
        return text.append(toml).toString();
    }
}
