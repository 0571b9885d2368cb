use super::*;

fn backends() -> Vec<SocketAddr> {
    [16_001, 16_002].map(|port| SocketAddr::from(([127, 0, 0, 1], port))).into()
}

#[test]
fn the_service_has_the_waypoint() {
    let network = Network::unused();
    let config = config(network, &backends());
    let service = &config["services"][0];
    assert_eq!(service["vips"][0], format!("/{}", network.service().ip()));
    assert_eq!(service["waypoint"]["destination"], format!("/{}", network.waypoint().ip()));
    assert_eq!(service["waypoint"]["hboneMtlsPort"], 15_008);
}

#[test]
fn every_workload_has_hbone_and_the_identity_of_its_certificate() {
    let network = Network::unused();
    let config = config(network, &backends());
    let workloads = config["workloads"].as_array().expect("a list");
    let accounts: Vec<&str> = workloads.iter().filter_map(|it| it["serviceAccount"].as_str()).collect();
    assert_eq!(accounts, ["client", "waypoint", "server"]);
    assert!(workloads.iter().all(|it| it["protocol"] == "HBONE" && it["trustDomain"] == "lab.local"));
    assert_eq!(workloads[2]["workloadIps"].as_array().map(Vec::len), Some(2));
}

#[test]
fn each_ztunnel_serves_the_workload_of_its_node() {
    let path = Path::new("/tmp/mesh.json");
    let certificates = SocketAddr::from(([10, 128, 0, 1], 15_012));
    let files = Files { config: path, certificates, authority: path, token: "token" };
    for (node, info) in [(Node::Client, "lab/client/client"), (Node::Servers, "lab/server/server")] {
        let launch = configure(Launch::new("ztunnel", "/opt/ztunnel", [""]), node, files);
        let value = |name| launch.env.iter().find(|(it, _)| it == name).and_then(|(_, value)| value.to_str());
        assert_eq!(value("PROXY_WORKLOAD_INFO"), Some(info));
        assert_eq!(value("CA_ADDRESS"), Some("https://10.128.0.1:15012"));
        assert_eq!(value("ZTUNNEL_WORKER_THREADS"), Some("1"));
    }
}

#[test]
fn a_ztunnel_inherits_no_settings_of_the_users_shell() {
    let path = Path::new("/tmp/mesh.json");
    let files =
        Files { config: path, certificates: SocketAddr::from(([10, 128, 0, 1], 15_012)), authority: path, token: "" };
    let launch = configure(Launch::new("ztunnel", "/opt/ztunnel", [""]), Node::Client, files);
    assert_eq!(launch.inherited, Some(&INHERITED[..]));
    assert!(launch.env.contains(&("RUST_LOG".into(), "info".into())), "the level of Istio's chart: {:?}", launch.env);
}
