//! Peers that send nothing, that send very slowly, or that begin a header block or a body and never complete it.

use std::io;
use std::time::Duration;

use leno_tests::attacker::Attacker;
use leno_tests::manifests::ECHO;
use leno_tests::siege::Plan;
use leno_tests::wire::{self, PREFACE, call_block, flag, kind};

const MILLISECOND: Duration = Duration::from_millis(1);

/// Sends one byte every 10 ms.
fn send_slowly(attacker: &mut Attacker, bytes: &[u8]) -> io::Result<()> {
    for byte in bytes {
        attacker.send(&[*byte])?;
        attacker.pause(10 * MILLISECOND)?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_say_nothing() {
    let siege = Plan::attackers(100).limit("detect_timeout_ms=1000").lay(|attacker| attacker.linger()).await;
    siege.assert_harmless().await;
    siege.assert_counted("detect_timeout");
    siege.assert_hung_up_on();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prefaces_that_arrive_byte_by_byte() {
    let siege = Plan::attackers(50).limit("handshake_timeout_ms=200").lay(|attacker| {
        send_slowly(attacker, PREFACE)?;
        attacker.linger()
    });
    let siege = siege.await;
    siege.assert_harmless().await;
    siege.assert_counted("handshake_timeout");
    siege.assert_hung_up_on();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn header_blocks_that_arrive_byte_by_byte() {
    let siege = Plan::attackers(50).limit("frame_timeout_ms=1000").lay(|attacker| {
        attacker.greet(&[])?;
        let block = [call_block(ECHO, "Echo", &[]), wire::literal("x-filler", &"x".repeat(4_000))].concat();
        send_slowly(attacker, &wire::headers(1, flag::END_STREAM, &block))
    });
    let siege = siege.await;
    siege.assert_harmless().await;
    siege.assert_counted("slow_frame");
    siege.assert_hung_up_on();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn header_blocks_without_an_end() {
    let siege = Plan::attackers(50).limit("frame_timeout_ms=1000").lay(|attacker| {
        attacker.greet(&[])?;
        attacker.send(&wire::frame(kind::HEADERS, flag::END_STREAM, 1, &call_block(ECHO, "Echo", &[])))?;
        attacker.linger()
    });
    let siege = siege.await;
    siege.assert_harmless().await;
    siege.assert_counted("slow_frame");
    siege.assert_hung_up_on();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_never_call() {
    let siege = Plan::attackers(100).limit("client_idle_timeout_ms=500").lay(|attacker| {
        attacker.greet(&[])?;
        attacker.linger()
    });
    let siege = siege.await;
    siege.assert_harmless().await;
    siege.assert_hung_up_on();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_that_never_come() {
    let siege = Plan::attackers(4).lay(|attacker| {
        attacker.greet(&[])?;
        let block = call_block(ECHO, "Echo", &[]);
        for stream in wire::client_streams().take(100) {
            attacker.send(&wire::headers(stream, flag::NONE, &block))?;
        }
        attacker.linger()
    });
    siege.await.assert_harmless().await;
}
