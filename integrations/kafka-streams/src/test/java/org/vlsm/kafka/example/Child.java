package org.vlsm.kafka.example;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;

/**
 * A JVM with a main class of this class path. Its output goes to a file. It ends with its parent,
 * because it reads its standard input to the end.
 */
public final class Child implements AutoCloseable {
    private static final Set<Child> STARTED = ConcurrentHashMap.newKeySet();

    private final Process process;
    private final Path output;
    private final String name;

    /** Starts the JVM. Its output goes to the file NAME.out of the folder. */
    public Child(Path folder, String name, Class<?> main, String... arguments) throws IOException {
        this.name = name;
        output = folder.resolve(name + ".out");
        List<String> command = new ArrayList<>(List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(), "-Xmx256m",
                "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dvlsm.test.log="
                        + System.getProperty("vlsm.test.log", "WARN"),
                "-cp", System.getProperty("java.class.path"), main.getName()));
        command.addAll(List.of(arguments));
        process = new ProcessBuilder(command).redirectErrorStream(true)
                .redirectOutput(output.toFile()).start();
        STARTED.add(this);
    }

    /** Ends a main method together with its parent, and calls the action for each line of input. */
    public static void obey(java.util.function.Consumer<String> action) throws IOException {
        try (var lines = new java.io.BufferedReader(
                new java.io.InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                action.accept(line);
            }
        } catch (RuntimeException failed) {
            failed.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
        Runtime.getRuntime().halt(0);
    }

    void say(String line) throws IOException {
        OutputStream input = process.getOutputStream();
        input.write((line + "\n").getBytes(StandardCharsets.UTF_8));
        input.flush();
    }

    List<String> lines() throws IOException {
        return Files.readString(output).lines().toList();
    }

    /** Waits for a line of its output. */
    public String await(String prefix, long seconds) throws IOException, InterruptedException {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
        while (System.nanoTime() < end) {
            for (String line : lines()) {
                if (line.startsWith(prefix)) {
                    return line;
                }
            }
            checkAlive();
            Thread.sleep(50);
        }
        throw new IllegalStateException(name + " did not say \"" + prefix + "\" within " + seconds
                + " s" + tail());
    }

    void checkAlive() throws IOException {
        if (!process.isAlive()) {
            throw new IllegalStateException(name + " ended with " + process.exitValue() + tail());
        }
    }

    String tail() throws IOException {
        List<String> lines = lines();
        return ":\n  " + String.join("\n  ", lines.subList(Math.max(0, lines.size() - 30),
                lines.size()));
    }

    /** Kills all started JVMs, before this JVM ends. */
    static void killAll() {
        STARTED.forEach(Child::kill);
    }

    /** Kills it by SIGKILL. */
    public void kill() {
        process.destroyForcibly().onExit().orTimeout(30, TimeUnit.SECONDS).join();
    }

    /** Waits for its end. */
    void join(long seconds) throws IOException, InterruptedException {
        if (!process.waitFor(seconds, TimeUnit.SECONDS)) {
            throw new IllegalStateException(name + " does not end" + tail());
        }
        if (process.exitValue() != 0) {
            throw new IllegalStateException(name + " ended with " + process.exitValue() + tail());
        }
    }

    @Override
    public void close() {
        kill();
    }
}
