//! Attacks by stream resets: a client opens streams and resets them, or makes the proxy reset them.

use std::time::Duration;

use leno_tests::attacker::Attacker;
use leno_tests::backend::{Backend, Settings};
use leno_tests::client::{Call, Client};
use leno_tests::manifests::{ECHO, Service};
use leno_tests::proxy::{Proxy, wait_for};
use leno_tests::siege::{Plan, Siege};
use leno_tests::wire::{self, call_block, code, flag, kind};

const MILLISECOND: Duration = Duration::from_millis(1);
const SOON: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rapid_resets_in_the_same_write() {
    let siege = Plan::attackers(2).lay(|attacker| {
        attacker.greet(&[])?;
        let block = call_block(ECHO, "Echo", &[]);
        for stream in wire::client_streams() {
            let open = wire::headers(stream, flag::NONE, &block);
            attacker.send(&[open, wire::reset(stream, code::CANCEL)].concat())?;
            if stream % 64 == 1 {
                attacker.pause(MILLISECOND)?;
            }
        }
        Ok(())
    });
    let siege = siege.await;
    siege.assert_harmless().await;
    siege.assert_closed("rapid_reset", &[code::ENHANCE_YOUR_CALM]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rapid_resets_a_millisecond_later() {
    let siege = Plan::attackers(2).lay(|attacker| {
        attacker.greet(&[])?;
        let block = call_block(ECHO, "Hang", &[]);
        let streams: Vec<u32> = wire::client_streams().take(20_000).collect();
        for batch in streams.chunks(32) {
            let open: Vec<u8> =
                batch.iter().flat_map(|stream| wire::headers(*stream, flag::END_STREAM, &block)).collect();
            attacker.send(&open)?;
            attacker.pause(MILLISECOND)?;
            let reset: Vec<u8> = batch.iter().flat_map(|stream| wire::reset(*stream, code::CANCEL)).collect();
            attacker.send(&reset)?;
        }
        Ok(())
    });
    let siege = siege.await;
    siege.assert_harmless().await;
    siege.assert_closed("rapid_reset", &[code::ENHANCE_YOUR_CALM]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resets_after_the_answer_has_begun() {
    // Each reset looks like an ordinary cancellation, and only the number of resets is unusual. So the test does not
    // require that the proxy closes the connection.
    let siege = Plan::attackers(2).lay(|attacker| {
        attacker.greet(&[])?;
        let block = call_block(ECHO, "Bidi", &[]);
        for (earlier, stream) in wire::client_streams().enumerate() {
            attacker.send(&wire::headers(stream, flag::NONE, &block))?;
            while attacker.heard().headers <= earlier as u64 {
                attacker.pause(MILLISECOND)?;
            }
            attacker.send(&wire::reset(stream, code::CANCEL))?;
        }
        Ok(())
    });
    siege.await.assert_harmless().await;
}

/// Opens one half-closed stream after the other. On each stream, sends the frame of `provocation`, which makes the
/// proxy reset the stream.
async fn made_you_reset(provocation: fn(stream: u32) -> Vec<u8>) -> Siege {
    let script = move |attacker: &mut Attacker| {
        attacker.greet(&[])?;
        let block = call_block(ECHO, "Hang", &[]);
        for stream in wire::client_streams() {
            attacker.send(&[wire::headers(stream, flag::END_STREAM, &block), provocation(stream)].concat())?;
            if stream % 64 == 1 {
                attacker.pause(MILLISECOND)?;
            }
        }
        Ok(())
    };
    Plan::attackers(2).lay(script).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn made_you_reset_by_an_empty_window_update() {
    let siege = made_you_reset(|stream| wire::window_update(stream, 0)).await;
    siege.assert_harmless().await;
    siege.assert_closed("made_you_reset", &[code::ENHANCE_YOUR_CALM]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn made_you_reset_by_a_window_overflow() {
    let siege = made_you_reset(|stream| wire::window_update(stream, 0x7fff_ffff)).await;
    siege.assert_harmless().await;
    siege.assert_closed("made_you_reset", &[code::ENHANCE_YOUR_CALM]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn made_you_reset_by_data_on_a_half_closed_stream() {
    let siege = made_you_reset(|stream| wire::frame(kind::DATA, flag::NONE, stream, b"more")).await;
    siege.assert_harmless().await;
    siege.assert_closed("made_you_reset", &[code::ENHANCE_YOUR_CALM]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn made_you_reset_by_a_priority_of_a_wrong_size() {
    let siege = made_you_reset(|stream| wire::frame(kind::PRIORITY, flag::NONE, stream, &[0; 4])).await;
    siege.assert_harmless().await;
    siege.assert_closed("made_you_reset", &[code::ENHANCE_YOUR_CALM]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn made_you_reset_by_a_body_longer_than_it_says() {
    let siege = Plan::attackers(2).lay(|attacker| {
        attacker.greet(&[])?;
        let block = call_block(ECHO, "Echo", &[("content-length", "1")]);
        for stream in wire::client_streams() {
            let body = wire::frame(kind::DATA, flag::END_STREAM, stream, b"two");
            attacker.send(&[wire::headers(stream, flag::NONE, &block), body].concat())?;
            if stream % 64 == 1 {
                attacker.pause(MILLISECOND)?;
            }
        }
        Ok(())
    });
    let siege = siege.await;
    siege.assert_harmless().await;
    siege.assert_closed("made_you_reset", &[code::ENHANCE_YOUR_CALM]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled_calls_do_not_provoke_a_server_that_is_slow_to_accept() {
    // A busy server has a queue of calls that it has not accepted yet. The `h2` crate regards more than twenty resets
    // of queued calls as an attack.
    let accept_pause = Duration::from_millis(50);
    let backend = Backend::start_with(Settings { accept_pause, ..Settings::default() }).await;
    let proxy = Proxy::start(&[Service::echo(&[backend.address()])]);
    let clients = [Client::connect(proxy.outbound(), ECHO).await, Client::connect(proxy.outbound(), ECHO).await];
    let mut calls = Vec::new();
    for client in clients.iter().cycle().take(60) {
        calls.push(client.open(&Call::new("Hang")).await.expect("the call begins"));
    }
    // The server accepts slowly: when it has accepted two calls, the other calls are in its queue.
    wait_for("the server accepts calls", SOON, || (backend.calls() >= 2).then_some(()));
    drop(calls);
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert!(backend.seen().punishments().is_empty(), "{:?}", backend.seen().punishments());
    let answer = clients[0].call(&Call::new("Echo"), b"hello").await;
    assert_eq!(answer.grpc_status(), Some(0), "{answer:?}");
}
