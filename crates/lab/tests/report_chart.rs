//! Charts: where things are drawn, what is written beside them, and that all of it is well
//! formed.

mod synthetic;

use roxmltree::{Document, Node};
use synthetic::Dice;
use vlsm_measure::report::chart::{
    Axis, Chart, Colour, Lane, Mark, Point, Series, Span, Unit, cdf,
};

fn of_class<'a>(document: &'a Document, class: &str) -> Vec<Node<'a, 'a>> {
    let class = class.to_owned();
    document.descendants().filter(|node| node.attribute("class") == Some(&class)).collect()
}

fn number(node: &Node, name: &str) -> f64 {
    node.attribute(name).expect("it is there").parse().expect("a number")
}

/// The position of the tick with this text.
fn tick(document: &Document, text: &str) -> (f64, f64) {
    let tick = of_class(document, "tick").into_iter().find(|node| node.text() == Some(text));
    let tick = tick.unwrap_or_else(|| {
        let all: Vec<_> = of_class(document, "tick").iter().filter_map(Node::text).collect();
        panic!("no tick {text:?} among {all:?}")
    });
    (number(&tick, "x"), number(&tick, "y") - 4.0)
}

/// The positions of the dots inside the plot.
fn dots(document: &Document) -> Vec<(f64, f64)> {
    let start = |node: &Node| {
        let d = node.attribute("d").expect("a path");
        let d = d[1..].split(['m', 'M']).next().expect("it begins somewhere");
        let (x, y) = d.split_once(' ').expect("two numbers");
        (x.parse().expect("a number"), y.parse().expect("a number"))
    };
    let inner = document.descendants().filter(|node| node.has_tag_name("svg")).nth(1);
    let inside = |node: &Node| node.ancestors().any(|above| Some(above) == inner);
    of_class(document, "dot").iter().filter(|node| inside(node)).map(start).collect()
}

fn near(a: f64, b: f64) {
    assert!((a - b).abs() < 0.11, "{a} is not {b}");
}

#[test]
fn points_are_where_the_ticks_of_their_values_are() {
    let chart = Chart {
        x: Axis::linear("time", Unit::Seconds),
        y: Axis::log("latency", Unit::Micros),
        series: vec![Series::new("", Mark::Dots, [(0.0, 10.0), (60.0, 1e3), (120.0, 1e5)])],
        ..Chart::default()
    };
    let svg = chart.svg(600, 300);
    let document = Document::parse(&svg).expect("well formed");
    let dots = dots(&document);
    for (dot, (x, y)) in dots.iter().zip([("0", "10 µs"), ("60 s", "1 ms"), ("120 s", "100 ms")]) {
        near(dot.0, tick(&document, x).0);
        near(dot.1, tick(&document, y).1);
    }
    assert_eq!(dots.len(), 3);
    near(dots[1].0, (dots[0].0 + dots[2].0) / 2.0);
    near(dots[1].1, (dots[0].1 + dots[2].1) / 2.0);
}

#[test]
fn the_tail_is_spread_by_its_nines() {
    let quantiles = [0.5, 0.9, 0.99, 0.999, 0.9999];
    let chart = Chart {
        x: Axis::quantiles("percentile"),
        y: Axis::linear("latency", Unit::Micros),
        series: vec![Series::new("", Mark::Line, quantiles.map(|q| (q, 5.0)))],
        ..Chart::default()
    };
    let svg = chart.svg(600, 300);
    let document = Document::parse(&svg).expect("well formed");
    let dots = dots(&document);
    let texts = ["50 %", "90 %", "99 %", "99.9 %", "99.99 %"];
    for (dot, text) in dots.iter().zip(texts) {
        near(dot.0, tick(&document, text).0);
    }
    near(dots[2].0 - dots[1].0, dots[3].0 - dots[2].0);
    let decade = dots[2].0 - dots[1].0;
    assert!(((dots[1].0 - dots[0].0) / decade - 5_f64.log10()).abs() < 0.01);
}

