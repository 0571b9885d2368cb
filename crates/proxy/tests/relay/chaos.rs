//! Clients and servers with random behaviour, from a seed. Afterwards the proxy must hold no state of their calls.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use leno_http2::frame::kind;

use crate::peer::{Peer, Server, answer, call_with, data, goaway, headers, open_call, rst_stream};
use crate::proxy::{Proxy, eventually, mesh};

const CLIENTS: usize = 150;
/// Deadlines of calls, as values of `grpc-timeout`. All are shorter than the time that a test waits for an event.
const DEADLINES: [&str; 4] = ["1n", "1m", "20m", "2S"];

/// A server's random reaction to a request.
fn reaction(random: &mut Rng, stream: u32) -> Vec<u8> {
    let begun = || headers(stream, &[(":status", "200"), ("content-type", "application/grpc")], false);
    match random.u8(..12) {
        0 => rst_stream(stream, *random.choice(&[0, 2, 7, 8, 11]).expect("a choice")),
        1 => headers(stream, &[(":status", "103")], false).repeat(random.usize(1..50)),
        2 => Vec::new(),
        3 => [begun(), data(stream, &[0; 9_000], false)].concat(),
        4 => [begun(), data(stream, &[0; 9_000], false), rst_stream(stream, 2)].concat(),
        5 => headers(stream, &[("status", "missing")], true),
        6 => [answer(stream, "me"), rst_stream(stream, 0)].concat(),
        7 => [begun(), data(stream, &[0; 20], true)].concat(),
        8 => goaway(stream.saturating_sub(2), 0),
        _ => answer(stream, "me"),
    }
}

/// Answers requests at random until the proxy or the server closes the connection.
fn serve(mut endpoint: Peer, mut random: Rng) {
    while let Some(frame) = endpoint.frame() {
        if frame.kind != kind::HEADERS || !frame.fields.iter().any(|(name, _)| name == ":path") {
            continue;
        }
        // The proxy may have closed the connection; the server may close it too.
        if endpoint.socket.write_all(&reaction(&mut random, frame.stream)).is_err() || random.u8(..) == 0 {
            return;
        }
    }
}

/// Returns some random frames of a client. `open` lists the streams that the client has not ended.
fn frames(random: &mut Rng, next_stream: &mut u32, open: &mut Vec<u32>) -> Vec<u8> {
    if open.is_empty() || random.bool() {
        let stream = *next_stream;
        *next_stream += 2;
        if random.bool() {
            return call_with(stream, "grpc-timeout", random.choice(&DEADLINES).expect("a choice"));
        }
        open.push(stream);
        return open_call(stream);
    }
    let stream = open[random.usize(..open.len())];
    let ends = random.u8(..3) > 0;
    if ends {
        open.retain(|other| *other != stream);
    }
    match random.u8(..3) {
        _ if !ends => data(stream, &vec![0; random.usize(5..3_000)], false),
        0 => data(stream, &[0; 100], true),
        1 => headers(stream, &[("trailer", "1")], true),
        _ => rst_stream(stream, 8),
    }
}

/// Connects, sends random frames, and closes.
fn visit(proxy: &Proxy, random: &mut Rng) {
    let mut client = proxy.connect();
    let (mut next_stream, mut open) = (1, Vec::new());
    for _ in 0..random.usize(1..60) {
        let bytes = frames(random, &mut next_stream, &mut open);
        if client.socket.write_all(&bytes).is_err() {
            return;
        }
        if random.u8(..8) == 0 {
            std::thread::sleep(Duration::from_millis(random.u64(..8)));
        }
    }
}

#[test]
fn nothing_is_left_of_calls_whose_clients_and_servers_do_odd_things() {
    let mut random = Rng::with_seed(leno_testing::seed());
    let servers: Vec<Server> = (0..3).map(|_| Server::start()).collect();
    let addresses: Vec<_> = servers.iter().map(Server::address).collect();
    let proxy = Proxy::start(&addresses);
    let over = Arc::new(AtomicBool::new(false));
    for server in servers {
        let (over, mut random) = (over.clone(), random.fork());
        std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                if let Some(mut endpoint) = server.accept_now() {
                    endpoint.send(&crate::peer::settings(&[]));
                    let random = random.fork();
                    std::thread::spawn(move || serve(endpoint, random));
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
    }
    for _ in 0..CLIENTS {
        visit(&proxy, &mut random);
        let some = random.usize(1..=addresses.len());
        proxy.set_mesh(mesh("echo", addresses.get(..some).unwrap_or_default(), ""));
    }
    eventually("no call is left, and none counts as in flight", || {
        let left = proxy.explain();
        left.calls == 0
            && left.endpoints.iter().all(|endpoint| endpoint.balancer.in_flight + endpoint.waiting as u32 == 0)
    });
    over.store(true, Ordering::Relaxed);
}
