use serde_json::json;

use super::*;

/// A Pod with a proxy, or with the sidecar of a gRPC program.
fn meshed(name: &str, version: &str) -> Pod {
    let container = json!({"name": name, "image": format!("leno-proxy:{version}")});
    let metadata = json!({"name": "web-1"});
    serde_json::from_value(json!({"metadata": metadata, "spec": {"containers": [container]}})).expect("a Pod")
}

fn shown(cluster: Option<ClusterVersions>) -> String {
    text(&Versions { client: "0.1.0", cluster })
}

#[test]
fn the_control_plane_and_the_proxies_are_told_by_version() {
    let labels = json!({"app.kubernetes.io/version": "0.2.0"});
    let deployment = json!({"metadata": {"labels": labels}, "spec": {"selector": {}, "template": {}}});
    let deployment = serde_json::from_value(deployment).expect("a Deployment");
    let meshed = [
        meshed("leno-proxy", "0.1.0"),
        meshed("leno-proxy", "0.2.0"),
        meshed("leno-grpc", "0.1.0"),
        meshed("app", "9"),
    ];
    assert_eq!(
        shown(Some(known(Some(&deployment), &meshed))),
        "leno 0.1.0\ncontrol plane: 0.2.0\nproxies: 2 of 0.1.0\nproxies: 1 of 0.2.0\n"
    );
}

#[test]
fn without_a_control_plane_or_a_cluster_that_is_told() {
    assert_eq!(shown(Some(known(None, &[]))), "leno 0.1.0\ncontrol plane: none; leno install | kubectl apply -f -\n");
    assert_eq!(
        shown(Some(ClusterVersions::Unknown("there is no kubeconfig; set KUBECONFIG".to_owned()))),
        "leno 0.1.0\ncontrol plane: not known: there is no kubeconfig; set KUBECONFIG\n"
    );
    assert_eq!(shown(None), "leno 0.1.0\n");
}
