//! One chart of each kind, on a page that stays in the folder for tests' files, to be viewed in a
//! browser in light and dark mode.

mod synthetic;

use roxmltree::Document;
use synthetic::{Dice, show};
use vlsm_measure::report::chart::{
    Axis, Chart, Colour, Mark, Point, Rule, Series, Span, Unit, cdf,
};
use vlsm_measure::report::theme;

const NAMES: [&str; 4] = ["vlsm", "RocksDB", "Pebble", "fjall"];

fn over_time() -> Chart {
    let mut dice = Dice(7);
    let mut noisy = |level: f64| -> Vec<(f64, f64)> {
        (0..600).map(|t| (f64::from(t), level * (0.8 + 0.4 * dice.roll()))).collect()
    };
    let lines = NAMES.iter().enumerate();
    let lines = lines.map(|(i, name)| Series::new(name, Mark::Line, noisy(200e3 / (i + 1) as f64)));
    let stall = |from, to| Span { from, to, title: "stall".into(), colour: Colour::Alarm };
    Chart {
        title: "Throughput over time".into(),
        subtitle: "four stores, open loop at 200 k/s".into(),
        x: Axis::linear("time", Unit::Seconds),
        y: Axis::linear("operations per second", Unit::PerSecond),
        series: lines.collect(),
        bands: vec![stall(200.0, 212.0), stall(401.0, 402.0)],
        rules: vec![Rule { at: 250e3, upright: false, label: "offered".into() }],
        ..Chart::default()
    }
}

fn percentiles() -> Chart {
    let quantiles = [0.5, 0.9, 0.99, 0.999, 0.9999, 0.999_999];
    let tail = |name: &str, base: f64| {
        let point = |(i, q): (usize, &f64)| (*q, base * 4_f64.powi(i as i32));
        Series::new(name, Mark::Line, quantiles.iter().enumerate().map(point))
    };
    Chart {
        title: "Latency of writes".into(),
        x: Axis::quantiles("percentile"),
        y: Axis::log("latency", Unit::Micros),
        series: vec![
            tail("vlsm", 3.0),
            tail("RocksDB", 9.0),
            tail("RocksDB in the paper", 14.0).colour(Colour::Slot(1)).reference(),
        ],
        ..Chart::default()
    }
}

fn grouped() -> Chart {
    let point = |x: usize, y: f64| Point::from((x as f64, y)).between(y * 0.9, y * 1.15);
    let bars = |name: &str, f: f64| {
        Series::new(name, Mark::Bars, (0..4).map(|x| point(x, f * (x + 1) as f64)))
    };
    Chart {
        title: "Write amplification".into(),
        subtitle: "medians of five pairs, least to largest".into(),
        x: Axis::names(["Load A", "YCSB A", "YCSB B", "bursts"]),
        y: Axis::linear("bytes written ÷ bytes of pairs", Unit::Times),
        series: vec![bars("vlsm", 3.1), bars("RocksDB", 4.4), bars("Pebble", 3.7)],
        ..Chart::default()
    }
}

fn intervals() -> Chart {
    let ratio = |i: usize, r: f64, low, high| Point { x: r, y: i as f64, interval: (low, high) };
    Chart {
        title: "vlsm ÷ RocksDB".into(),
        x: Axis::log("ratio, with the interval of its median", Unit::Times),
        y: Axis::names(["throughput", "P99 of writes", "CPU per operation"]),
        series: vec![Series::new(
            "",
            Mark::Dots,
            [ratio(0, 1.3, 1.2, 1.45), ratio(1, 0.2, 0.1, 0.33), ratio(2, 0.97, 0.9, 1.08)],
        )],
        rules: vec![Rule { at: 1.0, upright: true, label: "equal".into() }],
        ..Chart::default()
    }
}

fn distribution() -> Chart {
    let mut dice = Dice(8);
    let mb = f64::from(1 << 20);
    let widths: Vec<f64> = (0..800).map(|_| 64.0 * mb * (dice.roll() + dice.roll())).collect();
    let wider: Vec<f64> = widths.iter().map(|width| width * 2.0).collect();
    Chart {
        title: "Width of chains".into(),
        x: Axis::linear("bytes of a chain", Unit::Bytes),
        y: Axis::linear("share of chains at most so wide", Unit::Percent).range(0.0, 100.0),
        series: vec![
            Series::new("vlsm", Mark::Steps, cdf(&widths)),
            Series::new("RocksDB", Mark::Steps, cdf(&wider)),
        ],
        ..Chart::default()
    }
}

fn scatter() -> Chart {
    let mut dice = Dice(9);
    let mut dots = |(i, name): (usize, &&str)| {
        let tail = 900.0 * (i + 1) as f64;
        let dot = |_| (90e3 + 30e3 * dice.roll(), tail * (0.5 + dice.roll()));
        Series::new(name, Mark::Dots, (0..8).map(dot).collect::<Vec<_>>())
    };
    Chart {
        title: "Throughput and tail".into(),
        x: Axis::linear("operations per second", Unit::PerSecond).range(80e3, 130e3),
        y: Axis::log("P99.9 of writes", Unit::Micros),
        series: NAMES.iter().enumerate().map(&mut dots).collect(),
        ..Chart::default()
    }
}

fn palette() -> Chart {
    let line = |i: i32| {
        let points = (1..9).map(|x| (f64::from(x), 1e4 * f64::from(x * (i + 2))));
        Series::new(&format!("store {i}"), Mark::Line, points)
    };
    Chart {
        title: "Eight stores".into(),
        x: Axis::linear("threads", Unit::Plain),
        y: Axis::linear("operations per second", Unit::PerSecond),
        series: (0..8).map(line).collect(),
        ..Chart::default()
    }
}

#[test]
fn the_gallery_is_well_formed() {
    let empty = Chart { title: "Nothing".into(), ..Chart::default() };
    let charts = [
        over_time(),
        percentiles(),
        grouped(),
        intervals(),
        distribution(),
        scatter(),
        palette(),
        empty,
    ];
    let (chart, page) = (theme::CHART, theme::PAGE);
    let mut text = format!("<style>{chart}{page}</style><meta charset=\"utf-8\"/><main>");
    for (index, chart) in charts.iter().enumerate() {
        let svg = chart.svg(if index == 0 { 1072 } else { 520 }, 300);
        Document::parse(&svg).expect("well formed");
        text += &svg;
    }
    text += &format!("</main><script>{}</script>", theme::SCRIPT);
    show("gallery.html", &format!("<!doctype html>{text}"));
}
