//! Random traffic between the engine and the h2 crate, in both roles: the received messages must equal the sent
//! messages.
//!
//! Each seed determines settings for both sides, a size for the pipe between them, and calls, some of which are
//! aborted. Complete calls must arrive byte for byte; the received part of an aborted call must be a prefix of the sent
//! message.

mod driver;
mod our_client;
mod our_server;
mod their_client;
mod their_server;
mod traffic;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use leno_http2::Limits;

use traffic::{Call, Ending, Message};

/// Messages that one side received, by the number of their call.
type Received = Arc<Mutex<HashMap<usize, Message>>>;

const SEEDS: std::ops::Range<u64> = 0..16;

#[test]
fn our_client_and_their_server_understand_each_other() {
    each_seed(|seed| async move {
        let mut rng = fastrand::Rng::with_seed(seed);
        let calls = traffic::calls(&mut rng, Limits::client().max_header_list_bytes as usize);
        let (ours, theirs) = tokio::io::duplex(rng.usize(1..70_000));
        let requests = Received::default();
        let server = their_server::serve(theirs, rng.fork(), Arc::clone(&calls), Arc::clone(&requests));
        let server = tokio::spawn(server);
        let responses = our_client::call_all(ours, rng.fork(), Arc::clone(&calls)).await;
        server.await.expect("their server is content");
        compare(&calls, &requests.lock().expect("nobody panicked"), &responses);
    });
}

#[test]
fn their_client_and_our_server_understand_each_other() {
    each_seed(|seed| async move {
        let mut rng = fastrand::Rng::with_seed(seed);
        let calls = traffic::calls(&mut rng, 12_000);
        let (ours, theirs) = tokio::io::duplex(rng.usize(1..70_000));
        let responses = Received::default();
        let server = tokio::spawn(our_server::serve(ours, rng.fork(), Arc::clone(&calls)));
        their_client::call_all(theirs, rng.fork(), Arc::clone(&calls), Arc::clone(&responses)).await;
        let requests = server.await.expect("our server is content");
        compare(&calls, &requests, &responses.lock().expect("nobody panicked"));
    });
}

fn each_seed<F: Future<Output = ()>>(run: impl Fn(u64) -> F) {
    for seed in leno_testing::seeds(SEEDS) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let limit = std::time::Duration::from_secs(60);
        let run = async { tokio::time::timeout(limit, run(seed)).await.expect("the traffic does not stall") };
        runtime.block_on(run);
    }
}

fn compare(calls: &[Call], requests: &HashMap<usize, Message>, responses: &HashMap<usize, Message>) {
    for (i, call) in calls.iter().enumerate() {
        match call.ending {
            Ending::Whole => {
                assert_eq!(requests.get(&i), Some(&call.request), "the request of call {i}");
                assert_eq!(responses.get(&i), Some(&call.response), "the response of call {i}");
            }
            Ending::ClientCancels { .. } | Ending::ServerResets { .. } => {
                for (sent, received) in [(&call.request, requests.get(&i)), (&call.response, responses.get(&i))] {
                    assert!(received.is_none_or(|received| received.begins(sent)), "call {i}: {received:?}");
                }
            }
        }
    }
}
