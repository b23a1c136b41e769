//! The client: asks one node after the other until one leads.
//! Writes whose outcome is unknown are not repeated.

use clap::Args;
use serde::de::DeserializeOwned;
use std::time::{Duration, Instant};
use vlsm_openraft_kv::{Answer, Command, Error, Value, check_key};

/// Where the nodes are.
#[derive(Args)]
pub struct Nodes {
    /// The addresses of the nodes.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "127.0.0.1:7101,127.0.0.1:7102,127.0.0.1:7103"
    )]
    nodes: Vec<String>,
}

/// The arguments of `get`.
#[derive(Args)]
pub struct Get {
    #[command(flatten)]
    nodes: Nodes,
    key: String,
}

/// The arguments of `put`.
#[derive(Args)]
pub struct Put {
    #[command(flatten)]
    nodes: Nodes,
    key: String,
    value: String,
}

/// The arguments of `cas`.
#[derive(Args)]
pub struct Cas {
    #[command(flatten)]
    nodes: Nodes,
    key: String,
    /// The value that the key must have. Without this option it must not exist.
    #[arg(long)]
    expected: Option<String>,
    value: String,
}

/// The arguments of `delete`.
#[derive(Args)]
pub struct Delete {
    #[command(flatten)]
    nodes: Nodes,
    key: String,
}

/// The arguments of `status`.
#[derive(Args)]
pub struct Status {
    #[command(flatten)]
    nodes: Nodes,
}

/// How long a leader is looked for.
const PATIENCE: Duration = Duration::from_secs(10);

impl Nodes {
    /// Sends a request to the leader. One whose outcome is unknown is not repeated.
    async fn ask<T: DeserializeOwned>(
        &self,
        request: impl Fn(&reqwest::Client, &str) -> reqwest::RequestBuilder,
    ) -> Result<T, String> {
        let http = reqwest::Client::new();
        let begun = Instant::now();
        let mut last = "no node was asked".to_owned();
        let mut hint = None;
        let mut turn = self.nodes.iter().cycle();
        while begun.elapsed() < PATIENCE {
            let Some(node) = hint.take().or_else(|| turn.next().cloned()) else {
                return Err("--nodes names no node".to_owned());
            };
            match request(&http, &node).timeout(PATIENCE).send().await {
                Ok(answer) if answer.status().is_success() => {
                    return answer.json().await.map_err(|error| format!("{node}: {error}"));
                }
                Ok(answer) => {
                    let status = answer.status();
                    let error: Error = answer.json().await.map_err(|_| {
                        format!("{node}: it answers {status}, not as a node of this program does")
                    })?;
                    if status == reqwest::StatusCode::BAD_REQUEST {
                        return Err(format!("{node}: {}", error.error));
                    }
                    if error.unknown {
                        return Err(format!("{node}: {}: the outcome is unknown", error.error));
                    }
                    last = format!("{node}: {}", error.error);
                    hint = error.leader.filter(|leader| *leader != node);
                }
                Err(error) if error.is_builder() => {
                    let cause = cause(&error);
                    return Err(format!("cannot ask {node:?}, which must be HOST:PORT: {cause}"));
                }
                Err(error) if error.is_connect() => last = format!("{node}: {}", cause(&error)),
                Err(error) => {
                    return Err(format!("{node}: {}: the outcome is unknown", cause(&error)));
                }
            }
            if hint.is_none() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        Err(format!("no leader in {} s; the last answer: {last}", PATIENCE.as_secs()))
    }

    async fn send(&self, command: &Command) -> Result<Answer, String> {
        command.check()?;
        self.ask(|http, node| http.post(format!("http://{node}/kv")).json(command)).await
    }
}

/// The last cause of an error: `Connection refused` and not `error sending request for url`.
fn cause(error: &reqwest::Error) -> String {
    let mut error: &dyn std::error::Error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

/// Prints the value of a key.
pub async fn get(get: Get) -> Result<(), String> {
    check_key(&get.key)?;
    let request = |http: &reqwest::Client, node: &str| {
        http.get(format!("http://{node}/kv")).query(&[("key", &get.key)])
    };
    let value: Value = get.nodes.ask(request).await?;
    match value.value {
        Some(value) => println!("{value}"),
        None => return Err(format!("there is no key {:?}", get.key)),
    }
    Ok(())
}

/// Sets a key.
pub async fn put(put: Put) -> Result<(), String> {
    let Put { nodes, key, value } = put;
    nodes.send(&Command::Put { key, value }).await.map(|_| ())
}

/// Sets a key if it has the expected value.
pub async fn cas(cas: Cas) -> Result<(), String> {
    let Cas { nodes, key, expected, value } = cas;
    let answer = nodes.send(&Command::Cas { key, expected, value }).await?;
    match (answer.done, answer.before) {
        (true, _) => Ok(()),
        (false, Some(before)) => Err(format!("nothing changed: the value is {before:?}")),
        (false, None) => Err("nothing changed: there is no such key".to_owned()),
    }
}

/// Removes a key.
pub async fn delete(delete: Delete) -> Result<(), String> {
    delete.nodes.send(&Command::Delete { key: delete.key }).await.map(|_| ())
}

/// Prints what each node says of itself.
pub async fn status(status: Status) -> Result<(), String> {
    let http = reqwest::Client::new();
    for node in &status.nodes.nodes {
        let request = http.get(format!("http://{node}/status")).timeout(Duration::from_secs(2));
        let answer: Result<serde_json::Value, _> =
            async { request.send().await?.json().await }.await;
        match answer {
            Ok(metrics) => println!(
                "{node}: node {}, {}, term {}, leader {}, last log {}, applied {}, snapshot {}",
                metrics["id"],
                metrics["state"],
                metrics["current_term"],
                metrics["current_leader"],
                metrics["last_log_index"],
                metrics["last_applied"]["index"],
                metrics["snapshot"]["index"],
            ),
            Err(error) => println!("{node}: {}", cause(&error)),
        }
    }
    Ok(())
}