#[test]
fn ticks_are_round_in_the_unit_they_are_written_in() {
    let ticks = |axis: Axis, most: f64| {
        let series = vec![Series::new("", Mark::Dots, [(0.0, 0.0), (most, 1.0)])];
        let svg = Chart { x: axis, series, ..Chart::default() }.svg(600, 300);
        let document = Document::parse(&svg).expect("well formed");
        let below = |node: &Node| node.attribute("text-anchor") == Some("middle");
        let ticks = of_class(&document, "tick").into_iter().filter(below);
        ticks.filter_map(|node| node.text().map(str::to_owned)).collect::<Vec<_>>().join(", ")
    };
    let linear = |unit| Axis::linear("", unit);
    assert_eq!(ticks(linear(Unit::Seconds), 600.0), "0, 2 min, 4 min, 6 min, 8 min, 10 min");
    assert_eq!(ticks(linear(Unit::Seconds), 90.0), "0, 20 s, 40 s, 60 s, 80 s, 100 s");
    assert_eq!(ticks(linear(Unit::Bytes), 200e6), "0, 50 MB, 100 MB, 150 MB, 200 MB");
    assert_eq!(
        ticks(linear(Unit::PerSecond), 130e3),
        "0, 25 k/s, 50 k/s, 75 k/s, 100 k/s, 125 k/s, 150 k/s"
    );
    assert_eq!(
        ticks(Axis::log("", Unit::Times).range(0.5, 2.0), 1.0),
        "0.5×, 0.75×, 1×, 1.25×, 1.5×, 1.75×, 2×"
    );
    assert_eq!(Unit::Micros.text(1_234.0), "1.23 ms");
    assert_eq!(Unit::Bytes.text(f64::from(96 << 20)), "96.0 MB");
    assert_eq!(Unit::Times.text(f64::NAN), "–");
}

#[test]
fn what_was_not_measured_is_a_gap_and_not_a_zero() {
    let line = [(0.0, 1.0), (1.0, 2.0), (2.0, f64::NAN), (3.0, 2.0), (4.0, 1.0)];
    let mut chart = Chart {
        y: Axis::log("", Unit::Plain),
        series: vec![Series::new("", Mark::Line, line)],
        ..Chart::default()
    };
    let svg = chart.svg(600, 300);
    let document = Document::parse(&svg).expect("well formed");
    let path = of_class(&document, "line")[0].attribute("d").expect("a path").to_owned();
    assert_eq!(path.matches('M').count(), 2, "{path}");
    assert_eq!(dots(&document).len(), 4);
    chart.series[0].points = vec![Point::from((0.0, 0.0))];
    assert!(!chart.svg(600, 300).contains("class=\"dot\""), "zero has no place on a log axis");
    chart.series.clear();
    assert!(chart.svg(600, 300).contains("not measured"));
}

#[test]
fn a_peak_survives_any_number_of_points() {
    let mut dice = Dice(1);
    let mut points: Vec<(f64, f64)> =
        (0..200_000).map(|i| (f64::from(i), 10.0 + dice.roll())).collect();
    points[123_457].1 = 100.0;
    points[77_777].1 = 0.0;
    let chart = Chart { series: vec![Series::new("many", Mark::Line, points)], ..Chart::default() };
    let svg = chart.svg(800, 300);
    assert!(svg.len() < 120_000, "{} bytes", svg.len());
    let document = Document::parse(&svg).expect("well formed");
    let path = of_class(&document, "line")[0].attribute("d").expect("a path").to_owned();
    let ys: Vec<f64> =
        path.split(['M', 'L']).filter_map(|at| at.split_once(' ')?.1.parse().ok()).collect();
    let least = ys.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ys.iter().copied().fold(0.0, f64::max);
    near(least, tick(&document, "100").1);
    near(most, tick(&document, "0").1);
}

#[test]
fn names_are_escaped_and_nothing_is_fetched() {
    let name = "<a href=\"x\"> & 'b'";
    let chart = Chart {
        title: name.into(),
        x: Axis::names([name, "other"]),
        series: vec![
            Series::new(name, Mark::Bars, [(0.0, 3.0), (1.0, 4.0)]),
            Series::new("b", Mark::Bars, [(0.0, 3.0), (1.0, 4.0)]),
        ],
        ..Chart::default()
    };
    let svg = chart.svg(600, 300);
    let document = Document::parse(&svg).expect("well formed");
    assert_eq!(of_class(&document, "title")[0].text(), Some(name));
    assert_eq!(of_class(&document, "key")[0].text(), Some(name));
    assert!(!svg.contains("http"));
}

