use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::net::TcpListener;

use super::*;
use crate::echo::tests::start_server;

fn client(address: std::net::SocketAddr) -> Client {
    Client { address, authority: "echo.default:50051".to_owned() }
}

#[tokio::test]
async fn every_connection_makes_its_calls_in_each_burst() {
    let target = client(start_server("s1", 5).await);
    let reports = tokio::task::spawn_blocking(move || {
        let crowd = Crowd::gather(&target, 150).expect("a server that listens");
        [crowd.burst(3), crowd.burst(1)].map(|report| report.expect("a report"))
    });
    let all_answered = |calls| CrowdReport { calls, ..CrowdReport::default() };
    assert_eq!(reports.await.expect("no panic"), [all_answered(450), all_answered(150)]);
}

#[tokio::test]
async fn connections_stay_open_until_the_crowd_leaves_and_then_end_with_a_goaway() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let target = client(listener.local_addr().expect("a bound listener"));
    let (open, clean) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (opened, closed) = (Arc::clone(&open), Arc::clone(&clean));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (opened, closed) = (Arc::clone(&opened), Arc::clone(&closed));
            tokio::spawn(async move {
                let mut connection = h2::server::handshake(stream).await.expect("HTTP/2");
                let mut pings = connection.ping_pong().expect("nobody else has it");
                // Wait for a pong, which shows that the client has read all data. Otherwise, closing a socket with
                // unread data would reset the connection, even after a GOAWAY.
                tokio::select! {
                    ended = connection.accept() => panic!("it ended at once: {ended:?}"),
                    pong = pings.ping(h2::Ping::opaque()) => pong.map(drop).expect("a pong"),
                }
                opened.fetch_add(1, Ordering::SeqCst);
                let ended_cleanly = connection.accept().await.is_none();
                closed.fetch_add(u32::from(ended_cleanly), Ordering::SeqCst);
            });
        }
    });
    let crowd = tokio::task::spawn_blocking(move || Crowd::gather(&target, 20)).await.expect("no panic");
    let crowd = crowd.expect("a server that listens");
    let counts = || [&open, &clean].map(|count| count.load(Ordering::SeqCst));
    let become_soon = async |expected| {
        let start = Instant::now();
        while counts() != expected && start.elapsed() < Duration::from_secs(20) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(counts(), expected);
    };
    become_soon([20, 0]).await;
    tokio::task::spawn_blocking(|| crowd.leave()).await.expect("no panic");
    become_soon([20, 20]).await;
}

#[test]
fn a_crowd_that_finds_nobody_says_where_it_looked() {
    let nobody = crate::child::free_address().expect("a free port");
    let error = Crowd::gather(&client(nobody), 10).err().expect("nobody listens").to_string();
    assert!(error.contains(&nobody.to_string()), "{error}");
}
