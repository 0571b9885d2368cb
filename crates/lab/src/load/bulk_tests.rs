use super::*;

/// Waits at most 20 s until this many further bytes have arrived. Returns whether they have.
fn arrives(bulk: &Bulk, bytes: u64) -> bool {
    let before = bulk.received();
    (0..2_000).any(|_| {
        thread::sleep(Duration::from_millis(10));
        bulk.received() >= before + bytes
    })
}

#[test]
fn bytes_arrive_in_both_directions_over_all_connections() {
    let server = BulkServer::start(&[]).expect("a free port");
    for direction in [Direction::Up, Direction::Down] {
        let bulk = Bulk::start(&[server.address; 2], &server, direction, &[]).expect("a server that listens");
        assert!(arrives(&bulk, 1 << 20), "{direction:?}");
        assert!(!bulk.has_failed(), "{direction:?}");
    }
}

#[test]
fn a_connection_that_is_cut_off_is_noticed() {
    let server = BulkServer::start(&[]).expect("a free port");
    let nowhere = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = nowhere.local_addr().expect("a bound socket");
    let closes = thread::spawn(move || nowhere.accept().map(|(stream, _)| stream.shutdown(std::net::Shutdown::Both)));
    let bulk = Bulk::start(&[address], &server, Direction::Down, &[]).expect("something that listens");
    closes.join().expect("it does not panic").expect("a connection").ok();
    let noticed = (0..2_000).any(|_| {
        thread::sleep(Duration::from_millis(10));
        bulk.has_failed()
    });
    assert!(noticed);
}
