use std::io::{ErrorKind, Read};
use std::net::TcpStream;

use leno_relay::Door;
use tokio::time::timeout;

use super::*;

fn exited(code: i32) -> ExitStatus {
    ExitStatus::from_raw(code << 8)
}

fn killed(signal: i32) -> ExitStatus {
    ExitStatus::from_raw(signal)
}

#[test]
fn a_proxy_that_is_killed_or_fails_at_work_is_started_again() {
    let mut pace = Pace::default();
    let now = Instant::now();
    for status in [killed(9), exited(1), exited(101)] {
        assert_eq!(pace.after(status, true, now), Next::Start);
    }
    assert_eq!(pace.restarts, 3);
}

#[test]
fn a_proxy_that_ends_in_order_or_cannot_start_ends_its_supervisor_with_the_same_code() {
    for (status, has_served, code) in
        [(exited(0), true, 0), (exited(2), true, 2), (exited(1), false, 1), (killed(15), false, 143)]
    {
        let mut pace = Pace::default();
        assert_eq!(pace.after(status, has_served, Instant::now()), Next::End(code));
        assert_eq!(pace.restarts, 0);
    }
}

#[test]
fn a_proxy_that_ends_while_it_waits_for_its_identity_is_started_again_if_one_has_served() {
    let mut pace = Pace::default();
    for has_served in [true, false] {
        assert_eq!(pace.after(killed(9), has_served, Instant::now()), Next::Start);
    }
}

#[test]
fn a_proxy_that_ends_again_and_again_is_given_up_but_not_one_that_ends_now_and_then() {
    let mut pace = Pace::default();
    let mut now = Instant::now();
    for _ in 0..3 * RESTARTS_MAX {
        assert_eq!(pace.after(killed(11), true, now), Next::Start);
        now += RESTARTS_WITHIN / RESTARTS_MAX as u32;
    }
    let mut pace = Pace::default();
    for _ in 0..RESTARTS_MAX {
        assert_eq!(pace.after(killed(11), true, now), Next::Start);
        now += Duration::from_secs(1);
    }
    assert_eq!(pace.after(killed(11), true, now), Next::GiveUp);
    assert!(pace.latest.len() <= RESTARTS_MAX);
}

#[tokio::test]
async fn connections_are_refused_while_a_proxy_waits_long_and_are_taken_again_afterwards() {
    let wanted = [(Door::Inbound, "127.0.0.1:0".parse().expect("an address"))];
    let sockets = bind_workers(&wanted, 2).expect("ports are free");
    let (connects, address) = (|address| TcpStream::connect(address).is_ok(), sockets[0][0].address);
    let listen = || sockets.iter().flatten().try_for_each(|bound| bound.socket.listen(8)).expect("it is bound");
    listen();
    let some = Duration::from_millis(50);
    assert!(timeout(some, refuse_connections_after(some * 100, &sockets)).await.is_err());
    assert!(connects(address) && has_served(&sockets));
    assert!(timeout(some, refuse_connections_after(Duration::ZERO, &sockets)).await.is_err());
    assert!(!connects(address) && !has_served(&sockets));
    listen();
    assert!(connects(address));
}

#[tokio::test]
async fn a_socket_that_listens_only_after_a_long_wait_accepts_open_connections() {
    let wanted = [(Door::Inbound, "127.0.0.1:0".parse().expect("an address"))];
    let sockets = bind_workers(&wanted, 1).expect("the port is free");
    let bound = &sockets[0][0];
    assert!(timeout(Duration::from_millis(50), refuse_connections_after(Duration::ZERO, &sockets)).await.is_err());
    bound.socket.listen(8).expect("it is bound");
    let _client = TcpStream::connect(bound.address).expect("it listens");
    let (accepted, _) = bound.socket.accept().expect("a connection");
    accepted.set_nonblocking(true).expect("a socket");
    let read = (&accepted).read(&mut [0]);
    assert!(read.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock), "not open: {read:?}");
}
