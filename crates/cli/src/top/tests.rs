//! The view on screens of several sizes, as text in `testdata/top`. `UPDATE_EXPECT=1`
//! rewrites them. The figures are differences of two pages that the test makes.

use super::draw::{View, draw, printed, text_of};
use super::page::{Histogram, Page};
use super::reading::Reading;
use super::source::Holder;
use super::view::{long, number, short, size, sparkline};
use super::watch::State;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

/// A page of the process 4711 with these lines.
fn page(uptime: f64, lines: &str) -> Page {
    let head = format!(
        "vlsm_page_info{{format=\"1\",version=\"0.1.0\",process=\"4711\"}} 1\n\
         vlsm_page_timestamp_seconds {}\nvlsm_uptime_seconds {uptime}\n",
        1.764e9 + uptime
    );
    Page::parse(&(head + lines)).expect("it is right")
}

/// The lines of a histogram: bounds in seconds, and the durations in each bucket.
fn histogram(name: &str, label: &str, buckets: &[(f64, u64)]) -> String {
    let (mut lines, mut count) = (String::new(), 0);
    let comma = if label.is_empty() { "" } else { "," };
    for (bound, more) in buckets {
        count += more;
        lines += &format!("{name}_bucket{{{label}{comma}le=\"{bound}\"}} {count}\n");
    }
    let sum: f64 = buckets.iter().map(|(bound, count)| bound * *count as f64).sum();
    let braces = if label.is_empty() { String::new() } else { format!("{{{label}}}") };
    lines += &format!("{name}_bucket{{{label}{comma}le=\"+Inf\"}} {count}\n");
    lines + &format!("{name}_sum{braces} {sum}\n{name}_count{braces} {count}\n")
}

const BUSY: &str = r#"
vlsm_writes_total 123456
vlsm_batches_total 4000
vlsm_write_bytes_total 16777216
vlsm_gets_total 54321
vlsm_scans_total 12
vlsm_transactions_total 7.5
vlsm_transaction_conflicts_total 3
vlsm_job_written_bytes_total{level="memtable"} 15000000
vlsm_job_written_bytes_total{level="0"} 30000000
vlsm_job_written_bytes_total{level="1"} 45000000
vlsm_running_jobs{level="memtable"} 1
vlsm_running_job_bytes{level="memtable"} 8000000
vlsm_running_job_done_bytes{level="memtable"} 2000000
vlsm_running_jobs{level="0"} 0
vlsm_running_jobs{level="1"} 2
vlsm_running_jobs_paused{level="1"} 1
vlsm_running_job_bytes{level="1"} 9000000
vlsm_running_job_done_bytes{level="1"} 8100000
vlsm_level_ssts{keyspace="default",level="0"} 3
vlsm_level_ssts{keyspace="default",level="1"} 9
vlsm_level_ssts{keyspace="default",level="2"} 1234
vlsm_level_bytes{keyspace="default",level="0"} 25165824
vlsm_level_bytes{keyspace="default",level="1"} 50331648
vlsm_level_bytes{keyspace="default",level="2"} 901775360
vlsm_level_runs{keyspace="default",level="0"} 3
vlsm_level_target_bytes{keyspace="default",level="1"} 67108864
vlsm_keyspace_memtable_bytes{keyspace="default"} 5242880
vlsm_keyspace_memtable_bytes{keyspace="users \"of\" one very long name with a \\ in it"} 0
vlsm_keyspace_sealed_memtables{keyspace="default"} 1
vlsm_keyspace_entries{keyspace="default"} 98765432
vlsm_memtable_fill_ratio 0.4375
vlsm_memory_bytes{kind="block_cache"} 104857600
vlsm_memory_bytes{kind="indexes_and_filters"} 20971520
vlsm_memory_limit_bytes 268435456
vlsm_cache_hits_total 9900
vlsm_cache_misses_total 100
vlsm_sst_files 1246
vlsm_sst_bytes 977272832
vlsm_wal_files 3
vlsm_wal_file_bytes 41943040
vlsm_pinned_files 2
vlsm_pinned_bytes 16777216
vlsm_snapshots 1
vlsm_snapshot_oldest_seconds 195
"#;

/// A store that is read and written, whose writes rarely wait.
fn busy() -> Reading {
    let lines = [
        BUSY.to_owned(),
        histogram("vlsm_write_seconds", "", &[(0.000004, 900), (0.000032, 95), (0.0015, 5)]),
        histogram("vlsm_get_seconds", "", &[(0.0000007, 800), (0.000120, 40)]),
        histogram("vlsm_wait_seconds", "cause=\"wal_queue\"", &[(0.00001, 300), (0.0012, 2)]),
        histogram("vlsm_wait_seconds", "cause=\"L0_bound\"", &[]),
    ];
    Reading::between(Path::new("/data/orders"), &page(7384.0, ""), &page(7385.0, &lines.concat()))
}

