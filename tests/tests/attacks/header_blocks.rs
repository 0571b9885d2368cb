//! Header blocks that never end, expand enormously, or are empty.

use std::time::{Duration, Instant};

use leno_tests::attacker::{Attacker, Heard};
use leno_tests::backend::Backend;
use leno_tests::client::{Call, Client};
use leno_tests::manifests::{ECHO, Service};
use leno_tests::proxy::Proxy;
use leno_tests::siege::{Plan, Siege};
use leno_tests::wire::{self, call_block, code, flag, kind};

const MILLISECOND: Duration = Duration::from_millis(1);

/// Begins a request, and sends CONTINUATION frames with this content. The header block never ends.
async fn continuation_flood(content: Vec<u8>) -> Siege {
    let burst = wire::frame(kind::CONTINUATION, flag::NONE, 1, &content).repeat(20);
    let siege = Plan::attackers(2).lay(move |attacker| {
        attacker.greet(&[])?;
        attacker.send(&wire::frame(kind::HEADERS, flag::NONE, 1, &call_block(ECHO, "Echo", &[])))?;
        loop {
            attacker.send(&burst)?;
            attacker.pause(MILLISECOND)?;
        }
    });
    siege.await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_continuation_flood_of_large_frames() {
    let siege = continuation_flood(wire::literal("x-filler", &"x".repeat(16_000))).await;
    siege.assert_harmless().await;
    siege.assert_closed("continuation", &[code::ENHANCE_YOUR_CALM]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_continuation_flood_of_small_frames() {
    let siege = continuation_flood(wire::literal("x", "y")).await;
    siege.assert_harmless().await;
    siege.assert_closed("continuation", &[code::ENHANCE_YOUR_CALM]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_continuation_flood_of_empty_frames() {
    let siege = continuation_flood(Vec::new()).await;
    siege.assert_harmless().await;
    siege.assert_told(&[code::ENHANCE_YOUR_CALM]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_hpack_bomb() {
    let siege = Plan::attackers(2).lay(|attacker| {
        attacker.greet(&[])?;
        // The first request adds a field of 4,000 bytes to the HPACK table. In later requests (the bomb), every byte
        // refers to this field.
        let insert = wire::indexed_literal("x", &"x".repeat(4_000));
        let fuse = [call_block(ECHO, "Echo", &[]), insert].concat();
        attacker.send(&wire::headers(1, flag::END_STREAM, &fuse))?;
        const FIRST_OF_THE_TABLE: u8 = 0x80 | 62;
        let bomb = [call_block(ECHO, "Echo", &[]), vec![FIRST_OF_THE_TABLE; 16_000]].concat();
        for stream in wire::client_streams().skip(1) {
            attacker.send(&wire::headers(stream, flag::END_STREAM, &bomb))?;
            attacker.pause(MILLISECOND)?;
        }
        Ok(())
    });
    let siege = siege.await;
    siege.assert_harmless().await;
    siege.assert_closed("header_list", &[code::ENHANCE_YOUR_CALM]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn header_lists_over_the_limit_again_and_again() {
    let siege = Plan::attackers(2).lay(|attacker| {
        attacker.greet(&[])?;
        let block = oversize_block();
        for stream in wire::client_streams() {
            attacker.send(&block_in_two_frames(stream, &block))?;
            attacker.pause(MILLISECOND)?;
        }
        Ok(())
    });
    let siege = siege.await;
    siege.assert_harmless().await;
    siege.assert_closed("header_list", &[code::ENHANCE_YOUR_CALM]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn header_fields_without_a_name() {
    let siege = Plan::attackers(2).lay(|attacker| {
        attacker.greet(&[])?;
        let nothing = wire::literal("", "").repeat(1_000);
        let block = [call_block(ECHO, "Echo", &[]), nothing].concat();
        for stream in wire::client_streams() {
            attacker.send(&wire::headers(stream, flag::END_STREAM, &block))?;
            attacker.pause(MILLISECOND)?;
        }
        Ok(())
    });
    let siege = siege.await;
    siege.assert_harmless().await;
    siege.assert_told(&[code::ENHANCE_YOUR_CALM]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_thrashed_by_every_request() {
    // A client may empty and refill the HPACK table in every request. Such a table saves the client no bytes, but it
    // does not harm the proxy, so the proxy may keep the connection open.
    let siege = Plan::attackers(2).lay(|attacker| {
        attacker.greet(&[])?;
        for stream in wire::client_streams() {
            // Two table size updates (RFC 7541 section 6.3), to 0 and back to 4,096, empty the table.
            let empty_table = [0x20, 0x3f, 0xe1, 0x1f];
            let filler = wire::indexed_literal(&format!("x-{stream}"), &"x".repeat(3_900));
            let block = [&empty_table[..], &call_block(ECHO, "Echo", &[]), &filler].concat();
            attacker.send(&wire::headers(stream, flag::END_STREAM, &block))?;
            attacker.pause(2 * MILLISECOND)?;
        }
        Ok(())
    });
    siege.await.assert_harmless().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_header_list_over_the_limit_costs_one_call_and_not_the_connection() {
    let backend = Backend::start().await;
    let proxy = Proxy::start(&[Service::echo(&[backend.address()])]);
    let mut peer = Attacker::connect(proxy.outbound(), Instant::now() + Duration::from_secs(20)).expect("a connection");
    peer.greet(&[]).expect("the proxy listens");
    peer.send(&block_in_two_frames(1, &oversize_block())).expect("the proxy listens");
    peer.send(&wire::headers(3, flag::END_STREAM, &call_block(ECHO, "Echo", &[]))).expect("the proxy listens");

    // Wait for headers and trailers of the valid call, and for a 431 or a RST_STREAM of the other call.
    let is_reset = |heard: &Heard| heard.resets.iter().any(|(stream, _)| *stream == 1);
    while peer.heard().headers + u64::from(is_reset(&peer.heard())) < 3 {
        peer.pause(MILLISECOND).expect("both calls end in time");
    }
    let heard = peer.heard();
    assert!(heard.goaways.is_empty() && !heard.closed, "{heard:?}");
    assert_eq!(backend.calls(), 1, "what is over the limit is not passed on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_proxy_takes_the_server_takes_too() {
    let backend = Backend::start().await;
    let proxy = Proxy::start(&[Service::echo(&[backend.address()])]);
    let client = Client::connect(proxy.outbound(), ECHO).await;
    // Try header lists with sizes from well below to well above 16 KiB, the maximum that strict servers accept.
    for size in (13_000..19_000).step_by(100) {
        let call = Call::new("Echo").with("x-filler", &"x".repeat(size));
        // A call with too large a list may fail in any way. But the proxy must reject the call: the server must not
        // receive it.
        client.try_call(&call, b"hello").await.ok();
    }
    assert!(backend.seen().punishments().is_empty(), "{:?}", backend.seen().punishments());
    assert_eq!(backend.seen().connections.load(std::sync::atomic::Ordering::Relaxed), 1);
}

/// A header block of about 20,000 bytes, more than the 16 KiB that the proxy announces.
fn oversize_block() -> Vec<u8> {
    let filler = "x".repeat(4_000);
    call_block(
        ECHO,
        "Echo",
        &[("x-1", &filler), ("x-2", &filler), ("x-3", &filler), ("x-4", &filler), ("x-5", &filler)],
    )
}

fn block_in_two_frames(stream: u32, block: &[u8]) -> Vec<u8> {
    let (first, second) = block.split_at(16_000);
    [
        wire::frame(kind::HEADERS, flag::END_STREAM, stream, first),
        wire::frame(kind::CONTINUATION, flag::END_HEADERS, stream, second),
    ]
    .concat()
}
