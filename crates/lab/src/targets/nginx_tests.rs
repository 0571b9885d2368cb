use std::net::SocketAddr;

use super::super::hop::Side;
use super::*;
use crate::experiment::record::{CallPolicy, Protocol};

fn config_for(wire: Wire) -> Result<String> {
    let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let (side, upstreams) = (Side::in_clear(wire), [address(11), address(12)]);
    config(&Hop {
        name: "nginx",
        listener: address(1),
        protocol: Protocol::Grpc,
        downstream: side,
        upstream: side,
        policy: CallPolicy::Once,
        upstreams: &upstreams,
        dir: Path::new("/logs"),
        cpus: &[],
    })
}

fn has(config: &str, line: &str) -> bool {
    config.lines().any(|l| l.trim() == line)
}

#[test]
fn grpc_calls_go_to_every_backend_over_connections_that_stay_open() {
    let config = config_for(Wire::Http2).expect("calls");
    assert!(has(&config, "listen 127.0.0.1:1 http2 reuseport;"), "{config}");
    assert!(has(&config, "grpc_pass grpc://backends;"), "{config}");
    assert!(has(&config, "server 127.0.0.1:11;") && has(&config, "server 127.0.0.1:12;"), "{config}");
    assert!(has(&config, "keepalive 1024;") && has(&config, "worker_processes 1;"), "{config}");
    assert!(has(&config, "pid /logs/nginx.pid;"), "{config}");
}

#[test]
fn requests_of_http1_keep_their_connection_to_the_backend() {
    let config = config_for(Wire::Http1).expect("requests");
    assert!(has(&config, "listen 127.0.0.1:1 reuseport;"), "{config}");
    assert!(has(&config, "proxy_http_version 1.1;") && has(&config, "proxy_set_header Connection \"\";"), "{config}");
}

#[test]
fn opaque_bytes_end_in_one_line_that_says_what_to_do() {
    let error = config_for(Wire::Opaque).expect_err("bytes are no calls").to_string();
    assert!(error.contains("--targets nginx") && error.contains("leave nginx out"), "{error}");
}
