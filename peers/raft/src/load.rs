//! The load: clients in a closed loop, each with a connection of its own to the leader.
//!
//! A client writes a request and waits for the answer before the next one. Keys of 16 bytes are
//! taken at random from [`KEYS`], values have 100 bytes. The HTTP client is as small as can be, for
//! it shares the processors with the nodes. An answer that is not "200 OK" ends the run: a load
//! that failed in part is not a figure.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How many keys there are.
const KEYS: u64 = 10_000;

/// The results of one load.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    /// The latencies in nanoseconds, in order.
    pub latencies: Vec<u64>,
    pub seconds: f64,
    /// The CPU time of the clients.
    pub cpu: Duration,
}

struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    async fn open(address: &str) -> Result<Self, String> {
        let stream = TcpStream::connect(address).await;
        let stream = stream.map_err(|error| format!("{address}: {error}"))?;
        stream.set_nodelay(true).map_err(|error| format!("{address}: {error}"))?;
        Ok(Self { stream, buffer: Vec::with_capacity(1024) })
    }

    /// Sends a request, and returns the body of the answer.
    async fn ask(&mut self, request: &[u8]) -> Result<&[u8], String> {
        self.stream.write_all(request).await.map_err(|error| error.to_string())?;
        self.buffer.clear();
        loop {
            let read = self.stream.read_buf(&mut self.buffer).await;
            if read.map_err(|error| error.to_string())? == 0 {
                return Err("the node closed the connection".to_owned());
            }
            if let Some(body) = body(&self.buffer)? {
                return Ok(&self.buffer[body..]);
            }
        }
    }
}

/// Where the body begins, if the whole answer is there.
fn body(answer: &[u8]) -> Result<Option<usize>, String> {
    let Some(end) = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = String::from_utf8_lossy(&answer[..end]).to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length = length.and_then(|length| length.trim().parse::<usize>().ok());
    let length = length.ok_or_else(|| format!("no length in the answer: {head}"))?;
    if answer.len() < end + 4 + length {
        return Ok(None);
    }
    if !head.starts_with("http/1.1 200") {
        return Err(String::from_utf8_lossy(answer).into_owned());
    }
    Ok(Some(end + 4))
}

/// Sends one request over a connection of its own.
pub async fn request(address: &str, request: &[u8]) -> Result<Vec<u8>, String> {
    let answered = async {
        let mut connection = Connection::open(address).await?;
        Ok(connection.ask(request).await?.to_vec())
    };
    let limited = tokio::time::timeout(Duration::from_secs(5), answered).await;
    limited.map_err(|_| format!("{address}: no answer in 5 s"))?
}

/// Numbers that look random (Steele, Lea and Flood 2014, SplitMix).
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut x = *state;
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn put(address: &str, number: u64) -> Vec<u8> {
    let key = number % KEYS;
    let body = format!(r#"{{"Put":{{"key":"key{key:013}","value":"{number:0100}"}}}}"#);
    let head = format!(
        "POST /kv HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    (head + &body).into_bytes()
}

/// Puts by so many clients for so long.
pub async fn run(address: &str, clients: u64, time: Duration) -> Result<Loaded, String> {
    static SEED: AtomicU64 = AtomicU64::new(0);
    let over = Arc::new(AtomicBool::new(false));
    let mut tasks = Vec::new();
    let mut connections = Vec::new();
    for _ in 0..clients {
        connections.push(Connection::open(address).await?);
    }
    let cpu = own_cpu();
    let begun = Instant::now();
    for mut connection in connections {
        let (over, address) = (over.clone(), address.to_owned());
        let mut seed = SEED.fetch_add(1, Ordering::Relaxed) << 32;
        tasks.push(tokio::spawn(async move {
            let mut latencies = Vec::new();
            while !over.load(Ordering::Relaxed) {
                let request = put(&address, random(&mut seed));
                let begun = Instant::now();
                connection.ask(&request).await?;
                latencies.push(begun.elapsed().as_nanos() as u64);
            }
            Ok::<_, String>(latencies)
        }));
    }
    tokio::time::sleep(time).await;
    over.store(true, Ordering::Relaxed);
    let mut loaded = Loaded::default();
    for task in tasks {
        let latencies = task.await.map_err(|error| format!("a client failed: {error}"))?;
        loaded.latencies.extend(latencies.map_err(|error| format!("a put failed: {error}"))?);
    }
    loaded.seconds = begun.elapsed().as_secs_f64();
    loaded.cpu = own_cpu().saturating_sub(cpu);
    loaded.latencies.sort_unstable();
    Ok(loaded)
}

fn own_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

impl Loaded {
    /// A percentile in milliseconds.
    pub fn percentile(&self, percent: f64) -> f64 {
        let last = self.latencies.len().saturating_sub(1);
        let at = (percent / 100.0 * last as f64).round() as usize;
        self.latencies.get(at).map_or(f64::NAN, |nanos| *nanos as f64 / 1e6)
    }

    /// Puts in a second.
    pub fn rate(&self) -> f64 {
        self.latencies.len() as f64 / self.seconds
    }
}
