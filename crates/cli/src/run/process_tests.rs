use super::*;

/// The proxy's arguments, joined by spaces.
fn args(has_v6: bool) -> String {
    let workload = "ns/shop/sa/cart".parse().expect("a workload");
    let args = proxy_args(Path::new("/run/leno/manifests"), &workload, Path::new("/run/leno/runs/2/issuer"), has_v6);
    args.iter().map(|arg| arg.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_proxy_listens_where_interception_sends_connections() {
    let both = args(true);
    for arg in ["--outbound=127.0.0.1:4140", "--outbound=[::1]:4140", "--inbound=[::]:4143", "--tunnel=[::]:15008"] {
        assert!(both.contains(arg), "{arg}: {both}");
    }
    assert!(both.contains("--identity=ns/shop/sa/cart"), "{both}");
    // Compare the ports: the crate `leno_intercept` defines them a second time, because it depends on no other crate.
    let ports = [proxy::INBOUND_PORT, proxy::OUTBOUND_PORT, proxy::TUNNEL_PORT, proxy::ADMIN_PORT];
    assert_eq!(leno_intercept::Redirection::new(proxy::UID).proxy_ports(), ports);
}

#[test]
fn on_a_kernel_without_ipv6_the_proxy_listens_on_ipv4_only() {
    let v4 = args(false);
    assert!(!v4.contains("::"), "{v4}");
    assert!(v4.contains("--inbound=0.0.0.0:4143") && v4.contains("--tunnel=0.0.0.0:15008"), "{v4}");
}

#[test]
fn the_end_of_a_log_is_its_last_lines_that_are_not_empty() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    assert_eq!(last_lines(file.path(), 2), "it wrote nothing");
    fs::write(file.path(), "first\nmiddle\n\nlast\n\n").expect("it is written");
    assert_eq!(last_lines(file.path(), 1), "last");
    assert_eq!(last_lines(file.path(), 2), "middle / last");
    assert_eq!(last_lines(file.path(), 9), "first / middle / last");
}
