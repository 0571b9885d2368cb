use super::*;

#[test]
fn a_target_has_a_host_as_clients_write_it() {
    let service = |port| TargetKey::Service(ClusterKey { namespace: "shop".into(), service: "web".into(), port });
    assert_eq!(service(8080).host(), "web.shop.svc.cluster.local:8080");
    assert_eq!(service(80).host(), "web.shop.svc.cluster.local");
    for (address, host) in [
        ("10.0.0.1:8080", "10.0.0.1:8080"),
        ("10.0.0.1:80", "10.0.0.1"),
        ("[fd00::1]:8080", "[fd00::1]:8080"),
        ("[fd00::1]:80", "[fd00::1]"),
    ] {
        let address = address.parse().expect("an address");
        assert_eq!(TargetKey::Address(address).host(), host);
        assert_eq!(TargetKey::Local(address).host(), host);
    }
}
