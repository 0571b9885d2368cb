use super::{Authority, Host, KnownPorts, Unroutable, parse};

fn service<'a>(name: &'a str, namespace: impl Into<Option<&'a str>>, port: u16) -> Authority<'a> {
    let host = Host::Service { name, namespace: namespace.into() };
    Authority { host, port }
}

#[test]
fn every_form_of_a_service_name_is_read() {
    for (authority, expected) in [
        ("echo", service("echo", None, 80)),
        ("echo:50051", service("echo", None, 50051)),
        ("echo.", service("echo", None, 80)),
        ("echo.shop", service("echo", "shop", 80)),
        ("echo.shop:", service("echo", "shop", 80)),
        ("echo.shop.:443", service("echo", "shop", 443)),
        ("echo.shop.svc:1", service("echo", "shop", 1)),
        ("echo.shop.svc.cluster.local:65535", service("echo", "shop", 65535)),
        ("ECHO.Shop.SVC.Cluster.LOCAL.:0080", service("ECHO", "Shop", 80)),
    ] {
        assert_eq!(parse(authority.as_bytes()).as_ref(), Ok(&expected), "{authority}");
    }
}

#[test]
fn addresses_are_read_in_both_families() {
    for (authority, address, port) in [
        ("10.96.0.10", "10.96.0.10", 80),
        ("10.96.0.10:50051", "10.96.0.10", 50051),
        ("[fd00::10]", "fd00::10", 80),
        ("[fd00::10]:50051", "fd00::10", 50051),
    ] {
        let host = Host::Address(address.parse().expect("an address"));
        assert_eq!(parse(authority.as_bytes()), Ok(Authority { host, port }), "{authority}");
    }
}

#[test]
fn what_is_not_an_authority_is_refused() {
    let long = "a.".repeat(130);
    let long_label = "a".repeat(64);
    for authority in [
        "",
        ":80",
        ".",
        "..",
        "echo..shop",
        ".echo",
        "echo:0",
        "echo:65536",
        "echo:99999999999",
        "echo:+80",
        "echo:8 0",
        "echo:80:80",
        "user@echo",
        "echo/path",
        "echo shop",
        "e%63ho",
        "fd00::10",
        "[fd00::10",
        "[fd00::10]80",
        "[10.0.0.1]",
        "[]",
        "echo\r\n",
        "caf\u{e9}",
        &long,
        &long_label,
    ] {
        assert_eq!(parse(authority.as_bytes()), Err(Unroutable::NotAnAuthority), "{authority:?}");
    }
    assert_eq!(parse(b"\xff\xfe"), Err(Unroutable::NotAnAuthority));
}

#[test]
fn host_names_that_no_service_has_are_named() {
    for host in ["www.example.com", "echo.shop.pod", "echo.shop.svc.cluster", "a.b.svc.cluster.local.c"] {
        assert_eq!(parse(host.as_bytes()), Err(Unroutable::NotAService { host: host.into() }));
    }
}

#[test]
fn refusals_say_what_to_write() {
    let service = || Box::from("echo");
    let namespace = || Box::from("shop");
    let known = |shown: &[u16], count| KnownPorts { shown: shown.into(), count };
    let unknown_port = |known| Unroutable::UnknownPort { service: service(), namespace: namespace(), port: 80, known };
    for (refusal, text) in [
        (unknown_port(known(&[50051], 1)), "Service echo in namespace shop has no port 80: write echo.shop:50051"),
        (
            unknown_port(known(&[1, 2], 9)),
            "Service echo in namespace shop has no port 80: write echo.shop:1 or 2 or ... (9 ports)",
        ),
        (
            Unroutable::UnknownService { service: service(), namespace: namespace() },
            "there is no Service echo in namespace shop: check the :authority, or define it",
        ),
        (
            Unroutable::UnknownServicePort { service: service(), namespace: namespace(), port: 80 },
            "there is no Service echo in namespace shop with port 80: check the :authority, or define it",
        ),
    ] {
        assert_eq!(refusal.to_string(), text);
    }
}
