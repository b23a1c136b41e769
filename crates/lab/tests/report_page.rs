//! The page of reports: well formed, complete, clear about missing values, and loading nothing.

mod synthetic;

use roxmltree::{Document, Node, ParsingOptions};
use synthetic::{STALLING, STEADY, phase, report, show};
use vlsm_lab::compare::{Runs, csv, page as comparison};
use vlsm_measure::report::{Report, html};

fn parsed(page: &str) -> Document<'_> {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    Document::parse_with_options(page, options).expect("well formed")
}

/// The cells of the first row that begins with this.
fn row(document: &Document, name: &str) -> Vec<String> {
    let text = |node: Node| {
        let texts = node.descendants().filter(Node::is_text);
        texts.filter_map(|text| text.text()).collect::<String>()
    };
    let rows = document.descendants().filter(|node| node.has_tag_name("tr"));
    let mut cells = rows.map(|row| row.children().map(text).collect::<Vec<_>>());
    let found = cells.find(|cells| cells.first().is_some_and(|first| first == name));
    found.unwrap_or_else(|| panic!("no row {name:?}"))
}

#[test]
fn two_stores_are_beside_each_other() {
    let reports = [report(&STEADY, 1), report(&STALLING, 2)];
    let page = html::page(&reports, "bursts");
    show("two.html", &page);
    let document = parsed(&page);
    assert!(!page.contains("http") && !page.contains("src="), "nothing is fetched");
    assert_eq!(row(&document, "seconds at zero")[1], "0 s");
    assert_eq!(row(&document, "space amplification")[1..], ["1.12×", "1.12×"]);
    assert!(row(&document, "levels at the end")[1].contains("L1 251.0 MB of 256.0 MB (98 %)"));
    assert!(row(&document, "limits")[1].contains("not recorded"));
    assert_eq!(row(&document, "write amp. (system)")[1], "8.09×");
    let best = document.descendants().filter(|node| node.attribute("class") == Some("best"));
    let best: Vec<_> = best.filter_map(|node| node.text()).collect();
    assert!(best.contains(&"0 s"), "{best:?}");
    let titles: Vec<_> = document
        .descendants()
        .filter(|node| node.attribute("class") == Some("title"))
        .filter_map(|node| node.text())
        .collect();
    for expected in [
        "Throughput",
        "Latency of writes",
        "Levels and background jobs: vlsm",
        "Levels and background jobs: rocksdb:reference",
        "Width of compaction chains",
        "Resident memory",
    ] {
        assert!(titles.contains(&expected), "{titles:?}");
    }
    assert!(page.contains("vlsm bench --workload burst --seconds 600"));
}

#[test]
fn one_store_has_its_stalls_shaded() {
    let mut run = report(&STALLING, 3);
    run.phases.push(phase(&STALLING, "bursts", 4));
    let page = html::page(&[run.clone()], "one");
    show("one.html", &page);
    let document = parsed(&page);
    assert!(page.contains("<h2>bursts (2)</h2>"));
    let bands = document.descendants().filter(|node| node.attribute("class") == Some("band"));
    // One key and one band a stall in each chart over time.
    assert!(bands.count() as u64 > 4 * run.phases[0].stalls.count, "they are shaded");
    assert!(!page.contains("class=\"best\""), "one alone is not best");
}

#[test]
fn nothing_is_made_up() {
    let mut run = report(&STEADY, 5);
    let phase = &mut run.phases[0];
    phase.samples.clear();
    phase.jobs.clear();
    phase.chains.clear();
    phase.amplification = Default::default();
    run.peak_memory = None;
    let page = html::page(&[run, report(&STALLING, 6)], "missing");
    let document = parsed(&page);
    assert_eq!(row(&document, "peak memory")[1], "not measured");
    assert_eq!(row(&document, "chains behind L0, mean")[1], "not measured");
    let alone = html::page(&[Report::default()], "nothing <at> all & \"more\"");
    assert!(alone.contains("<h1>nothing &lt;at&gt; all &amp; &quot;more&quot;</h1>"));
    parsed(&alone);
    parsed(&html::page(&[], "no run"));
}

#[test]
fn a_comparison_has_its_page() {
    let runs = |shape, name: &str| Runs {
        name: name.into(),
        reports: (0..5).map(|seed| report(shape, seed)).collect(),
    };
    let stores = [runs(&STALLING, "rocksdb"), runs(&STEADY, "vlsm <new>")];
    let page = comparison::render(&stores, "vlsm beside RocksDB");
    show("comparison.html", &page);
    let document = parsed(&page);
    // One table with a column for each store comes first, then the charts, then each pair.
    let medians = row(&document, "writes P99.9");
    assert!(medians.len() == 3 && medians[2].contains(" ×0."), "{medians:?}");
    let (table, rest) = page.split_once("</table>").expect("there is a table");
    assert!(table.contains("writes P99.9") && table.contains("<span class=\"better\">×0."));
    let order = ["<svg", "<h2>How it was measured", "vlsm &lt;new&gt; beside rocksdb"];
    assert!(order.map(|part| rest.find(part).expect(part)).is_sorted());
    let mut pairs = document.descendants().filter(|node| node.has_tag_name("details"));
    let pairs = pairs.next_back().expect("there is one of the only pair of stores");
    let verdicts = pairs.descendants().filter_map(|node| node.text());
    assert!(verdicts.filter(|text| *text == "better").count() > 3);
}

/// Cells of CSV.
fn cells(text: &str) -> Vec<Vec<String>> {
    let mut rows = vec![vec![String::new()]];
    let (mut quoted, mut chars) = (false, text.chars().peekable());
    while let Some(c) = chars.next() {
        let cells = rows.last_mut().expect("there is one");
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                cells.last_mut().expect("there is one").push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(String::new()),
            '\r' if !quoted => {}
            '\n' if !quoted => rows.push(vec![String::new()]),
            c => cells.last_mut().expect("there is one").push(c),
        }
    }
    rows.pop();
    rows
}

#[test]
fn figures_come_back_from_csv() {
    let mut reports = [report(&STEADY, 1), report(&STALLING, 2)];
    reports[1].phases[0].name = "a, \"b\"\nc".into();
    let summary = cells(&csv::summary(&reports));
    assert!(summary.iter().all(|row| row.len() == summary[0].len()));
    assert_eq!(summary.len(), 1 + 2 * 2);
    let value = |row: usize, name: &str| {
        let column = summary[0].iter().position(|head| head == name);
        summary[row][column.unwrap_or_else(|| panic!("no column {name}"))].clone()
    };
    assert_eq!(value(3, "phase"), "a, \"b\"\nc");
    assert_eq!(value(1, "throughput 1/s").parse(), Ok(reports[0].phases[0].throughput));
    let p99 = reports[1].phases[0].writes.expect("it has some").p99_us;
    assert_eq!(value(3, "writes P99 µs").parse(), Ok(p99));
    assert_eq!(value(1, "scans P99 µs"), "", "there was no scan");
    assert_eq!(value(2, "run peak memory bytes").parse(), Ok(412_u64 << 20));
    let series = cells(&csv::series(&reports));
    assert_eq!(series.len(), 1 + 1200);
    assert_eq!(series[601][..2], ["rocksdb:reference".to_owned(), "a, \"b\"\nc".into()]);
    let stalled = series.iter().skip(1).find(|row| row[4] == "0").expect("it stalls");
    assert_eq!(stalled[9], "", "no operation has no latency");
}
