//! Large numbers of frames that cost the sender almost nothing: the HTTP/2 attacks that were published in 2019, and
//! similar attacks.

use std::time::Duration;

use leno_tests::manifests::ECHO;
use leno_tests::siege::{Plan, Siege};
use leno_tests::wire::{self, call_block, code, flag, kind};

/// Number of frames in one write. With [`PAUSE`], a connection sends about 200,000 frames a second.
const BURST: usize = 200;
/// Pause after each write.
const PAUSE: Duration = Duration::from_millis(1);

/// Opens a stream that the server keeps open, and sends `frame` repeatedly.
async fn flood(frame: Vec<u8>) -> Siege {
    let burst = frame.repeat(BURST);
    let siege = Plan::attackers(2).lay(move |attacker| {
        attacker.greet(&[])?;
        attacker.send(&wire::headers(1, flag::NONE, &call_block(ECHO, "Bidi", &[])))?;
        loop {
            attacker.send(&burst)?;
            attacker.pause(PAUSE)?;
        }
    });
    siege.await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ping_flood() {
    let siege = flood(wire::frame(kind::PING, flag::NONE, 0, b"flooding")).await;
    siege.assert_harmless().await;
    siege.assert_closed("ping", &[code::ENHANCE_YOUR_CALM]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_settings_flood() {
    const INITIAL_WINDOW_SIZE: u16 = 4;
    let siege = flood(wire::settings(&[(INITIAL_WINDOW_SIZE, 70_000)])).await;
    siege.assert_harmless().await;
    siege.assert_closed("settings", &[code::ENHANCE_YOUR_CALM]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_goaway_flood() {
    let siege = flood(wire::goaway(0, code::CANCEL)).await;
    siege.assert_harmless().await;
    siege.assert_closed("goaway", &[code::ENHANCE_YOUR_CALM]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_acknowledgements_of_settings() {
    let siege = flood(wire::frame(kind::SETTINGS, flag::ACK, 0, &[])).await;
    siege.assert_harmless().await;
    siege.assert_closed("settings", &[code::ENHANCE_YOUR_CALM]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_answers_to_pings_that_were_not_sent() {
    let siege = flood(wire::frame(kind::PING, flag::ACK, 0, b"flooding")).await;
    siege.assert_harmless().await;
    siege.assert_closed("ping", &[code::ENHANCE_YOUR_CALM]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_resets_of_a_stream_that_has_ended() {
    let siege = flood(wire::reset(1, code::CANCEL)).await;
    siege.assert_harmless().await;
    siege.assert_closed("empty_frames", &[code::ENHANCE_YOUR_CALM]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_empty_data_frames() {
    let siege = flood(wire::frame(kind::DATA, flag::NONE, 1, &[])).await;
    siege.assert_harmless().await;
    siege.assert_closed("empty_frames", &[code::ENHANCE_YOUR_CALM]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_data_frames_of_one_byte() {
    let siege = flood(wire::frame(kind::DATA, flag::NONE, 1, b"x")).await;
    siege.assert_harmless().await;
    siege.assert_closed("data_dribble", &[code::ENHANCE_YOUR_CALM, code::FLOW_CONTROL_ERROR]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_priority_flood() {
    let siege = flood(wire::frame(kind::PRIORITY, flag::NONE, 3, &[0, 0, 0, 1, 7])).await;
    siege.assert_harmless().await;
    siege.assert_closed("priority", &[code::ENHANCE_YOUR_CALM]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_window_update_flood() {
    let siege = flood(wire::window_update(1, 1)).await;
    siege.assert_harmless().await;
    siege.assert_closed("window_update", &[code::ENHANCE_YOUR_CALM]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_frames_of_an_unknown_type() {
    const UNKNOWN: u8 = 0xbe;
    let siege = flood(wire::frame(UNKNOWN, flag::NONE, 0, &[])).await;
    siege.assert_harmless().await;
    siege.assert_closed("empty_frames", &[code::ENHANCE_YOUR_CALM]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_resets_of_a_stream_that_was_never_opened() {
    let siege = flood(wire::reset(99, code::CANCEL)).await;
    siege.assert_harmless().await;
    // The first RST_STREAM for an idle stream is a connection error (RFC 9113 section 6.4). So the proxy closes the
    // connection before it counts a flood.
    siege.assert_told(&[code::PROTOCOL_ERROR]);
}
