use super::*;

const ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8080);

fn yaml(app_protocol: Option<&str>, proxy: Option<Proxy>) -> String {
    let endpoints = [Endpoint { address: ADDRESS, proxy }];
    Service { name: "b", cluster_ip: None, port: 80, app_protocol, balancer: "latency", endpoints: &endpoints }
        .to_yaml()
}

#[test]
fn an_endpoint_in_a_mesh_says_whose_proxy_is_on_which_port() {
    let proxy = Proxy { identity: "ns/lab/sa/server", inbound_port: 4143, tunnel_port: 15008 };
    let yaml = yaml(None, Some(proxy));
    let (_, slice) = yaml.split_once("---").expect("a slice after the Service");
    for line in [
        "  annotations:",
        "    leno.dev/identity: ns/lab/sa/server",
        "    leno.dev/inbound-port: \"4143\"",
        "    leno.dev/tunnel-port: \"15008\"",
        "addressType: IPv4",
    ] {
        assert!(slice.lines().any(|l| l == line), "{line}: {slice}");
    }
}

#[test]
fn an_endpoint_in_clear_has_no_annotations() {
    let yaml = yaml(Some("kubernetes.io/h2c"), None);
    let (service, slice) = yaml.split_once("---").expect("a slice after the Service");
    assert!(service.contains("appProtocol: kubernetes.io/h2c"), "{service}");
    assert!(!slice.contains("leno.dev/"), "{slice}");
}
