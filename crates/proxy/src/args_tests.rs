use std::ffi::OsString;
use std::net::SocketAddr;
use std::time::Duration;

use leno_relay::Door;

use super::{Args, Exit};
use crate::control::IdentityService;
use crate::identity_args::IssuerPlace;

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn read(line: &str) -> Result<Args, Exit> {
    let words = ["leno-proxy"].into_iter().chain(line.split_whitespace());
    Args::read(words.map(OsString::from)).map(|(args, _)| args)
}

#[track_caller]
fn usage(line: &str) -> String {
    match read(line) {
        Err(Exit::Usage(text)) => text,
        other => panic!("{line} gave {other:?}"),
    }
}

#[test]
fn a_directory_is_all_that_is_needed() {
    let args = read("--config examples/echo").expect("it is enough");
    assert_eq!(args.config.as_deref().and_then(|path| path.to_str()), Some("examples/echo"));
    assert_eq!(args.listen(), [(Door::Outbound, address("127.0.0.1:4140"))]);
    assert_eq!(args.admin.to_string(), "127.0.0.1:4191");
    assert_eq!(args.workers, 1);
    assert_eq!(args.grace, Duration::from_secs(30));
}

#[test]
fn an_issuer_is_a_directory_or_with_a_token_a_service() {
    let of = |line: &str| read(line).expect("it is enough").identity.place().map(|(_, issuer)| issuer);
    assert_eq!(of("--config d"), None);
    let directory = IssuerPlace::Directory { path: "ca".into(), lifetime: Duration::from_secs(24 * 3_600) };
    assert_eq!(of("--config d --identity ns/a/sa/b --issuer ca"), Some(directory));
    let service = IssuerPlace::Service(IdentityService {
        address: "leno-control.leno.svc:15012".to_owned(),
        workload: "ns/leno/sa/leno-control".parse().expect("a workload"),
        trust_domain: "prod.example".parse().expect("a trust domain"),
        trust_bundle: "ca.crt".into(),
        token: "token".into(),
    });
    let line = "--control c:1 --identity ns/a/sa/b --issuer leno-control.leno.svc:15012 --token token \
                --trust-bundle ca.crt --trust-domain prod.example";
    assert_eq!(of(line), Some(service));
}

#[test]
fn every_usage_error_is_one_line_that_names_the_flag() {
    let cases = [
        ("--outbound 127.0.0.1:4140", "--config <DIR>"),
        ("--config d --control c:1", "--control"),
        ("--control c", "port"),
        ("--control c:0", "port"),
        ("--control :1", "port"),
        ("--config d --workers 0", "--workers"),
        ("--config d --workers 65", "64"),
        ("--config d --outbound 4140", "--outbound"),
        ("--config d --worker 2", "--workers"),
        ("--config d --log loud", "--log"),
        ("--config d --log-format xml", "--log-format"),
        ("--config d --grace soon", "--grace"),
        ("--config d --identity ns/a/sa/b --issuer ca --svid-lifetime 9s", "--svid-lifetime"),
        ("--config d --identity ns/a/sa/b --issuer ca --svid-lifetime 169h", "168h"),
        ("--config d --svid-lifetime 24h", "--issuer"),
        ("--control c:1 --identity ns/a/sa/b --issuer c:2 --token t", "--trust-bundle"),
        ("--control c:1 --identity ns/a/sa/b --issuer c --token t --trust-bundle b", "--issuer c"),
        ("--control c:1 --identity ns/a/sa/b --issuer c:2 --token t --trust-bundle b --svid-lifetime 1h", "--token"),
        ("--control c:1 --opaque-ports 3306", "--identity"),
        ("--config d --identity ns/a/sa/b --issuer ca --opaque-ports 0", "--opaque-ports"),
        ("--config d --tcp-probe 8080/1s", "--identity"),
        ("--config d --identity ns/a/sa/b --issuer ca --tcp-probe 8080", "for example 8080/1s"),
        ("--config d --limit streams", "--limit help"),
        ("--config d --limit no_such_limit=1", "no_such_limit"),
        ("--config d extra", "extra"),
    ];
    for (line, named) in cases {
        let text = usage(line);
        assert!(text.contains(named) && !text.contains('\n'), "{line}: {text}");
        assert!(!text.starts_with("error"), "{line}: {text}");
    }
}