/// A store whose compactions do not keep up.
fn stalled() -> Reading {
    let lines = r#"
vlsm_writes_total 310
vlsm_write_bytes_total 317440
vlsm_job_written_bytes_total{level="0"} 250000000
vlsm_running_jobs{level="memtable"} 2
vlsm_running_jobs{level="0"} 1
vlsm_running_job_bytes{level="0"} 400000000
vlsm_running_job_done_bytes{level="0"} 100000000
vlsm_level_ssts{keyspace="default",level="0"} 60
vlsm_level_ssts{keyspace="default",level="1"} 31
vlsm_level_bytes{keyspace="default",level="0"} 503316480
vlsm_level_bytes{keyspace="default",level="1"} 134217728
vlsm_level_runs{keyspace="default",level="0"} 60
vlsm_level_target_bytes{keyspace="default",level="1"} 67108864
vlsm_keyspace_memtable_bytes{keyspace="default"} 33554432
vlsm_keyspace_sealed_memtables{keyspace="default"} 3
vlsm_keyspace_debt_bytes{keyspace="default"} 570425344
vlsm_keyspace_waits_total{keyspace="default",cause="memtable_full"} 4
vlsm_keyspace_wait_seconds_total{keyspace="default",cause="memtable_full"} 3.4
vlsm_keyspace_chains_total{keyspace="default"} 2
vlsm_keyspace_chain_waited_seconds_total{keyspace="default"} 0.85
vlsm_keyspace_chain_width_bytes_total{keyspace="default"} 125829120
vlsm_chains_total 2
vlsm_memtable_fill_ratio 1
vlsm_memory_limit_bytes 268435456
vlsm_write_limit_bytes_per_second 1048576
vlsm_out_of_space 1
"#;
    let lines = [
        lines.to_owned(),
        histogram("vlsm_write_seconds", "", &[(0.00001, 3), (0.9, 2)]),
        histogram("vlsm_wait_seconds", "cause=\"memtable_full\"", &[(0.8, 3), (1.0, 1)]),
        histogram("vlsm_wait_seconds", "cause=\"admission\"", &[(0.001, 70)]),
    ];
    Reading::between(Path::new("/data/orders"), &page(60.0, ""), &page(61.0, &lines.concat()))
}

fn view(reading: Reading) -> View {
    let mut view = View {
        store: "/data/orders".into(),
        reading: None,
        history: VecDeque::new(),
        state: State::Live,
        paused: false,
        interval: 1,
        keyspaces: false,
    };
    let last = reading.rates;
    for n in 0..40 {
        let mut earlier = last;
        earlier.puts = last.puts * f64::from(n % 10) / 10.0;
        earlier.written = last.written * f64::from(n) / 40.0;
        view.history.push_back(earlier);
    }
    view.add(reading);
    view
}

/// The text on a terminal of this size.
fn screen(view: &View, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("it is in memory");
    let drawn = terminal.draw(|frame| draw(view, frame.area(), frame.buffer_mut()));
    drawn.expect("it is in memory");
    text_of(terminal.backend().buffer(), height)
}

macro_rules! shows {
    ($name:literal, $screen:expr) => {
        expect_test::expect_file![concat!("../../testdata/top/", $name, ".txt")].assert_eq(&$screen)
    };
}

#[test]
fn a_busy_store_on_screens_of_all_sizes() {
    let mut view = view(busy());
    shows!("busy_120x40", screen(&view, 120, 40));
    shows!("busy_80x24", screen(&view, 80, 24));
    shows!("busy_50x36", screen(&view, 50, 36));
    shows!("busy_40x10", screen(&view, 40, 10));
    shows!("printed", printed(&view, 100));
    view.keyspaces = true;
    view.paused = true;
    shows!("keyspaces_80x24", screen(&view, 80, 24));
    shows!("keyspaces_40x12", screen(&view, 40, 12));
}

#[test]
fn a_stalled_store_says_who_waits_for_what() {
    shows!("stalled_80x24", screen(&view(stalled()), 80, 24));
    shows!("stalled_160x30", screen(&view(stalled()), 160, 30));
}

#[test]
fn a_store_without_figures_says_why() {
    let mut view = view(busy());
    view.state = State::Closed(Duration::from_secs(75));
    shows!("closed_80x24", screen(&view, 80, 24));
    view.state = State::Silent(Holder::Process(4711), Duration::from_secs(6));
    assert!(
        screen(&view, 80, 24)
            .contains("process 4711 has /data/orders open and has written no statistics for 6 s")
    );
    view.reading = None;
    view.state = State::Waiting(Holder::Somebody);
    assert!(screen(&view, 80, 24).contains("waiting for the first statistics of a process"));
    view.state = State::Unanswered(Holder::Process(1));
    assert!(screen(&view, 80, 24).contains("stats_on_request"));
}

