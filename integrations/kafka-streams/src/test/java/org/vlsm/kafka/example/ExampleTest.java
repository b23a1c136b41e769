package org.vlsm.kafka.example;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** The example counts exactly. */
class ExampleTest {
    @Test
    @Timeout(value = 180, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
    void countsAreExactAfterKills(@TempDir Path folder) throws Exception {
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        Example.run(folder, "vlsm", new PrintStream(said, true, StandardCharsets.UTF_8));
        String text = said.toString(StandardCharsets.UTF_8);
        assertTrue(text.contains("counts of 41000 words are exact"), text);
    }
}