#[test]
fn a_grace_period_has_a_unit_and_an_end() {
    for (text, grace) in
        [("0s", Duration::ZERO), ("500ms", Duration::from_millis(500)), ("60m", Duration::from_secs(3_600))]
    {
        assert_eq!(read(&format!("--config d --grace {text}")).expect(text).grace, grace);
    }
    for text in ["30", "s", "-1s", "1.5s", "61m", "99999999999999999999s", "9999999999999999999m", "1h"] {
        assert!(usage(&format!("--config d --grace={text}")).contains("500ms"), "{text}");
    }
}

#[test]
fn help_version_and_the_limits_are_answers_rather_than_errors() {
    for (line, said) in [("--help", "--outbound <ADDR>"), ("--version", "leno-proxy "), ("--limit help", "Limits")] {
        match read(line) {
            Err(Exit::Answer(text)) => assert!(text.contains(said), "{line}: {text}"),
            other => panic!("{line} gave {other:?}"),
        }
    }
}

#[test]
fn with_an_identity_there_are_both_sides_and_a_tunnel() {
    let args = read("--config d --identity ns/shop/sa/cart --issuer ca").expect("good flags");
    let usual = [
        (Door::Outbound, address("127.0.0.1:4140")),
        (Door::Inbound, address("0.0.0.0:4143")),
        (Door::Tunnel, address("0.0.0.0:15008")),
    ];
    assert_eq!(args.listen(), usual);
}

#[test]
fn addresses_that_are_given_are_the_only_ones() {
    let args =
        read("--config d --identity ns/a/sa/b --issuer ca --inbound [::]:1 --inbound 127.0.0.1:2").expect("good flags");
    assert_eq!(args.listen(), [(Door::Inbound, address("[::]:1")), (Door::Inbound, address("127.0.0.1:2"))]);
}

#[test]
fn an_identity_needs_an_issuer_and_has_a_form() {
    let alone = usage("--config d --identity ns/shop/sa/cart");
    assert!(alone.contains("--issuer"), "{alone}");
    let bad = usage("--config d --issuer ca --identity cart");
    assert!(bad.contains("ns/<namespace>/sa/<service-account>"), "{bad}");
}

#[test]
fn the_cluster_networks_have_a_default_and_must_be_networks() {
    let networks = |line: &str| {
        let networks = read(line).expect("it is right").cluster_networks;
        networks.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    };
    let base = "--control localhost:15010";
    assert_eq!(networks(base), leno_model::proxy::CLUSTER_NETWORKS);
    assert_eq!(networks(&format!("{base} --cluster-networks 10.0.0.0/8,2001:db8::/32")), "10.0.0.0/8,2001:db8::/32");
    assert_eq!(networks(&format!("{base} --cluster-networks 0.0.0.0/0,::/0")), "0.0.0.0/0,::/0");
    for wrong in ["10.0.0.0/33", "cluster"] {
        assert!(usage(&format!("{base} --cluster-networks={wrong}")).contains("10.0.0.0/8"), "{wrong:?}");
    }
    usage("--config dir --cluster-networks 10.0.0.0/8");
}

#[test]
fn the_time_to_connect_to_an_address_without_a_service_can_be_set() {
    let limits = |line: &str| {
        let words = ["leno-proxy"].into_iter().chain(line.split_whitespace());
        Args::read(words.map(OsString::from)).map(|(_, limits)| limits.relay.egress_connect_timeout_ms)
    };
    let base = "--config dir --outbound 127.0.0.1:4140";
    assert_eq!(limits(base), Ok(1_000));
    assert_eq!(limits(&format!("{base} --egress-connect-timeout 5s")), Ok(5_000));
    assert_eq!(limits(&format!("{base} --egress-connect-timeout 5s --limit egress_connect_timeout_ms=20")), Ok(20));
    for wrong in ["9ms", "61s", "5"] {
        assert!(usage(&format!("{base} --egress-connect-timeout {wrong}")).contains("write 10ms to 1m"), "{wrong}");
    }
}
