use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;

use super::super::socket_memory::tests::{connection, fill};
use super::*;

/// Returns a wire on one end of a connection within this machine, and the other end.
fn wire() -> (Wire, TcpStream) {
    let (accepted, opened) = connection(Ipv4Addr::LOCALHOST.into()).expect("loopback");
    (Wire::new(accepted, None, true, Instant::now()), opened)
}

/// Returns how many bytes the other end's kernel has not acknowledged.
#[allow(unsafe_code)]
fn unsent_bytes(socket: &TcpStream) -> libc::c_int {
    let mut bytes = 0;
    // SAFETY: the descriptor is open while `socket` lives. The request SIOCOUTQ (which has the number of TIOCOUTQ)
    // writes one int to `bytes`, and keeps no pointer.
    let status = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    assert_eq!(status, 0, "the socket is open");
    bytes
}

/// Writes until the socket accepts no more.
fn write_all(wire: &mut Wire) {
    let mut buffers = Buffers::default();
    while wire.write(&[0; 16 << 10], &mut buffers).expect("the peer is there") > 0 {}
}

#[test]
fn a_socket_that_accepts_no_bytes_is_charged_until_it_moves() {
    let (mut wire, _peer) = wire();
    let now = Instant::now();
    assert!(!wire.should_be_measured(0), "a fresh connection costs no measurement");
    write_all(&mut wire);
    wire.measure_if_stuck(now, true);
    assert!(wire.kernel_bytes() >= KERNEL_UNSENT_MAX_BYTES as usize, "{} bytes", wire.kernel_bytes());
    assert!(wire.kernel_bytes() <= 2 * LOCAL_SEND_BYTES);
    wire.measure_if_stuck(now, false);
    assert_eq!(wire.kernel_bytes(), 0);
}

#[test]
fn bytes_that_a_socket_took_without_blocking_are_measured_if_they_are_not_negligible() {
    let (mut wire, _peer) = wire();
    let written = wire.write(&[0; 100 << 10], &mut Buffers::default()).expect("the peer is there");
    assert!(!wire.should_be_measured(written) && wire.should_be_measured(written - 1));
    wire.measure(Instant::now());
    // Bytes that the peer's kernel has accepted are no longer memory of our socket.
    let held = wire.kernel_bytes();
    assert_eq!(wire.should_be_measured(written), held > CONNECTION_BYTES);
}

#[test]
fn bytes_that_the_worker_leaves_unread_are_charged_until_it_reads_on() {
    let (mut wire, mut peer) = wire();
    let now = Instant::now();
    let written = fill(&mut peer);
    wire.measure_if_stuck(now, false);
    assert_eq!(wire.kernel_bytes(), 0, "no event has reported the bytes yet");
    wire.has_unread = true;
    wire.measure_if_stuck(now, false);
    let held = wire.kernel_bytes();
    assert!(held > 64 << 10 && held <= 2 * LOCAL_RECEIVE_BYTES + (4 << 10), "{held} of {written} bytes");

    let mut buffers = Buffers::new(64 << 10);
    while let Fill::Bytes { more: true, .. } = wire.read(usize::MAX, &mut buffers).expect("the peer is there") {}
    wire.measure_if_stuck(now, false);
    assert_eq!(wire.kernel_bytes(), 0);
}

#[test]
fn a_stuck_connection_is_measured_ten_times_a_second_at_most() {
    let (mut wire, mut peer) = wire();
    let now = Instant::now();
    wire.has_unread = true;
    wire.measure_if_stuck(now, false);
    let before = wire.kernel_bytes();
    fill(&mut peer);
    wire.measure_if_stuck(now + MEASURE_EVERY / 2, false);
    assert_eq!(wire.kernel_bytes(), before);
    wire.measure_if_stuck(now + MEASURE_EVERY, false);
    assert!(wire.kernel_bytes() > before);
}

#[test]
fn the_limit_on_unread_bytes_is_lifted_while_the_peer_has_acknowledged_all_bytes() {
    let (mut wire, _peer) = wire();
    if has_unacknowledged(&wire.socket) {
        return leno_testing::skipped("the limit on unread bytes: there is no SO_MEMINFO here");
    }
    let timeout = |wire: &Wire| SockRef::from(&wire.socket).tcp_user_timeout().expect("a socket");
    wire.update_unread_limit();
    assert_eq!(timeout(&wire), None, "a connection without a limit");

    let limit = Duration::from_secs(30);
    wire.limit_unread(Some(limit));
    wire.write(b"a", &mut Buffers::default()).expect("the peer is there");
    let deadline = Instant::now() + Duration::from_secs(20);
    while has_unacknowledged(&wire.socket) {
        assert!(Instant::now() < deadline, "the peer's kernel acknowledges the byte");
        std::thread::yield_now();
    }
    wire.update_unread_limit();
    assert_eq!(timeout(&wire), Some(limit + KERNEL_GRACE), "the worker has written since the latest check");
    wire.update_unread_limit();
    assert_eq!(timeout(&wire), None, "the peer has acknowledged everything");

    wire.write(b"b", &mut Buffers::default()).expect("the peer is there");
    wire.update_unread_limit();
    assert_eq!(timeout(&wire), Some(limit + KERNEL_GRACE), "the worker has written again");
    fill(&mut wire.socket);
    wire.update_unread_limit();
    assert_eq!(timeout(&wire), Some(limit + KERNEL_GRACE), "the peer leaves bytes unread");

    wire.limit_unread(None);
    wire.update_unread_limit();
    assert_eq!(timeout(&wire), None, "from now on, the peer may leave bytes unread for any time");
    wire.limit_unread(Some(limit));
    wire.update_unread_limit();
    assert_eq!(timeout(&wire), Some(limit + KERNEL_GRACE), "the limit applies to bytes that were written before");
}

#[test]
fn a_connection_is_local_if_its_other_end_is_on_this_machine() {
    let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
    for (own, peer, expected) in [
        ("127.0.0.1", "10.0.0.5", true),
        ("::1", "::1", true),
        ("10.0.0.5", "10.0.0.5", true),
        ("10.0.0.5", "10.0.0.6", false),
        ("fd00::5", "fd00::6", false),
    ] {
        assert_eq!(is_local(ip(own), ip(peer)), expected, "{own} {peer}");
    }
}

#[test]
fn bytes_after_urgent_data_are_read() {
    let (mut wire, mut peer) = wire();
    peer.write_all(b"abc").expect("room");
    SockRef::from(&peer).send_out_of_band(b"!").expect("room");
    peer.write_all(b"def").expect("room");
    let deadline = Instant::now() + Duration::from_secs(20);
    while unsent_bytes(&peer) > 0 {
        assert!(Instant::now() < deadline, "the bytes do not arrive");
        std::thread::yield_now();
    }
    let mut buffers = Buffers::new(64 << 10);
    let mut received = Vec::new();
    wire.has_urgent = true;
    while let Fill::Bytes { bytes, more } = wire.read(usize::MAX, &mut buffers).expect("the peer is there") {
        received.extend_from_slice(bytes);
        if !more {
            break;
        }
    }
    assert_eq!(received, b"abc!def");
    assert!(!wire.has_unread && !wire.has_urgent);
}
