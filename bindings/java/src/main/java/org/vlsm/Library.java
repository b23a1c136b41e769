package org.vlsm;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Locale;

/**
 * Loads the native library: the file that the system property {@code vlsm.library} names, or the
 * one for this platform in the jar. The latter is unpacked into a temporary file, loaded, and
 * removed.
 */
final class Library {
    private Library() {}

    static void load() {
        String named = System.getProperty("vlsm.library");
        if (named != null) {
            System.load(Path.of(named).toAbsolutePath().toString());
            return;
        }
        String resource = "/native/" + platform() + "/" + System.mapLibraryName("vlsm_java");
        try (InputStream packed = Library.class.getResourceAsStream(resource)) {
            if (packed == null) {
                throw new UnsatisfiedLinkError("this jar has no " + resource + ": build one on "
                        + "this platform, or name a library by -Dvlsm.library=FILE");
            }
            Path folder = Files.createTempDirectory("vlsm");
            Path file = folder.resolve(System.mapLibraryName("vlsm_java"));
            try {
                Files.copy(packed, file, StandardCopyOption.REPLACE_EXISTING);
                System.load(file.toString());
            } finally {
                // A loaded library stays usable after its file is removed.
                Files.deleteIfExists(file);
                Files.deleteIfExists(folder);
            }
        } catch (IOException failed) {
            UnsatisfiedLinkError error = new UnsatisfiedLinkError("cannot unpack " + resource
                    + " into " + System.getProperty("java.io.tmpdir") + " (" + failed
                    + "): make room there, or name another folder by -Djava.io.tmpdir=FOLDER");
            error.initCause(failed);
            throw error;
        }
    }

    /** The name of this platform, such as `linux-x86_64`. */
    static String platform() {
        String os = System.getProperty("os.name").toLowerCase(Locale.ROOT);
        String arch = System.getProperty("os.arch").toLowerCase(Locale.ROOT);
        String system = os.startsWith("mac") ? "macos" : os.startsWith("linux") ? "linux" : os;
        String machine = switch (arch) {
            case "amd64", "x86_64", "x64" -> "x86_64";
            case "aarch64", "arm64" -> "aarch64";
            default -> arch;
        };
        return system + "-" + machine;
    }
}
