//! Attacks that send content in frames of a few bytes. Each frame costs a server more work than the content in the
//! frame.

use std::time::Duration;

use leno_tests::manifests::ECHO;
use leno_tests::siege::Plan;
use leno_tests::wire::{self, call_block, flag, kind};

const MILLISECOND: Duration = Duration::from_millis(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn content_of_one_byte_a_frame_round_robin_over_a_hundred_calls() {
    let siege = Plan::attackers(4).lay(|attacker| {
        attacker.greet(&[])?;
        let block = call_block(ECHO, "Echo", &[]);
        let streams: Vec<u32> = wire::client_streams().take(100).collect();
        let open: Vec<u8> = streams.iter().flat_map(|stream| wire::headers(*stream, flag::NONE, &block)).collect();
        attacker.send(&open)?;
        let round: Vec<u8> =
            streams.iter().flat_map(|stream| wire::frame(kind::DATA, flag::NONE, *stream, b"\0")).collect();
        loop {
            attacker.send(&round)?;
            attacker.pause(MILLISECOND)?;
        }
    });
    siege.await.assert_harmless().await;
}
