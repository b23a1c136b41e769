//! A page for Prometheus: this application serves the statistics of its store under `/metrics`.
//!
//! ```text
//! cargo run --release -p vlsm --example metrics_page -- FOLDER [ADDRESS]
//! curl 127.0.0.1:9184/metrics
//! ```
//!
//! One thread serves the page with the standard library alone: [`vlsm::Stats::prometheus`] returns
//! the text, and a dozen lines of HTTP around it suffice for a scraper. A service with a web
//! framework adds a route instead. Meanwhile the example writes orders, counts them and reads them
//! again, so that the metrics change. It ends at the end of its standard input, or with Ctrl-C.

#![allow(clippy::disallowed_methods)] // An application of its own: threads are the system's.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;
use vlsm::{Batch, Db, KeyspaceOptions, WriteOptions};

const ADDRESS: &str = "127.0.0.1:9184";
/// The longest head of a request.
const HEAD_MAX: usize = 8 << 10;

/// The first line of a request. The rest of its head is read and ignored.
fn request(stream: &mut TcpStream) -> io::Result<String> {
    let mut head = Vec::new();
    let mut part = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") && head.len() < HEAD_MAX {
        match stream.read(&mut part)? {
            0 => break,
            read => head.extend_from_slice(&part[..read]),
        }
    }
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    Ok(String::from_utf8_lossy(line).into_owned())
}

/// Answers one request. A connection serves one request.
fn answer(db: &Db, stream: &mut TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.set_write_timeout(Some(Duration::from_secs(5)))?;
    let line = request(stream)?;
    let (status, body) = match line.split(' ').collect::<Vec<_>>()[..] {
        ["GET", "/metrics", _] => ("200 OK", db.stats().prometheus()),
        ["GET", ..] => ("404 Not Found", "the metrics are at /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", "only GET is served\n".to_owned()),
    };
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

/// Serves the page until the program ends.
fn serve(db: &Db, listener: &TcpListener) {
    for stream in listener.incoming() {
        // A lost client does not stop the server.
        if let Err(error) = stream.and_then(|mut stream| answer(db, &mut stream)) {
            eprintln!("a request failed: {error}");
        }
    }
}

/// The application: orders, a counter of orders for each customer, and reads of older orders.
fn work(db: &Db) -> vlsm::Result<()> {
    let orders = db.create_keyspace("orders", KeyspaceOptions::new())?;
    let counts = db.create_keyspace("counts", KeyspaceOptions::new().merge_operator("add"))?;
    for number in 0_u64.. {
        let customer = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52;
        let mut batch = Batch::new();
        batch.put(&orders, number.to_be_bytes(), [number as u8; 200]);
        batch.merge(&counts, customer.to_be_bytes(), 1_u64.to_le_bytes());
        db.write(&batch, WriteOptions::default())?;
        orders.get((number / 3).to_be_bytes())?;
        if number.is_multiple_of(100) {
            orders
                .range((number / 2).to_be_bytes()..)
                .take(10)
                .try_for_each(|pair| pair.map(|_| ()))?;
            db.transact(|transaction| {
                let first = transaction.get(&orders, 0_u64.to_be_bytes())?.unwrap_or_default();
                transaction.put(&orders, 0_u64.to_be_bytes(), first)
            })?;
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let Some(folder) = arguments.next() else {
        return Err("usage: metrics_page FOLDER [ADDRESS]".into());
    };
    let address = arguments.next().unwrap_or_else(|| ADDRESS.to_owned());
    let db = Db::open(folder)?;
    let listener = TcpListener::bind(&address)?;
    println!("the metrics are at http://{}/metrics", listener.local_addr()?);
    let (server, worker) = (db.clone(), db.clone());
    std::thread::spawn(move || serve(&server, &listener));
    std::thread::spawn(move || {
        if let Err(error) = work(&worker)
            && !matches!(error, vlsm::Error::Closed)
        {
            eprintln!("the work ended: {error}");
        }
    });
    io::copy(&mut io::stdin(), &mut io::sink())?;
    db.close()?;
    Ok(())
}
