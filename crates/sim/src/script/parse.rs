//! The words of a script: each line is one command, and its words name promises, keyspaces,
//! ranges of keys and writes. The table at the top of `script.rs` lists them.

use super::{Command, ingest, reached};
use crate::disk::Damage;
use crate::history::Promise;
use crate::oracle::{Op, Write};
use crate::world::SPACES;
use std::ops::Range;
use std::time::Duration;

pub(super) fn command(words: &[&str]) -> Result<Command, String> {
    let damage = |word: &str| match word {
        "lose" => Ok(Damage::LoseAll),
        "keep" => Ok(Damage::KeepAll),
        seed => seed.parse().map(Damage::Random).map_err(|_| format!("what is {seed:?}?")),
    };
    Ok(match words {
        ["write", promise, writes @ ..] => {
            let writes = writes.iter().map(|word| write(word)).collect::<Result<_, _>>()?;
            Command::Write(promise_of(promise)?, vec![writes])
        }
        ["fill", promise, space, range, len] => {
            let (space, len) = (space_of(space)?, number(len)? as usize);
            let value = |n: u64| format!("{n}.").into_bytes().into_iter().cycle().take(len);
            let put = |n: u64| vec![Write::put(space, key(n), value(n).collect::<Vec<_>>())];
            Command::Write(promise_of(promise)?, numbers(range)?.map(put).collect())
        }
        ["whole", promise, space, range, len] => {
            let (space, len) = (space_of(space)?, number(len)? as usize);
            let put = |n: u64| Write::put(space, key(n), vec![b'w'; len]);
            Command::Write(promise_of(promise)?, vec![numbers(range)?.map(put).collect()])
        }
        ["erase", promise, space, range] => {
            let space = space_of(space)?;
            let delete = |n: u64| vec![Write::delete(space, key(n))];
            Command::Write(promise_of(promise)?, numbers(range)?.map(delete).collect())
        }
        ["get", what, expected @ ..] => {
            let (space, key) = space_and_key(what)?;
            let value = |text: &&str| (*text != "none").then(|| text.as_bytes().to_vec());
            Command::Get(space, key.into(), expected.first().map(value))
        }
        ["scan", space, range] => {
            let range = numbers(range)?;
            Command::Scan(space_of(space)?, key(range.start)..key(range.end))
        }
        ["look"] => Command::Look(None),
        ["look", name] => Command::Look(Some((*name).into())),
        ["snapshot", name] => Command::Snapshot((*name).into()),
        ["release", name] => Command::Release((*name).into()),
        ["flush"] => Command::Flush,
        ["idle"] => Command::Idle,
        ["sleep", micros] => Command::Sleep(Duration::from_micros(number(micros)?)),
        ["compact", space, range] => {
            let range = numbers(range)?;
            Command::Compact(space_of(space)?, key(range.start)..key(range.end))
        }
        [how @ ("ingest" | "beside"), rest @ ..] => ingest::command(rest, *how == "beside")?,
        ["clear", space] => Command::Clear(space_of(space)?),
        ["checkpoint", name] => Command::Checkpoint((*name).into()),
        ["expire"] => Command::Expire,
        ["reached", what, least] => reached::command(what, least)?,
        ["close"] => Command::Close,
        ["kill"] => Command::Kill,
        ["crash", what] => Command::Crash(damage(what)?),
        other => return Err(format!("what is {:?}?", other.join(" "))),
    })
}

pub(super) fn key(n: u64) -> Vec<u8> {
    format!("k{n:05}").into_bytes()
}

pub(super) fn number(word: &str) -> Result<u64, String> {
    word.parse().map_err(|_| format!("{word:?} is not a number"))
}

pub(super) fn numbers(word: &str) -> Result<Range<u64>, String> {
    let (from, to) = word.split_once("..").ok_or(format!("{word:?} is not a range"))?;
    Ok(number(from)?..number(to)?)
}

pub(super) fn space_of(word: &str) -> Result<usize, String> {
    let space = number(word)? as usize;
    (space < SPACES.len()).then_some(space).ok_or(format!("there is no keyspace {space}"))
}

fn promise_of(word: &str) -> Result<Promise, String> {
    match word {
        "lazy" => Ok(Promise::Lazy),
        "process" => Ok(Promise::Process),
        "power" => Ok(Promise::Power),
        other => Err(format!("{other:?} is not lazy, process or power")),
    }
}

fn space_and_key(word: &str) -> Result<(usize, &str), String> {
    match word.split_once(':') {
        Some((space, key)) => Ok((space_of(space)?, key)),
        None => Ok((0, word)),
    }
}

fn write(word: &str) -> Result<Write, String> {
    let (space, rest) = space_and_key(word)?;
    if let Some(key) = rest.strip_prefix('-') {
        let write = |key: &str, op| Write { space, key: key.into(), op };
        return Ok(match key.split_once("..") {
            Some((from, to)) => write(from, Op::DeleteRange(to.into())),
            None => write(key, Op::Delete),
        });
    }
    let split = |sign| rest.split_once(sign).map(|(key, value)| (key, value.as_bytes().to_vec()));
    let put = split('=').map(|(key, value)| (key, Op::Put(value)));
    let merge = || split('+').map(|(key, operand)| (key, Op::Merge(operand)));
    let expiring = || split('~').map(|(key, value)| (key, Op::Expiring(value)));
    let found = put.or_else(merge).or_else(expiring);
    let (key, op) = found.ok_or(format!("{word:?} is no write"))?;
    Ok(Write { space, key: key.into(), op })
}
