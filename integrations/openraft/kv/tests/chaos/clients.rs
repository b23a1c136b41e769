//! Clients that read and change a few keys, and record what they asked for and were told.
//!
//! An operation that surely has no effect (no connection, or a node that does not lead) leaves no
//! record, as does a read without an answer. A change without a clear answer is of unknown outcome.

use crate::checker::{Call, Operation, Return, Value, Verdict, check, print};
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Value as Json, json};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub const KEYS: usize = 3;

/// The keys of one round, and their histories.
pub struct Round {
    name: String,
    begun: Instant,
    addresses: Vec<String>,
    http: reqwest::Client,
    /// The node that is believed to lead.
    pub leader: AtomicUsize,
    /// Clients only read, from the leader, and the key that was changed last.
    pub quiet: AtomicBool,
    pub over: AtomicBool,
    values: AtomicU64,
    histories: Mutex<Vec<Vec<Operation>>>,
}

/// How an operation ended.
enum Ended {
    Known { before: Value, done: bool },
    Unknown,
    Never,
}

impl Round {
    pub fn new(name: String, addresses: Vec<String>, leader: usize) -> Arc<Self> {
        Arc::new(Self {
            name,
            begun: Instant::now(),
            addresses,
            http: reqwest::Client::new(),
            leader: AtomicUsize::new(leader),
            quiet: AtomicBool::new(false),
            over: AtomicBool::new(false),
            values: AtomicU64::new(1),
            histories: Mutex::new(vec![Vec::new(); KEYS]),
        })
    }

    fn now(&self) -> u64 {
        self.begun.elapsed().as_micros() as u64
    }

    /// Does one operation at a node and records it. Returns whether it had an answer.
    pub async fn operate(&self, node: usize, key: usize, call: Call) -> bool {
        let at = self.now();
        let ended = self.ask(node, key, call).await;
        let end = match ended {
            Ended::Known { before, done } => Some(Return { at: self.now(), before, done }),
            Ended::Unknown if call != Call::Read => None,
            Ended::Unknown | Ended::Never => return false,
        };
        let mut histories = self.histories.lock().expect("no client panics");
        histories[key].push(Operation { at, call, end });
        end.is_some()
    }

    async fn ask(&self, node: usize, key: usize, call: Call) -> Ended {
        let key = format!("{}-{key}", self.name);
        let address = &self.addresses[node];
        let text = |value: u64| value.to_string();
        let command = match call {
            Call::Read => None,
            Call::Put(value) => Some(json!({"Put": {"key": key, "value": text(value)}})),
            Call::Delete => Some(json!({"Delete": {"key": key}})),
            Call::Cas { expected, value } => Some(json!({
                "Cas": {"key": key, "expected": expected.map(text), "value": text(value)}
            })),
        };
        let request = match command {
            None => self.http.get(format!("http://{address}/kv?key={key}")),
            Some(command) => self.http.post(format!("http://{address}/kv")).json(&command),
        };
        let answer = match request.timeout(Duration::from_secs(1)).send().await {
            Ok(answer) => answer,
            Err(error) if error.is_connect() => return Ended::Never,
            Err(_) => return Ended::Unknown,
        };
        let good = answer.status().is_success();
        let Ok(body) = answer.json::<Json>().await else { return Ended::Unknown };
        if !good {
            let leads = |address: &String| body["leader"].as_str() == Some(address);
            if let Some(leader) = self.addresses.iter().position(leads) {
                self.leader.store(leader, Ordering::Relaxed);
            }
            return match body["unknown"].as_bool() {
                Some(false) => Ended::Never,
                _ => Ended::Unknown,
            };
        }
        let before = if call == Call::Read { &body["value"] } else { &body["before"] };
        let before = before.as_str().map(|text| text.parse().expect("a value that was written"));
        Ended::Known { before, done: call == Call::Read || body["done"] == true }
    }

    fn next_call(&self, rng: &mut StdRng) -> Call {
        if self.quiet.load(Ordering::Relaxed) {
            return Call::Read;
        }
        let value = self.values.fetch_add(1, Ordering::Relaxed);
        match rng.random_range(0..10) {
            0..4 => Call::Read,
            4..7 => Call::Put(value),
            7 => Call::Delete,
            // Often one of the last values: some succeed.
            _ => Call::Cas { expected: Some(value.saturating_sub(rng.random_range(1..8))), value },
        }
    }

    /// A new value for a key.
    pub fn new_value(&self) -> u64 {
        self.values.fetch_add(1, Ordering::Relaxed)
    }

    /// One client, until the round is over.
    pub async fn client(self: Arc<Self>, mut rng: StdRng) {
        while !self.over.load(Ordering::Relaxed) {
            let quiet = self.quiet.load(Ordering::Relaxed);
            let node = match quiet || rng.random_range(0..4) > 0 {
                true => self.leader.load(Ordering::Relaxed),
                false => rng.random_range(0..self.addresses.len()),
            };
            let call = self.next_call(&mut rng);
            let key = if quiet { KEYS - 1 } else { rng.random_range(0..KEYS) };
            let answered = self.operate(node, key, call).await;
            if !answered && !quiet {
                self.leader.store(rng.random_range(0..self.addresses.len()), Ordering::Relaxed);
            }
            let pause = if quiet { 0 } else { rng.random_range(0..4) };
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
    }

    /// Reads each key until there is an answer.
    pub async fn read_all(&self) -> Result<(), String> {
        for key in 0..KEYS {
            let begun = Instant::now();
            let mut node = self.leader.load(Ordering::Relaxed);
            while !self.operate(node, key, Call::Read).await {
                if begun.elapsed() > Duration::from_secs(60) {
                    return Err(format!("key {key} cannot be read after all was healed"));
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
                node = (node + 1) % self.addresses.len();
            }
        }
        Ok(())
    }

    /// Checks the histories. Returns the number of operations, and of those of unknown outcome.
    pub fn check(&self) -> Result<(usize, usize), String> {
        let histories = self.histories.lock().expect("no client panics");
        let mut counts = (0, 0);
        for (key, history) in histories.iter().enumerate() {
            let violated = match check(history) {
                Verdict::Linearizable => None,
                Verdict::Violated { before } => Some(before),
                Verdict::Undecided { steps } => panic!("undecided after {steps} steps"),
            };
            if violated.is_some() {
                let text = print(history, violated);
                return Err(format!("key {key} of round {}:\n{text}", self.name));
            }
            counts.0 += history.len();
            counts.1 += history.iter().filter(|operation| operation.end.is_none()).count();
        }
        Ok(counts)
    }
}
