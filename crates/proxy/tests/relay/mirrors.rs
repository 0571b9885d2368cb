//! Request mirrors: a mirror receives copies of requests, and cannot delay the original requests.

use std::net::SocketAddr;
use std::time::Duration;

use leno_http2::frame::kind;

use crate::peer::{Peer, Server, answer, call, data, headers, open_call, rst_stream, settings};
use crate::proxy::{Proxy, eventually, mesh_of, service};
use crate::routes::http_route;

/// Every request goes to `v1`, and a copy of it to `shadow`.
const MIRRORED: &str = "- filters:\n  - {type: RequestMirror, requestMirror: {backendRef: {name: shadow, port: 80}}}\n  \
                        backendRefs: [{name: v1, port: 80}]";

struct Mirrored {
    proxy: Proxy,
    client: Peer,
    v1: Server,
}

impl Mirrored {
    fn start(shadow: SocketAddr, rules: &str, limits: &[(&str, &str)]) -> Self {
        let v1 = Server::start();
        let services =
            [service("echo", &[], ""), service("v1", &[v1.address()], ""), service("shadow", &[shadow], "")].concat();
        let proxy = Proxy::start_in(mesh_of(&(services + &http_route(rules))), limits);
        let client = proxy.connect();
        Self { proxy, client, v1 }
    }

    /// Returns the number of copies begun and the number of copies dropped.
    fn counted(&self) -> (u64, u64) {
        (self.proxy.metrics.mirrored_total.get(), self.proxy.metrics.mirrors_dropped_total.get())
    }
}

#[test]
fn a_mirror_gets_the_request_and_its_content_and_its_answer_goes_nowhere() {
    let shadow = Server::start();
    let rules = MIRRORED.replace(
        "filters:\n",
        "filters:\n  - {type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x-by, value: rule}]}}\n  \
         - {type: URLRewrite, urlRewrite: {hostname: v1.example, path: {type: ReplaceFullPath, replaceFullPath: /v1}}}\n",
    );
    let mut mirrored = Mirrored::start(shadow.address(), &rules, &[]);
    mirrored.client.send(&open_call(1));
    let (mut v1, mut copy) = (mirrored.v1.accept(), shadow.accept());
    let request = v1.expect(kind::HEADERS);
    let copied = copy.expect(kind::HEADERS);
    assert_eq!((request.field(":authority"), request.field("x-by")), ("v1.example", "rule"));
    assert_eq!((copied.field(":authority"), copied.field("x-by")), ("echo.default:80", "rule"));
    assert_eq!((request.field(":path"), copied.field(":path")), ("/v1", "/v1"));

    mirrored.client.send(&data(1, b"hello", true));
    for peer in [&mut v1, &mut copy] {
        let content = peer.expect(kind::DATA);
        assert_eq!((&content.payload[..], content.ends_stream()), (&b"hello"[..], true));
    }
    copy.send(&answer(copied.stream, "shadow"));
    v1.send(&answer(request.stream, "v1"));
    let frames = mirrored.client.rest_of(1);
    assert_eq!((frames.len(), frames[0].field("from")), (1, "v1"));
    assert_eq!(mirrored.counted(), (1, 0));
}

#[test]
fn a_copy_of_a_grpc_request_has_no_trailers_either() {
    let shadow = Server::start();
    let mut mirrored = Mirrored::start(shadow.address(), MIRRORED, &[]);
    mirrored.client.send(&open_call(1));
    let (mut v1, mut copy) = (mirrored.v1.accept(), shadow.accept());
    let streams = [&mut v1, &mut copy].map(|peer| peer.expect(kind::HEADERS).stream);
    mirrored.client.send(&[data(1, b"hello", false), headers(1, &[("x-checksum", "1")], true)].concat());
    for (peer, stream) in [&mut v1, &mut copy].into_iter().zip(streams) {
        let frames = peer.rest_of(stream);
        assert!(frames.iter().all(|frame| frame.kind == kind::DATA), "{frames:?}");
    }
}

#[test]
fn a_mirror_that_reads_nothing_is_given_up_and_the_call_goes_on() {
    let shadow = Server::start();
    let mut mirrored = Mirrored::start(shadow.address(), MIRRORED, &[("max_mirror_bytes_per_call", "20000")]);
    mirrored.client.send(&open_call(1));
    let mut v1 = mirrored.v1.accept();
    // The mirror accepts no content at all.
    let mut copy = shadow.accept_silently();
    copy.send(&settings(&[(4, 0)]));
    let request = v1.expect(kind::HEADERS);
    copy.expect(kind::HEADERS);
    for _ in 0..3 {
        mirrored.client.send(&data(1, &[7; 10_000], false));
    }
    mirrored.client.send(&data(1, b"", true));
    let mut received = 0;
    while received < 30_000 {
        received += v1.expect(kind::DATA).payload.len();
    }
    v1.send(&answer(request.stream, "v1"));
    assert_eq!(mirrored.client.rest_of(1)[0].field("from"), "v1");
    assert_eq!(mirrored.counted(), (1, 1));
}

