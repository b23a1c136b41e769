package org.vlsm;

import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** Helpers of several tests. */
final class Support {
    private Support() {}

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] bytes) {
        return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
    }

    static List<String> keys(Cursor cursor) {
        try (cursor) {
            List<String> keys = new ArrayList<>();
            while (cursor.advance()) {
                keys.add(text(cursor.key()));
            }
            return keys;
        }
    }

    /** Sums numbers in text; throws NumberFormatException for anything else. */
    static byte[] sum(byte[] key, byte[] before, List<byte[]> operands) {
        long sum = before == null ? 0 : Long.parseLong(text(before));
        for (byte[] operand : operands) {
            sum += Long.parseLong(text(operand));
        }
        return bytes(Long.toString(sum));
    }

    /** A small store, which flushes and compacts often. */
    static Options small() {
        return new Options().set("policy.tree.memtable_bytes", "64 KiB").memoryLimit(64 << 20);
    }

    static String classPath() {
        String tested = System.getProperty("surefire.test.class.path");
        return tested == null ? System.getProperty("java.class.path") : tested;
    }

    /** Starts a class with a `main` in a JVM of its own; its errors go to this one's. */
    static Process start(Class<?> main, String... arguments) throws IOException {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.addAll(List.of("-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", classPath()));
        command.add(main.getName());
        command.addAll(List.of(arguments));
        return new ProcessBuilder(command)
                .directory(new File("target"))
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
    }
}
