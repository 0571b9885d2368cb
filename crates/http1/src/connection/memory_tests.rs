use super::*;
use leno_http2::{ErrorCode, Section};

fn held(connection: &Connection) -> usize {
    connection.out.bytes.capacity() + connection.drained.capacity() + connection.exchange.iter().count()
}

/// A server that has received a header section in two parts and has sent much content.
fn busy() -> (Connection, StreamKey) {
    let now = Instant::now();
    let mut server = Connection::new(Role::Server, Arc::new(Limits::server()), now);
    let mut fields = FieldSection::new();
    let mut key = None;
    for mut part in [&b"GET / HTTP/1.1\r\nHo"[..], b"st: a\r\n\r\n"] {
        if let Ok(Some(Event::Headers { stream, .. })) =
            server.receive(now, &mut part, &mut fields, &mut Heads::default())
        {
            key = Some(stream);
        }
    }
    let key = key.expect("a request has come");
    respond(&mut server, key);
    (server, key)
}

fn respond(server: &mut Connection, key: StreamKey) {
    let mut response = FieldSection::new();
    response.push(b":status", b"200");
    server.send_headers(key, Section::Response, &response, false, &mut Heads::default());
    server.send_data(key, &vec![b'x'; 3 * OUTPUT_HIGH_WATER_BYTES], false);
}

fn write_all(server: &mut Connection) {
    while !server.output().is_empty() {
        let n = server.pending_output();
        server.advance_output(n);
        while server.next_drained().is_some() {}
    }
}

#[test]
fn an_idle_connection_holds_nothing() {
    let (mut server, key) = busy();
    server.send_data(key, b"", true);
    write_all(&mut server);
    assert!(held(&server) == 0 && server.incomplete.is_empty() && !server.over);
    assert!(size_of::<Connection>() <= 256, "{} bytes", size_of::<Connection>());
}

#[test]
fn output_is_bounded_while_the_socket_takes_nothing() {
    let (mut server, key) = busy();
    for _ in 0..10 {
        server.output();
        server.send_data(key, b"more", false);
    }
    assert!(server.pending_output() < OUTPUT_HIGH_WATER_BYTES + 1_000);
    assert_eq!(server.send_window_bytes(), (1 << 31) - 1);
}

#[test]
fn a_reset_drops_what_is_queued() {
    let (mut server, key) = busy();
    assert!(server.queued_bytes() > 0);
    server.reset(key, ErrorCode::CANCEL);
    assert_eq!(server.queued_bytes(), 0);
}

#[test]
fn a_busy_connection_keeps_no_empty_output_buffer_while_memory_is_short() {
    let (mut server, key) = busy();
    write_all(&mut server);
    assert!(server.out.bytes.capacity() > 0);
    server.save_memory(true);
    assert_eq!(server.out.bytes.capacity(), 0);
    server.send_data(key, b"more", false);
    server.save_memory(true);
    assert!(server.pending_output() > 0, "output that waits is not lost");
    write_all(&mut server);
    assert_eq!(server.out.bytes.capacity(), 0);
}

#[test]
fn nor_does_it_keep_one_in_its_next_exchange() {
    let now = Instant::now();
    let mut client = Connection::new(Role::Client, Arc::new(Limits::client()), now);
    client.save_memory(true);
    let mut request = FieldSection::new();
    for (name, value) in [(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "a")] {
        request.push(name.as_bytes(), value.as_bytes());
    }
    for token in 0..2 {
        let stream = client.open(now, token, &request, false, &mut Heads::default()).expect("the connection is free");
        client.send_data(stream, &vec![b'x'; OUTPUT_HIGH_WATER_BYTES], false);
        write_all(&mut client);
        assert_eq!(client.out.bytes.capacity(), 0, "exchange {token}");
        client.send_data(stream, b"", true);
        write_all(&mut client);
        let mut response = &b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"[..];
        let event = client.receive(now, &mut response, &mut FieldSection::new(), &mut Heads::default());
        assert!(matches!(event, Ok(Some(Event::Headers { end_stream: true, .. }))), "{event:?}");
    }
}