#[test]
fn a_mirror_that_is_gone_changes_nothing() {
    let gone = Server::start().address();
    let mut mirrored = Mirrored::start(gone, MIRRORED, &[]);
    mirrored.client.send(&call(1));
    let mut v1 = mirrored.v1.accept();
    let request = v1.expect(kind::HEADERS);
    v1.send(&answer(request.stream, "v1"));
    assert_eq!(mirrored.client.rest_of(1)[0].field("from"), "v1");
    eventually("the copy is given up", || mirrored.counted() == (1, 1));
}

#[test]
fn a_copy_ends_with_a_call_that_is_cancelled_in_the_middle_of_its_request() {
    let shadow = Server::start();
    let mut mirrored = Mirrored::start(shadow.address(), MIRRORED, &[]);
    mirrored.client.send(&open_call(1));
    let (mut v1, mut copy) = (mirrored.v1.accept(), shadow.accept());
    v1.expect(kind::HEADERS);
    let stream = copy.expect(kind::HEADERS).stream;
    mirrored.client.send(&rst_stream(1, 8));
    let end = copy.rest_of(stream);
    assert_eq!(end[0].kind, kind::RST_STREAM, "{end:?}");
}

#[test]
fn a_copy_that_is_not_answered_ends_some_time_after_its_call() {
    let shadow = Server::start();
    let mut mirrored = Mirrored::start(shadow.address(), MIRRORED, &[("mirror_timeout_ms", "50")]);
    mirrored.client.send(&call(1));
    let (mut v1, mut copy) = (mirrored.v1.accept(), shadow.accept());
    let stream = copy.expect(kind::HEADERS).stream;
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(mirrored.counted(), (1, 0), "the call itself is not over");
    let request = v1.expect(kind::HEADERS);
    v1.send(&answer(request.stream, "v1"));
    mirrored.client.rest_of(1);
    eventually("the copy is given up", || mirrored.counted() == (1, 1));
    assert_eq!(copy.rest_of(stream)[0].kind, kind::RST_STREAM);
}

#[test]
fn a_call_beyond_the_limit_of_calls_is_not_copied() {
    let shadow = Server::start();
    let mut mirrored = Mirrored::start(shadow.address(), MIRRORED, &[("max_calls", "1")]);
    mirrored.client.send(&call(1));
    let mut v1 = mirrored.v1.accept();
    let request = v1.expect(kind::HEADERS);
    mirrored.client.send(&call(3));
    assert_ne!(mirrored.client.rest_of(3)[0].field("grpc-status"), "0");
    v1.send(&answer(request.stream, "v1"));
    assert_eq!(mirrored.client.rest_of(1)[0].field("from"), "v1");
    assert_eq!(mirrored.proxy.metrics.mirrored_total.get(), 1);
}

#[test]
fn no_more_copies_are_in_flight_than_the_limit_says() {
    let shadow = Server::start();
    let mut mirrored = Mirrored::start(shadow.address(), MIRRORED, &[("max_mirrors", "2")]);
    for stream in [1, 3, 5] {
        mirrored.client.send(&call(stream));
    }
    let (mut v1, mut copy) = (mirrored.v1.accept(), shadow.accept());
    let requests = [(); 3].map(|()| v1.expect(kind::HEADERS).stream);
    let copies = [(); 2].map(|()| copy.expect(kind::HEADERS).stream);
    eventually("the third is not copied", || mirrored.counted() == (2, 1));
    requests.iter().for_each(|stream| v1.send(&answer(*stream, "v1")));
    for stream in [1, 3, 5] {
        assert_eq!(mirrored.client.rest_of(stream)[0].field("from"), "v1");
    }
    // Answered copies make room for new copies.
    copies.iter().for_each(|stream| copy.send(&answer(*stream, "shadow")));
    mirrored.client.send(&call(7));
    copy.expect(kind::HEADERS);
}

#[test]
fn a_share_of_the_requests_is_copied() {
    let shadow = Server::start();
    let rules = MIRRORED.replace("port: 80}}}", "port: 80}, percent: 0}}");
    let mut mirrored = Mirrored::start(shadow.address(), &rules, &[]);
    mirrored.client.send(&call(1));
    let mut v1 = mirrored.v1.accept();
    let request = v1.expect(kind::HEADERS);
    v1.send(&answer(request.stream, "v1"));
    mirrored.client.rest_of(1);
    assert_eq!(mirrored.counted(), (0, 0));
}
