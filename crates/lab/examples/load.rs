//! Runs the lab's load by hand, against an echo server or a proxy in front of one:
//!
//! ```text
//! leno echo --bare --name s1 &
//! cargo run --release -p leno-lab --example load -- 127.0.0.1:50061 --servers s1 --in-flight 200
//! cargo run --release -p leno-lab --example load -- 127.0.0.1:50061 --servers s1 --rate 10000
//! ```
#![allow(clippy::unwrap_used, missing_docs)]

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use clap::Parser;
use leno_lab::load::{Client, Crowd, Exchange, Load, Pattern, Plan, Traffic};
use leno_lab::procfs;

#[derive(Parser)]
struct Options {
    /// Address to connect to
    address: SocketAddr,
    /// Authority of the calls [default: the address]
    #[arg(long)]
    authority: Option<String>,
    /// Names that the servers put into their answers
    #[arg(long, value_delimiter = ',', default_value = "s1")]
    servers: Vec<String>,
    /// Client connections
    #[arg(long, default_value_t = 1)]
    connections: u32,
    /// Calls in flight: the exact number in a closed loop, the maximum in an open loop
    #[arg(long, default_value_t = 200)]
    in_flight: u32,
    /// Calls per second of an open loop; default: a closed loop
    #[arg(long)]
    rate: Option<u32>,
    /// Measured seconds, after one second of warm-up
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Instead of a load: number of calls in one burst on each connection
    #[arg(long)]
    burst: Option<u32>,
    /// A CPU that the load may use; may be repeated; default: all CPUs
    #[arg(long)]
    cpu: Vec<usize>,
}

fn main() {
    let options = Options::parse();
    let authority = options.authority.unwrap_or_else(|| options.address.to_string());
    let client = Client { address: options.address, authority };
    if let Some(calls_each) = options.burst {
        return make_burst(&client, options.connections, calls_each);
    }
    let pattern = match options.rate {
        Some(rate_per_s) => Pattern::Open { rate_per_s, max_in_flight: options.in_flight },
        None => Pattern::Closed { in_flight: options.in_flight },
    };
    let load = Load::start(Plan {
        clients: vec![client; options.connections as usize],
        servers: options.servers,
        exchange: Exchange::Grpc,
        traffic: Traffic::default(),
        pattern,
        warm_up: Duration::from_secs(1),
        measured: Duration::from_secs(options.seconds),
        cpus: options.cpu,
        seed: 0,
    });
    let snapshot = load.finish().unwrap();
    let cpu = procfs::cpu_time(std::process::id()).unwrap();
    // `cpu` includes the warm-up, which lasts one second.
    let per_second = cpu.as_secs_f64() / (options.seconds + 1) as f64;
    let rate = snapshot.calls_per_second();
    println!("{rate:.0} calls/s, {:.2} us of CPU per call, {:.2} CPUs", per_second / rate * 1e6, per_second);
    println!("answers: {:?}", snapshot.total);
    println!("late:    {:?}, {} over 1 ms, held up {:?}", snapshot.lateness, snapshot.late, snapshot.held_up);
    println!("failed:  {} {:?}", snapshot.failed, snapshot.first_failure);
}

fn make_burst(client: &Client, connections: u32, calls_each: u32) {
    let resident_mib = || procfs::memory(std::process::id()).unwrap().resident_kib / 1024;
    let start = Instant::now();
    let crowd = Crowd::gather(client, connections).unwrap();
    println!("gathered after {:?}, {} MiB", start.elapsed(), resident_mib());
    println!("{:?}", crowd.burst(calls_each).unwrap());
    println!("burst until {:?}, {} MiB", start.elapsed(), resident_mib());
    crowd.leave();
    println!("gone after {:?}, {} MiB", start.elapsed(), resident_mib());
}
