use std::net::SocketAddr;
use std::path::Path;

use super::super::hop::Side;
use super::*;
use crate::experiment::record::{CallPolicy, Protocol};
use crate::tls::Credentials;

fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn credentials() -> Credentials {
    let file = |name: &str| Path::new("/certificates").join(name);
    Credentials { authority: file("ca.crt"), certificate: file("a.crt"), key: file("a.key"), both: file("a.pem") }
}

fn hop<'a>(downstream: Side<'a>, upstream: Side<'a>, upstreams: &'a [SocketAddr]) -> Hop<'a> {
    Hop {
        name: "haproxy",
        listener: address(1),
        protocol: Protocol::Grpc,
        downstream,
        upstream,
        policy: CallPolicy::Once,
        upstreams,
        dir: Path::new("/"),
        cpus: &[],
    }
}

fn has(config: &str, line: &str) -> bool {
    config.lines().any(|l| l.trim() == line)
}

#[test]
fn every_backend_is_a_server_that_speaks_http2_and_leastconn_chooses() {
    let clear = Side::in_clear(Wire::Http2);
    let config = config(&hop(clear, clear, &[address(11), address(12)]));
    assert!(has(&config, "bind 127.0.0.1:1 proto h2"), "{config}");
    assert!(has(&config, "server s0 127.0.0.1:11 proto h2"), "{config}");
    assert!(has(&config, "server s1 127.0.0.1:12 proto h2"), "{config}");
    assert!(has(&config, "balance leastconn") && has(&config, "nbthread 1"), "{config}");
}

#[test]
fn both_sides_of_tls_verify_certificates_and_have_one_version_and_one_suite() {
    let credentials = credentials();
    let (clear, secure) = (Side::in_clear(Wire::Http2), Side::secure(Wire::Http2, &credentials, "anybody"));
    for config in [config(&hop(secure, clear, &[address(11)])), config(&hop(clear, secure, &[address(11)]))] {
        let line = config.lines().find(|line| line.contains(" ssl ")).expect("a side with TLS");
        assert!(line.contains("crt /certificates/a.pem ca-file /certificates/ca.crt"), "{line}");
        assert!(line.contains("ssl-min-ver TLSv1.3 ciphersuites TLS_AES_128_GCM_SHA256"), "{line}");
        assert!(line.contains("verify required") && line.contains("alpn h2"), "{line}");
    }
}

#[test]
fn opaque_bytes_are_not_looked_at() {
    let clear = Side::in_clear(Wire::Opaque);
    let config = config(&hop(clear, clear, &[address(11)]));
    assert!(has(&config, "mode tcp") && has(&config, "bind 127.0.0.1:1"), "{config}");
    assert!(!config.contains("http-reuse"), "{config}");
}