/// No size of the terminal causes a panic, and a tiny terminal says that it is too small.
#[test]
fn every_size_can_be_drawn() {
    for reading in [busy(), stalled(), Reading::default()] {
        let mut view = view(reading);
        for keyspaces in [false, true] {
            view.keyspaces = keyspaces;
            for width in (1..130).step_by(3) {
                for height in 1..45 {
                    screen(&view, width, height);
                }
            }
        }
    }
    let view = view(busy());
    assert_eq!(screen(&view, 20, 3), "vlsm top needs 24 x\n4\n\n");
}

#[test]
fn figures_are_those_of_the_interval() {
    let latency = |buckets: &[(f64, u64)]| histogram("vlsm_get_seconds", "", buckets);
    let earlier = latency(&[(0.001, 10), (0.004, 1)]);
    let later = latency(&[(0.001, 10), (0.002, 98), (0.003, 1), (0.004, 2)]);
    let (earlier, later) = (
        page(10.0, &(earlier + "vlsm_gets_total 100\n")),
        page(12.0, &(later + "vlsm_gets_total 300\n")),
    );
    let reading = Reading::between(Path::new("s"), &earlier, &later);
    assert_eq!((reading.seconds, reading.rates.gets), (2.0, 100.0));
    let get = reading.latencies.get;
    assert_eq!((get.measured, get.p50, get.p99), (100.0, Some(0.002), Some(0.003)));
    assert_eq!((get.max, reading.latencies.write.p99), (Some(0.004), None));
    let json = reading.json();
    assert_eq!(json["rates"]["gets"], 100.0);
    assert_eq!(json["latencies"]["get"]["p99"], 0.003);
    assert!(json["latencies"]["write"]["max"].is_null());
}

#[test]
fn a_reopened_store_begins_an_interval() {
    let continues = |later: &Page| Reading::continues(&page(10.0, "vlsm_gets_total 5\n"), later);
    assert!(continues(&page(11.0, "vlsm_gets_total 5\n")));
    assert!(!continues(&page(11.0, "vlsm_gets_total 4\n")), "the counters restarted");
    assert!(!continues(&page(2.0, "vlsm_gets_total 6\n")), "the clock restarted");
    let other = Page::parse(
        "vlsm_page_info{format=\"1\",version=\"0.1.0\",process=\"12\"} 1\n\
         vlsm_uptime_seconds 11\nvlsm_gets_total 6\n",
    );
    assert!(!continues(&other.expect("it is right")), "another process");
}

#[test]
fn pages_are_parsed_and_parts_of_pages_refused() {
    let text =
        "# HELP a b\na 1\nb{x=\"1\",y=\"}, \\\"q\\\" \\\\ \\n\"} 2.5\nb{x=\"2\"} 4\n\nc{} NaN\n";
    let page = Page::parse(text).expect("it is right");
    assert_eq!(page.value("a"), Some(1.0));
    assert_eq!((page.sum("b", &[]), page.sum("b", &[("x", "2")])), (6.5, 4.0));
    assert_eq!(page.values_of("b", "y"), ["}, \"q\" \\ \n"]);
    assert_eq!((page.value("none"), page.sum("none", &[])), (None, 0.0));
    for wrong in ["a", "a ", "a x", "a{b 1", "a{b=\"c} 1", "a{b=\"c\" 1", "{} 1", "a{b=\"\\", "é 1"]
    {
        let error = Page::parse(&format!("ok 1\n{wrong}\n")).expect_err(wrong);
        assert_eq!(error, "line 2 is not a metric", "{wrong}");
    }
    assert_eq!(page.histogram("none", &[]), Histogram::default());
}

#[test]
fn figures_are_short() {
    let shorts = [
        (0.0, "0 s"),
        (0.000_000_7, "700 ns"),
        (0.000_001_25, "1.25 µs"),
        (0.000_12, "120 µs"),
        (0.0305, "30.5 ms"),
        (2.0, "2 s"),
        (75.0, "75 s"),
        (300.0, "300 s"),
    ];
    for (seconds, text) in shorts {
        assert_eq!(short(seconds), text);
    }
    let longs = [(5.9, "5 s"), (65.0, "1 min 5 s"), (7385.0, "2 h 3 min"), (200_000.0, "2 d 7 h")];
    for (seconds, text) in longs {
        assert_eq!(long(seconds), text);
    }
    assert_eq!([0.0, 0.26, 9.0, 12.6, 1e6].map(number), ["0", "0.3", "9.0", "13", "1,000,000"]);
    assert_eq!(size(1536.0), "1.5 KB");
    let rates = |puts| super::reading::Rates { puts, ..Default::default() };
    let course = [0.0, 1.0, 4.0, 8.0].map(rates).into();
    assert_eq!(sparkline(&course, |rates| rates.puts, 3), "▁▄█");
    assert_eq!(sparkline(&course, |rates| rates.puts, 9), " ▁▄█");
    assert_eq!(sparkline(&course, |rates| rates.gets, 9), "    ");
}
