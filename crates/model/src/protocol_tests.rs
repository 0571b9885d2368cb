use super::{OPAQUE_PORTS, PortRanges, Protocol};

#[test]
fn the_names_of_protocols_are_known_in_any_case() {
    for (text, protocol) in [
        ("kubernetes.io/h2c", Some(Protocol::Http2)),
        ("h2c", Some(Protocol::Http2)),
        ("http2", Some(Protocol::Http2)),
        ("HTTP2", Some(Protocol::Http2)),
        ("grpc", Some(Protocol::Http2)),
        ("http", Some(Protocol::Http1)),
        ("HTTP/1.1", Some(Protocol::Http1)),
        ("kubernetes.io/ws", Some(Protocol::Http1)),
        ("kubernetes.io/wss", Some(Protocol::Opaque)),
        ("https", Some(Protocol::Opaque)),
        ("tls", Some(Protocol::Opaque)),
        ("tcp", Some(Protocol::Opaque)),
        ("mysql", None),
        ("", None),
        ("http ", None),
    ] {
        assert_eq!(Protocol::from_app_protocol(text), protocol, "{text:?}");
    }
}

#[test]
fn servers_that_speak_first_have_opaque_ports_by_default() {
    for port in OPAQUE_PORTS {
        assert_eq!(Protocol::of_port(port), Protocol::Opaque, "{port}");
    }
    for port in [24, 80, 443, 3307, 50051] {
        assert_eq!(Protocol::of_port(port), Protocol::Detect, "{port}");
    }
}

#[test]
fn ports_and_ranges_are_listed_with_commas() {
    let ports: PortRanges = "3306, 9000-9010,1,65535-65535".parse().expect("ports");
    for port in [3306, 9000, 9005, 9010, 1, 65535] {
        assert!(ports.contains(port), "{port}");
    }
    for port in [2, 3305, 3307, 8999, 9011, 65534] {
        assert!(!ports.contains(port), "{port}");
    }
    assert!(!PortRanges::default().contains(1));
}

#[test]
fn what_is_not_a_list_of_ports_is_refused() {
    for text in ["", ",", "1,", "0", "65536", "+1", "-1", "1-", "-", "1-2-3", "9010-9000", "0-1", "a", "1;2", "1 2"] {
        assert!(text.parse::<PortRanges>().is_err(), "{text:?}");
    }
}