#[test]
fn bars_stand_on_zero_with_their_intervals() {
    let point = Point::from((0.0, 10.0)).between(8.0, 12.0);
    let chart = Chart {
        x: Axis::names(["a"]),
        series: vec![Series::new("", Mark::Bars, [point])],
        ..Chart::default()
    };
    let svg = chart.svg(600, 300);
    let document = Document::parse(&svg).expect("well formed");
    let bar = of_class(&document, "bar")[0];
    let (top, height) = (number(&bar, "y"), number(&bar, "height"));
    near(top, tick(&document, "10").1);
    near(top + height, tick(&document, "0").1);
    let whisker = of_class(&document, "whisker")[0].attribute("d").expect("a path").to_owned();
    let ends: Vec<f64> =
        whisker.split(['M', 'L']).filter_map(|at| at.split_once(' ')?.1.parse().ok()).collect();
    near(ends[0] - top, top - ends[1]);
    assert!(svg.contains("a: 10 (8 to 12)"), "{svg}");
}

#[test]
fn areas_stand_on_each_other() {
    let flat = |name: &str, y: f64| Series::new(name, Mark::Stacked, [(0.0, y), (1.0, y)]);
    let chart = Chart { series: vec![flat("a", 2.0), flat("b", 4.0)], ..Chart::default() };
    let svg = chart.svg(600, 300);
    let document = Document::parse(&svg).expect("well formed");
    // Keys in the legend are rectangles, areas are paths.
    let areas: Vec<_> =
        of_class(&document, "area").into_iter().filter_map(|n| n.attribute("d")).collect();
    let y = |text: &str| tick(&document, text).1;
    assert!(areas[0].contains(&format!(" {}L", y("2"))), "{areas:?}");
    assert!(areas[1].contains(&format!(" {}L", y("6"))), "{areas:?}");
    assert!(areas[1].ends_with(&format!(" {}Z", y("2"))), "{areas:?}");
}

#[test]
fn jobs_lie_under_the_plot_at_their_time() {
    let span = |from, to| Span { from, to, colour: Colour::Ramp(2), title: "job".into() };
    let chart = Chart {
        x: Axis::linear("", Unit::Seconds).range(0.0, 100.0),
        series: vec![Series::new("", Mark::Dots, [(0.0, 1.0), (20.0, 1.0), (40.0, 1.0)])],
        bands: vec![Span { from: 20.0, to: 40.0, title: "stall".into(), colour: Colour::Alarm }],
        lanes: vec![Lane { label: "L0".into(), spans: vec![span(20.0, 40.0), span(30.0, 50.0)] }],
        ..Chart::default()
    };
    let svg = chart.svg(600, 300);
    let document = Document::parse(&svg).expect("well formed");
    let dots = dots(&document);
    let spans = of_class(&document, "span");
    near(number(&spans[0], "x"), dots[1].0);
    near(number(&spans[0], "x") + number(&spans[0], "width"), dots[2].0);
    assert!(number(&spans[1], "y") > number(&spans[0], "y"), "they overlap");
    let bands = of_class(&document, "band");
    let band = bands.iter().find(|band| number(band, "height") > 50.0).expect("it is drawn");
    near(number(band, "x"), dots[1].0);
    let many = (0..5000).map(|i| span(f64::from(i) / 50.0, f64::from(i) / 50.0 + 0.02)).collect();
    let chart = Chart { lanes: vec![Lane { label: "L0".into(), spans: many }], ..chart };
    assert!(chart.svg(600, 300).len() < 20_000, "many spans are one path");
}

#[test]
fn values_become_distributions() {
    let values = [1.0, 1.0, 2.0, 4.0, f64::NAN, 5.0];
    let shares: Vec<_> = cdf(&values).iter().map(|point| (point.x, point.y)).collect();
    assert_eq!(
        shares,
        [(1.0, 0.0), (1.0, 20.0), (1.0, 40.0), (2.0, 60.0), (4.0, 80.0), (5.0, 100.0)]
    );
    assert!(cdf(&[]).is_empty());
}
