use super::*;

fn service(text: &str) -> ServicePort {
    ServicePort::parse(text, "shop").unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn a_service_is_named_as_callers_name_it() {
    for host in ["web", "web.shop", "web.shop.svc", "web.shop.svc.cluster.local", "web.shop.svc.a.example."] {
        let (bare, full) = (service(host), service(&format!("{host}:80")));
        assert_eq!((bare.host().as_str(), bare.port), ("web.shop", None), "{host}");
        assert_eq!((full.host().as_str(), full.port), ("web.shop", Some(80)), "{host}");
    }
    for wrong in ["", "web:http", "web:", ":80", "web.shop.example:80", "web.shop.example", "web:70000"] {
        ServicePort::parse(wrong, "shop").expect_err(wrong);
    }
}

#[test]
fn the_only_port_may_be_left_out() {
    assert_eq!(service("echo").choose(vec![50051]), Ok(50051));
    assert_eq!(service("echo:443").choose(vec![80, 443]), Ok(443));
}

#[test]
fn a_port_that_the_service_lacks_is_refused_with_the_ports_that_it_has() {
    let refused = |text: &str, ports: &[u16]| service(text).choose(ports.to_vec()).expect_err(text).to_string();
    assert_eq!(refused("echo", &[50051, 80]), "Service echo.shop has 2 ports; write echo.shop:80 or 50051");
    assert_eq!(refused("echo:81", &[50051]), "Service echo.shop has no port 81; write echo.shop:50051");
    assert_eq!(refused("echo", &[]), "Service echo.shop has no port for TCP; kubectl describe service echo -n shop");
    let many: Vec<u16> = (1..=20).collect();
    assert!(refused("echo", &many).ends_with("or 8 or ... (20 ports)"), "{}", refused("echo", &many));
}
