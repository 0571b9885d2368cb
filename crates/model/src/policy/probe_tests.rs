use std::net::IpAddr;

use super::{BadProbe, Probe, Probes};
use crate::mesh::Mesh;
use crate::policy::{Caller, Decision, DefaultInboundPolicy, Request};

fn probes(all: &[&str]) -> Probes {
    all.iter().map(|text| text.parse::<Probe>().expect("a probe")).collect()
}

/// Returns whether a caller without an identity may make the request, with the default inbound policy `default`.
fn is_let_in(probes: &Probes, default: DefaultInboundPolicy, port: u16, request: &Request<'_>) -> bool {
    let own = "spiffe://own.org/ns/shop/sa/cart".parse().expect("an id");
    let caller = Caller { identity: None, address: IpAddr::from([10, 0, 0, 1]) };
    let policy = Mesh::empty().inbound_policy(&own, port, default).with_probes(probes.on(port));
    let decision = policy.authorize(&caller, Some(request));
    assert!(policy.may_allow(&caller) || matches!(decision, Decision::Deny(_)));
    matches!(decision, Decision::Allow)
}

fn get(path: &str) -> Request<'_> {
    Request { method: b"GET", path: path.as_bytes(), upgrade: false, has_content: false }
}

#[test]
fn a_probe_is_let_in_on_its_port_for_its_path_and_nothing_else_is() {
    let probes = probes(&["8080/healthz", "8080/ready?verbose&a=/b?c", "9090/grpc.health.v1.Health/Check"]);
    for default in [DefaultInboundPolicy::Deny, DefaultInboundPolicy::AllAuthenticated] {
        for (port, path, expected) in [
            (8080, "/healthz", true),
            (8080, "/healthz?verbose", false),
            (8080, "/healthz?", false),
            (8080, "/ready?verbose&a=/b?c", true),
            (8080, "/ready?verbose&a=/b?c&d", false),
            (8080, "/ready?verbose", false),
            (8080, "/ready?", false),
            (8080, "/ready", false),
            (8081, "/healthz", false),
            (8080, "/", false),
            (8080, "/healthz/", false),
            (8080, "/healthz/../admin", false),
            (8080, "/Healthz", false),
            (9090, "/healthz", false),
        ] {
            assert_eq!(is_let_in(&probes, default, port, &get(path)), expected, "{default} {port} {path}");
        }
        let post = Request { method: b"POST", ..get("/healthz") };
        let upgrade = Request { upgrade: true, ..get("/healthz") };
        assert!(!is_let_in(&probes, default, 8080, &post) && !is_let_in(&probes, default, 8080, &upgrade));
        let check = get("/grpc.health.v1.Health/Check");
        assert!(!is_let_in(&probes, default, 9090, &check));
        assert!(is_let_in(&probes, default, 9090, &Request { method: b"POST", ..check }));
    }
}

#[test]
fn a_probe_opens_no_connection_whose_content_is_not_read() {
    let own = "spiffe://own.org/ns/shop/sa/cart".parse().expect("an id");
    let caller = Caller { identity: None, address: IpAddr::from([10, 0, 0, 1]) };
    let policy = Mesh::empty().inbound_policy(&own, 8080, DefaultInboundPolicy::Deny);
    let policy = policy.with_probes(probes(&["8080/healthz"]).on(8080));
    assert!(matches!(policy.authorize(&caller, None), Decision::Deny(_)));
}

#[test]
fn what_is_no_probe_is_refused_and_what_is_one_is_shown_as_written() {
    for text in
        ["8080/healthz", "1/", "65535/grpc.health.v1.Health/Check", "80/a?", "80/a?b=%7B/../c?{d}", "80/a?\u{e4}"]
    {
        assert_eq!(text.parse::<Probe>().expect("a probe").to_string(), text);
    }
    for text in
        ["", "/healthz", "8080", "0/healthz", "65536/healthz", "+1/a", "http/healthz", "80/a/../b", "80/a/../b?c"]
    {
        assert!(text.parse::<Probe>().is_err(), "{text}");
    }
    let long = format!("80/a?{}", "b".repeat(1_025));
    for text in ["80/a?b#c", "80/a?b c", "80/a?\u{7f}", "80/a?\n", long.as_str()] {
        assert_eq!(text.parse::<Probe>(), Err(BadProbe::Query), "{text:?}");
    }
}

#[test]
fn no_more_probes_are_kept_than_the_limit() {
    let all = (1..=1_000).map(|port| format!("{port}/healthz").parse::<Probe>().expect("a probe"));
    let probes: Probes = all.collect();
    let limit = u16::try_from(Probes::MAX).expect("a small number");
    assert!(is_let_in(&probes, DefaultInboundPolicy::Deny, limit, &get("/healthz")));
    assert!(!is_let_in(&probes, DefaultInboundPolicy::Deny, limit + 1, &get("/healthz")));
}
