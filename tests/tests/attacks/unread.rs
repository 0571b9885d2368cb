//! Peers that request much data and do not read it, and peers that send much data to servers that do not read.

use std::time::Duration;

use leno_tests::attacker::Attacker;
use leno_tests::manifests::ECHO;
use leno_tests::siege::Plan;
use leno_tests::wire::{self, call_block, flag, kind};

const MILLISECOND: Duration = Duration::from_millis(1);
const INITIAL_WINDOW_SIZE: u16 = 4;
const LARGEST_WINDOW: u32 = 0x7fff_ffff;

/// Requests `streams` answers of 4 MiB each.
fn ask_for_large_answers(attacker: &mut Attacker, streams: usize) -> std::io::Result<()> {
    let block = call_block(ECHO, "Many", &[("reply-bytes", "65536"), ("reply-messages", "64")]);
    for stream in wire::client_streams().take(streams) {
        attacker.send(&wire::headers(stream, flag::END_STREAM, &block))?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_readers_that_never_read_from_their_sockets() {
    let siege = Plan::attackers(10).deaf().lay(|attacker| {
        attacker.greet(&[(INITIAL_WINDOW_SIZE, LARGEST_WINDOW)])?;
        attacker.send(&wire::window_update(0, LARGEST_WINDOW - 65_535))?;
        ask_for_large_answers(attacker, 8)?;
        attacker.linger()
    });
    siege.await.assert_harmless().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_readers_without_a_stream_window() {
    let siege = Plan::attackers(10).lay(|attacker| {
        attacker.greet(&[(INITIAL_WINDOW_SIZE, 0)])?;
        ask_for_large_answers(attacker, 50)?;
        attacker.linger()
    });
    siege.await.assert_harmless().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_readers_without_a_connection_window() {
    let siege = Plan::attackers(10).lay(|attacker| {
        attacker.greet(&[(INITIAL_WINDOW_SIZE, LARGEST_WINDOW)])?;
        ask_for_large_answers(attacker, 50)?;
        attacker.linger()
    });
    siege.await.assert_harmless().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_that_take_one_byte_at_a_time() {
    let siege = Plan::attackers(4).lay(|attacker| {
        attacker.greet(&[(INITIAL_WINDOW_SIZE, 1)])?;
        ask_for_large_answers(attacker, 8)?;
        let one_more: Vec<u8> =
            wire::client_streams().take(8).flat_map(|stream| wire::window_update(stream, 1)).collect();
        loop {
            attacker.send(&one_more)?;
            attacker.pause(MILLISECOND)?;
        }
    });
    siege.await.assert_harmless().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_that_never_read_their_answers() {
    let siege = Plan::attackers(4).deaf().lay(|attacker| {
        attacker.greet(&[(INITIAL_WINDOW_SIZE, LARGEST_WINDOW)])?;
        attacker.send(&wire::window_update(0, LARGEST_WINDOW - 65_535))?;
        let block = call_block(ECHO, "Echo", &[("reply-bytes", "16384")]);
        let streams: Vec<u32> = wire::client_streams().take(5_000).collect();
        for batch in streams.chunks(10) {
            let calls: Vec<u8> =
                batch.iter().flat_map(|stream| wire::headers(*stream, flag::END_STREAM, &block)).collect();
            attacker.send(&calls)?;
            attacker.pause(20 * MILLISECOND)?;
        }
        attacker.linger()
    });
    siege.await.assert_harmless().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uploads_to_a_server_that_does_not_read() {
    // The server's connection window and its stream windows have 65,535 bytes each. If one upload filled the connection
    // window, all other calls on the connection would stop.
    let siege = Plan::attackers(4).lay(|attacker| {
        attacker.greet(&[])?;
        let block = call_block(ECHO, "Hang", &[]);
        for stream in wire::client_streams().take(4) {
            attacker.send(&wire::headers(stream, flag::NONE, &block))?;
        }
        let part = [0; 1_024];
        // In total, send almost as much as the proxy's initial connection window allows.
        for _ in 0..15 {
            for stream in wire::client_streams().take(4) {
                attacker.send(&wire::frame(kind::DATA, flag::NONE, stream, &part))?;
            }
            attacker.pause(MILLISECOND)?;
        }
        attacker.linger()
    });
    siege.await.assert_harmless().await;
}
