//! Generates the uniform functions: setters and getters of options, and functions without a
//! counterpart in vLSM.
//!
//! `functions.txt` lists every function of `rocksdb/c.h` in sections. Those of `[written]` are in
//! `src`; the others are generated here. `options.txt` has a row for each option. A function that
//! is in the wrong section, or an option without a row, is an error of the build or of the linker.

// This runs when the crate is built, not in the engine.
#![allow(clippy::disallowed_methods)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

/// A function of `c.h`.
struct Function<'a> {
    result: &'a str,
    name: &'a str,
    args: Vec<&'a str>,
}

impl<'a> Function<'a> {
    fn of(line: &'a str) -> Self {
        let (head, args) = line.split_once('(').unwrap_or_else(|| panic!("no function: {line}"));
        let (result, name) = head.rsplit_once(' ').unwrap_or_else(|| panic!("no type: {line}"));
        let args = args.trim_end_matches(')').split(", ").filter(|arg| !arg.is_empty()).collect();
        Self { result, name, args }
    }
}

/// The Rust type for a type of C.
fn rust(c: &str) -> &str {
    match c {
        "void" => "()",
        "unsigned char" | "uint8_t" => "u8",
        "char" => "std::ffi::c_char",
        "int" | "int32_t" => "i32",
        "unsigned int" | "uint32_t" => "u32",
        "int64_t" => "i64",
        "uint64_t" => "u64",
        "size_t" => "usize",
        "double" => "f64",
        "bool" => "bool",
        "rocksdb_slice_t" => "crate::call::rocksdb_slice_t",
        "callback" => "*mut std::ffi::c_void",
        pointer if pointer.ends_with('*') || pointer == "char** errptr" => "*mut std::ffi::c_void",
        other => panic!("functions.txt has a type that is not known here: {other:?}"),
    }
}

/// The object and the option of a function whose first verb is this one.
fn option<'a>(name: &'a str, verb: &str) -> Option<(&'a str, &'a str)> {
    let name = name.strip_prefix("rocksdb_")?;
    let first = ["_set_", "_get_"].into_iter().filter_map(|verb| Some((name.find(verb)?, verb)));
    let (at, first) = first.min()?;
    (first == verb).then(|| (&name[..at], &name[at + verb.len()..]))
}

fn parameters(args: &[&str]) -> String {
    let typed = args.iter().enumerate().map(|(at, arg)| format!("a{at}: {}", rust(arg)));
    typed.collect::<Vec<_>>().join(", ")
}

/// A function that only stores or returns options.
fn of_options(function: &Function<'_>, rows: &BTreeSet<(String, String)>) -> String {
    let Function { result, name, args } = function;
    let known = |(object, key): (&str, &str)| {
        let there = rows.contains(&(object.to_owned(), key.to_owned()));
        assert!(there, "{name}: options.txt has no row for {object}.{key}");
    };
    let body = if let Some((object, key)) = option(name, "_set_") {
        known((object, key));
        format!("crate::bag::set(a0.cast(), {key:?}, a1)")
    } else if let Some((_, key)) = option(name, "_get_") {
        format!("crate::bag::get::<{}>(a0.cast_const().cast(), {key:?})", rust(result))
    } else if let Some(object) = name.strip_suffix("_create") {
        let object = object.trim_start_matches("rocksdb_");
        format!("Ok(crate::bag::new({object:?}).cast())")
    } else if name.ends_with("_destroy") {
        "crate::call::free(a0.cast::<crate::bag::Bag>())".to_owned()
    } else {
        panic!("{name}: neither a setter, a getter, a create nor a destroy")
    };
    let parameters = parameters(args);
    format!("fn {name}({parameters}) -> {} {{ {body} }}\n", rust(result))
}

/// A function without a counterpart: it returns an error if it has a parameter for one, and else
/// does nothing.
fn missing(function: &Function<'_>, why: &str) -> String {
    let Function { result, name, args } = function;
    let result = rust(result);
    match args.split_last() {
        Some((&"char** errptr", args)) => {
            let unused: String = (0..args.len()).map(|at| format!("let _ = a{at};")).collect();
            format!(
                "fallible fn {name}({}) -> {result} \
                 {{ {unused} Err(crate::status::Failure::missing({why:?})) }}\n",
                parameters(args)
            )
        }
        _ => {
            let unused: String = (0..args.len()).map(|at| format!("let _ = a{at};")).collect();
            format!(
                "fn {name}({}) -> {result} {{ {unused} Ok(crate::call::Nothing::NOTHING) }}\n",
                parameters(args)
            )
        }
    }
}

/// Writes functions in pieces that the macro can take.
fn in_pieces(functions: &[String]) -> String {
    functions.chunks(40).fold(String::new(), |mut all, piece| {
        writeln!(all, "crate::call::api! {{\n{}}}", piece.concat()).expect("a string takes all");
        all
    })
}

/// The rows of `options.txt` as Rust, and their names.
fn rows_of(text: &str) -> (String, BTreeSet<(String, String)>) {
    let mut rows = BTreeMap::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [name, default, status, note] = cells[..] else { panic!("not four cells: {line}") };
        let (object, key) = name.split_once('.').unwrap_or_else(|| panic!("no object: {line}"));
        let number = match default.contains('.') {
            true => format!("Value::Real({default})"),
            false => format!("Value::Int({default})"),
        };
        let status = match status {
            "mapped" => "Mapped",
            "harmless" => "Harmless",
            "refused" => "Refused",
            other => panic!("{name}: no status is called {other:?}"),
        };
        assert!(status != "Refused" || !note.is_empty(), "{name}: say what to do instead");
        let row = format!(
            "Row {{ object: {object:?}, key: {key:?}, default: {number}, status: Status::{status}, \
             note: {note:?} }},\n"
        );
        let twice = rows.insert((object.to_owned(), key.to_owned()), row);
        assert!(twice.is_none(), "{name} has two rows");
    }
    let all: String = rows.values().map(String::as_str).collect();
    let table = format!(
        "use crate::bag::{{Row, Status, Value}};\npub(crate) static ROWS: &[Row] = &[\n{all}];\n"
    );
    (table, rows.into_keys().collect())
}

fn main() {
    let read = |name: &str| {
        println!("cargo::rerun-if-changed={name}");
        std::fs::read_to_string(name).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    println!("cargo::rerun-if-changed=build-script/main.rs");
    let (mut out, rows) = rows_of(&read("options.txt"));
    let (mut functions, mut section, mut why) = (Vec::new(), "", "");
    let text = read("functions.txt");
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.strip_prefix('[').and_then(|line| line.split_once(']')) {
            Some((name, text)) => (section, why) = (name, text.trim()),
            None => match section {
                "written" => {}
                "options" => functions.push(of_options(&Function::of(line), &rows)),
                "none" => functions.push(missing(&Function::of(line), why)),
                other => panic!("functions.txt: there is no section {other:?}"),
            },
        }
    }
    out.push_str(&in_pieces(&functions));
    let to = std::env::var_os("OUT_DIR").expect("cargo sets it");
    let to = Path::new(&to).join("generated.rs");
    std::fs::write(&to, out).unwrap_or_else(|error| panic!("{}: {error}", to.display()));
}
