use super::*;

fn sample(line: &str) -> Sample {
    Scrape::parse(line).all("request_total", &[]).next().expect("a sample").clone()
}

fn service(namespace: Option<&str>, name: &str, port: Option<&str>) -> Destination {
    Destination::Service {
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
        port: port.map(str::to_owned),
    }
}

#[test]
fn a_destination_is_a_service_as_clients_name_it() {
    for (text, expected) in [
        ("echo", service(None, "echo", None)),
        ("svc/echo", service(None, "echo", None)),
        ("echo.shop", service(Some("shop"), "echo", None)),
        ("echo.shop.svc.cluster.local:50051", service(Some("shop"), "echo", Some("50051"))),
    ] {
        assert_eq!(text.parse(), Ok(expected), "{text}");
    }
    for wrong in
        ["", ".shop", "echo.", "echo:port", "echo.shop.other", "deploy/echo", "shop/echo", "svc/", "Echo", "echo.a_b"]
    {
        wrong.parse::<Destination>().expect_err(wrong);
    }
}

#[test]
fn a_destination_without_a_namespace_is_in_the_clients() {
    let called = Destination::of(&sample(
        "request_total{direction=\"outbound\",dst_namespace=\"shop\",dst_service=\"echo\",dst_port=\"50051\"} 1",
    ));
    assert_eq!(called.to_string(), "echo.shop:50051");
    assert!(service(None, "echo", None).covers(&called, "shop"));
    assert!(!service(None, "echo", None).covers(&called, "other"));
    assert!(service(Some("shop"), "echo", Some("50051")).covers(&called, "other"));
    assert!(!service(Some("shop"), "echo", Some("80")).covers(&called, "shop"));
    let other = Destination::of(&sample("request_total{direction=\"outbound\",tls=\"no_identity\"} 1"));
    assert_eq!(other.to_string(), "other addresses");
    assert!(!service(None, "echo", None).covers(&other, "shop"));
}

#[test]
fn a_caller_is_a_service_account_or_a_client_without_an_identity() {
    let web = sample("request_total{direction=\"inbound\",client_id=\"spiffe://cluster.local/ns/shop/sa/web\"} 1");
    let nobody = sample("request_total{direction=\"inbound\",tls=\"no_identity\"} 1");
    for text in ["web", "shop/web", "ns/shop/sa/web"] {
        let caller: Caller = text.parse().expect("a caller");
        assert!(caller.made(&web, "shop") && !caller.made(&nobody, "shop"), "{text}");
    }
    assert!(!"web".parse::<Caller>().expect("a caller").made(&web, "other"));
    assert!(!"eb".parse::<Caller>().expect("a caller").made(&web, "shop"));
    let anonymous: Caller = "-".parse().expect("a caller");
    assert!(anonymous.made(&nobody, "shop") && !anonymous.made(&web, "shop"));
    for wrong in ["", "/web", "a/b/c", "ns/shop/web/sa"] {
        wrong.parse::<Caller>().expect_err(wrong);
    }
}

#[test]
fn probes_of_kubelets_are_no_calls() {
    let probe = sample("request_total{direction=\"inbound\",tls=\"no_identity\",no_tls_reason=\"probe\"} 1");
    assert!(!View::Inbound(None).has(&probe));
}
