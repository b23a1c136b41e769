package org.vlsm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import javax.tools.JavaCompiler;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The README's examples, and the search for the native library. */
class PackageTest {
    @TempDir Path folder;

    /** Runs `java` with arguments in the folder, and returns its output. */
    private String run(int expected, String... arguments) throws Exception {
        List<String> command = new java.util.ArrayList<>(
                List.of(Path.of(System.getProperty("java.home"), "bin", "java").toString()));
        command.addAll(List.of(arguments));
        Process child = new ProcessBuilder(command).directory(folder.toFile())
                .redirectErrorStream(true).start();
        String said = new String(child.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertTrue(child.waitFor(60, TimeUnit.SECONDS));
        assertEquals(expected, child.exitValue(), said);
        return said;
    }

    @Test
    void theExamplesOfTheReadme() throws Exception {
        String readme = Files.readString(Path.of("README.md"));
        Matcher blocks = Pattern.compile("```java\n(.*?)```", Pattern.DOTALL).matcher(readme);
        StringBuilder program = new StringBuilder("""
                import java.nio.ByteBuffer;
                import java.nio.charset.StandardCharsets;
                import java.nio.file.Path;
                import java.util.stream.Stream;
                import org.vlsm.*;

                public class Readme {
                    static byte[] bytes(String text) {
                        return text.getBytes(StandardCharsets.UTF_8);
                    }

                    static String text(byte[] bytes) {
                        return new String(bytes, StandardCharsets.UTF_8);
                    }

                    static void check(boolean is) {
                        if (!is) {
                            throw new AssertionError();
                        }
                    }

                    public static void main(String[] arguments) {
                """);
        int count = 0;
        while (blocks.find()) {
            program.append("{\n").append(blocks.group(1)).append("}\n");
            count++;
        }
        assertTrue(count >= 5, count + " examples");
        Path source = Files.writeString(folder.resolve("Readme.java"), program + "}\n}\n");
        JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
        assertNotNull(compiler, "the tests need a JDK");
        assertEquals(0, compiler.run(null, null, null, "-cp", Support.classPath(), "-d",
                folder.toString(), source.toString()));
        String said = run(0, "-cp", folder + ":" + Support.classPath(), "Readme");
        assertEquals("apple is green\nbanana is yellow\n", said);
    }

    /** Opens a store and prints the number of its keyspaces. */
    static final class Opener {
        public static void main(String[] arguments) {
            try (Db db = Db.open(Path.of("store"))) {
                System.out.println(db.keyspaces().size());
            }
        }
    }

    @Test
    void theLibraryIsUnpackedAndRemoved() throws Exception {
        Path temporary = Files.createDirectory(folder.resolve("temporary"));
        run(0, "-Djava.io.tmpdir=" + temporary, "-cp", Support.classPath(),
                Opener.class.getName());
        try (Stream<Path> left = Files.list(temporary)) {
            assertEquals(List.of(), left.filter(path -> path.toString().contains("vlsm")).toList());
        }
        String said = run(1, "-Djava.io.tmpdir=" + folder.resolve("none"), "-cp",
                Support.classPath(), Opener.class.getName());
        assertTrue(said.contains("-Djava.io.tmpdir=FOLDER"), said);
    }

    @Test
    void anotherLibraryCanBeNamed() throws Exception {
        Path library = folder.resolve("named.so");
        String resource = "/native/" + Library.platform() + "/"
                + System.mapLibraryName("vlsm_java");
        try (InputStream packed = Library.class.getResourceAsStream(resource)) {
            assertNotNull(packed, resource);
            Files.copy(packed, library);
        }
        assertEquals("1\n", run(0, "-Dvlsm.library=" + library, "-cp", Support.classPath(),
                Opener.class.getName()));
        String said = run(1, "-Dvlsm.library=" + folder.resolve("none.so"), "-cp",
                Support.classPath(), Opener.class.getName());
        assertTrue(said.contains("none.so"), said);
    }
}
