use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use super::*;

#[test]
fn a_port_is_listened_on_from_its_first_listener_to_its_last() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("its address").port();
    let own = std::process::id();
    let other = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let other_port = other.local_addr().expect("its address").port();
    assert_eq!(unserved(own, &[port, other_port]), [0; 0]);
    drop(listener);
    // Wait: the port may stay in use for a moment. Other tests start programs, and each new process has a copy of the
    // listener until it executes its program.
    let deadline = Instant::now() + Duration::from_secs(10);
    while unserved(own, &[port, other_port]) != [port] {
        assert!(Instant::now() < deadline, "a process still listens");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn only_listening_sockets_count_and_only_by_their_own_port() {
    let table = "\
  sl  local_address rem_address   st tx_queue rx_queue
   0: 00000000:1F90 00000000:0000 0A 00000000:00000000
   1: 0100007F:0050 0100007F:1F91 01 00000000:00000000
";
    assert!(has_listener(table, 8080));
    assert!(!has_listener(table, 80), "it is a connection");
    assert!(!has_listener(table, 8081), "it is the other side's");
}
