//! The progress of a long run, in a file of one line a fact, its words separated by tabs. It
//! belongs to one commit: on another one everything begins anew.

use std::collections::BTreeMap;
use std::path::Path;

/// The progress of one class.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ClassState {
    pub rounds: u64,
    /// Seeds that were played; the next one follows.
    pub seeds: u64,
    pub seconds: f64,
    /// The longest round of all.
    pub longest: f64,
    /// The test's message if no round can be played here; else empty.
    pub skipped: String,
    /// The lines `SKIPPED …` of the last round: the parts that the tests left out.
    pub left_out: Vec<String>,
    pub counts: BTreeMap<String, u64>,
}

impl ClassState {
    /// Seconds that the next round may take.
    pub fn longest_round(&self) -> f64 {
        self.longest
    }
}

/// A test that failed.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    pub class: String,
    pub seeds: String,
    /// Its output, below `target/long`.
    pub file: String,
    pub what: String,
}

/// All runs on one commit.
#[derive(Debug, Default, PartialEq)]
pub struct State {
    pub commit: String,
    pub runs: u64,
    /// Seconds that the runs took. Classes run side by side, so theirs are more.
    pub took: f64,
    pub classes: BTreeMap<String, ClassState>,
    pub findings: Vec<Finding>,
}

impl State {
    /// Reads the state that earlier runs on this commit left. Without one, or after runs on another
    /// commit, it begins anew.
    pub fn resume(path: &Path, commit: &str) -> Result<Self, String> {
        let anew = Self { commit: commit.to_owned(), runs: 1, ..Self::default() };
        let text = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(anew),
            Err(error) => return Err(format!("{}: {error}", path.display())),
            Ok(text) => text,
        };
        let mut state = Self::parse(&text).map_err(|why| format!("{}: {why}", path.display()))?;
        if state.commit != commit {
            println!("long: begun anew: the last run was of {}, this is {commit}", state.commit);
            return Ok(anew);
        }
        state.runs += 1;
        println!("long: going on with run {} of {commit}", state.runs);
        Ok(state)
    }

    pub fn class(&self, name: &str) -> ClassState {
        self.classes.get(name).cloned().unwrap_or_default()
    }

    /// Adds what one round did.
    pub fn add(&mut self, name: &str, round: &ClassState) {
        let class = self.classes.entry(name.to_owned()).or_default();
        class.rounds += round.rounds;
        class.seeds += round.seeds;
        class.seconds += round.seconds;
        class.longest = class.longest.max(round.longest);
        class.skipped.clone_from(&round.skipped);
        class.left_out.clone_from(&round.left_out);
        for (count, number) in &round.counts {
            *class.counts.entry(count.clone()).or_default() += number;
        }
    }

    /// Writes it beside the old one, which it then replaces.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        let new = path.with_extension("new");
        let written = std::fs::write(&new, self.text()).and_then(|()| std::fs::rename(&new, path));
        written.map_err(|error| format!("{}: {error}", path.display()))
    }

    pub fn text(&self) -> String {
        let mut text = format!("commit\t{}\nruns\t{}\n", self.commit, self.runs);
        text += &format!("took\t{:.3}\n", self.took);
        for (name, class) in &self.classes {
            let ClassState { rounds, seeds, seconds, longest, .. } = class;
            text += &format!("class\t{name}\t{rounds}\t{seeds}\t{seconds:.3}\t{longest:.3}\n");
            for line in &class.left_out {
                text += &format!("left out\t{name}\t{}\n", line.replace('\t', " "));
            }
            for (count, number) in &class.counts {
                text += &format!("count\t{name}\t{count}\t{number}\n");
            }
        }
        for Finding { class, seeds, file, what } in &self.findings {
            text += &format!("finding\t{class}\t{seeds}\t{file}\t{}\n", what.replace('\t', " "));
        }
        text
    }

    /// Reads what [`Self::text`] made. What was skipped is tried again.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut state = Self::default();
        for line in text.lines() {
            let wrong = || format!("what is {line:?}?");
            let number = |word: &str| word.parse::<u64>().map_err(|_| wrong());
            let seconds = |word: &str| word.parse::<f64>().map_err(|_| wrong());
            match line.split('\t').collect::<Vec<_>>().as_slice() {
                ["commit", commit] => (*commit).clone_into(&mut state.commit),
                ["took", took] => state.took = seconds(took)?,
                ["runs", runs] => state.runs = number(runs)?,
                ["class", name, rounds, seeds, took, longest] => {
                    let class = state.classes.entry((*name).to_owned()).or_default();
                    (class.rounds, class.seeds) = (number(rounds)?, number(seeds)?);
                    (class.seconds, class.longest) = (seconds(took)?, seconds(longest)?);
                }
                ["left out", name, line] => {
                    let class = state.classes.entry((*name).to_owned()).or_default();
                    class.left_out.push((*line).to_owned());
                }
                ["count", name, count, times] => {
                    let class = state.classes.entry((*name).to_owned()).or_default();
                    class.counts.insert((*count).to_owned(), number(times)?);
                }
                ["finding", class, seeds, file, what] => {
                    let [class, seeds, file, what] =
                        [class, seeds, file, what].map(|w| (*w).into());
                    state.findings.push(Finding { class, seeds, file, what });
                }
                _ => return Err(wrong()),
            }
        }
        Ok(state)
    }
}

/// FNV-1a: the same in every build of this program.
pub fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
