//! The dashboard for Grafana (docs/grafana/vlsm.json) uses only metrics and labels that exist.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test")]

mod common;

use common::World;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const DASHBOARD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/grafana/vlsm.json");

/// The type of each metric of a page, and the labels that its samples have.
fn metrics(page: &str) -> BTreeMap<String, (String, BTreeSet<String>)> {
    let mut metrics = BTreeMap::new();
    for line in page.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').unwrap();
        metrics.insert(name.to_owned(), (kind.to_owned(), BTreeSet::new()));
    }
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let Some((name, labels)) = line.split_once('{') else { continue };
        let labels = labels.split('"').step_by(2).filter_map(|part| part.strip_suffix('='));
        let labels = labels.map(|label| label.trim_start_matches(',').to_owned());
        let (family, _) = family(name, &metrics).unwrap();
        metrics.get_mut(&family).unwrap().1.extend(labels);
    }
    metrics
}

/// The family of a sample's name, and the sample's part of it.
fn family<T>(
    name: &str,
    metrics: &BTreeMap<String, (String, T)>,
) -> Option<(String, &'static str)> {
    for part in ["_bucket", "_sum", "_count"] {
        if let Some(base) = name.strip_suffix(part)
            && metrics.get(base).is_some_and(|(kind, _)| kind == "histogram")
        {
            return Some((base.to_owned(), part));
        }
    }
    metrics.contains_key(name).then(|| (name.to_owned(), ""))
}

/// All expressions of a value, at any depth.
fn expressions(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match value {
                    Value::String(text) if key == "expr" => found.push(text.clone()),
                    _ => expressions(value, found),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| expressions(value, found)),
        _ => {}
    }
}

/// The words of a query: names of metrics, functions and labels.
fn words(query: &str) -> impl Iterator<Item = &str> {
    query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// A metric in a query, with the labels by which it is selected, and whether the query takes its
/// rate.
fn selected(query: &str) -> Vec<(&str, Vec<&str>, bool)> {
    let mut found = Vec::new();
    for (at, _) in query.match_indices("vlsm_") {
        let rest = &query[at..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let (name, rest) = rest.split_at(end);
        let matchers = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
        let matchers = matchers.map_or("", |(matchers, _)| matchers);
        let labels = matchers.split(',').filter_map(|one| one.split(['=', '!']).next());
        let labels = labels.filter(|label| !label.is_empty()).collect();
        found.push((name, labels, query[..at].ends_with("rate(")));
    }
    found
}

#[test]
fn the_dashboard_asks_for_what_there_is() {
    let world = World::new();
    world.run(&["put", "s", "apple", "green"]).ok();
    let metrics = metrics(&world.run(&["stats", "s", "--prometheus"]).ok());
    let text = std::fs::read_to_string(DASHBOARD).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let mut queries = Vec::new();
    expressions(&dashboard["panels"], &mut queries);
    assert!(queries.len() > 30, "{queries:?}");
    // Metrics with one sample or none so far: the page of a new store does not show their labels.
    let late = ["vlsm_keyspace_wait_seconds_total", "vlsm_level_target_bytes"];
    for query in &queries {
        let selected = selected(query);
        assert!(!selected.is_empty(), "{query}");
        let mut known: BTreeSet<&str> = BTreeSet::from(["instance"]);
        for (name, labels, rate) in selected {
            let (base, part) = family(name, &metrics).unwrap_or_else(|| panic!("{name}: {query}"));
            let (kind, has) = &metrics[&base];
            assert_eq!(rate, kind != "gauge" && !query.contains("max("), "{kind} {query}");
            known.extend(has.iter().map(String::as_str));
            if late.contains(&base.as_str()) {
                known.extend(["keyspace", "level", "cause"]);
            }
            assert!(part == "_bucket" || !query.contains("histogram_quantile"), "{query}");
            assert!(labels.iter().all(|label| known.contains(label)), "{labels:?}: {query}");
        }
        for by in query.match_indices("by (").map(|(at, by)| &query[at + by.len()..]) {
            let labels = by.split(')').next().unwrap();
            assert!(words(labels).all(|label| known.contains(label)), "{labels}: {query}");
        }
    }
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len(), "an id twice");
    assert!(panels.iter().all(|panel| !panel["title"].as_str().unwrap().is_empty()));
}
