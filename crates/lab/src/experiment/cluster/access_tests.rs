use std::convert::Infallible;

use http::Response;
use kube::Client as KubeClient;
use kube::client::Body;
use serde_json::{Value, json};

use super::*;
use crate::experiment::record::TargetKind;

fn pod(name: &str, is_ready: bool) -> Value {
    let ready = if is_ready { "True" } else { "False" };
    json!({
        "metadata": {"name": name},
        "spec": {"containers": [{"name": name, "image": format!("example/{name}:1")}]},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    })
}

/// A cluster with these Pods. Each Pod has its labels, its name, and whether it is ready.
fn cluster(pods: &'static [(&'static str, &'static str, bool)]) -> Access {
    let api = tower::service_fn(move |request: http::Request<Body>| {
        let labels = request.uri().query().and_then(|query| query.split_once("labelSelector=")).expect("labels").1;
        let labels = labels.replace("%3D", "=").replace("%2F", "/").replace("%2C", ",");
        let found = pods.iter().filter(|(of, ..)| labels == *of).map(|(_, name, is_ready)| pod(name, *is_ready));
        let list = json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": found.collect::<Vec<_>>()});
        let answer = Response::new(Body::from(list.to_string().into_bytes()));
        std::future::ready(Ok::<_, Infallible>(answer))
    });
    Access { client: KubeClient::new(api, "default") }
}

const LINKERD: &str = "linkerd.io/control-plane-component";
const BROKEN_LINKERD: &[(&str, &str, bool)] =
    &[(LINKERD, "destination", false), (LINKERD, "proxy-injector", false), ("app=kuma-control-plane", "kuma-cp", true)];

#[tokio::test]
async fn a_found_mesh_without_a_ready_pod_is_left_out_with_the_reason() {
    let Meshes { measured, left_out } = cluster(BROKEN_LINKERD).meshes(None).await.expect("meshes");
    let versions: Vec<(Mesh, &str)> = measured.iter().map(|(mesh, version)| (*mesh, &version.version[..])).collect();
    assert_eq!(versions, [(Mesh::None, "no mesh"), (Mesh::Kuma, "example/kuma-cp:1")]);
    let [Skipped { target: TargetKind::Linkerd, why }] = &left_out[..] else { panic!("{left_out:?}") };
    let wanted = "found in the cluster, but unusable: no Pod with the labels linkerd.io/control-plane-component is \
        ready; see kubectl get pods -A -l linkerd.io/control-plane-component";
    assert_eq!(why, wanted);
}

#[tokio::test]
async fn a_requested_mesh_that_does_not_work_or_is_not_there_is_an_error() {
    for (mesh, why) in [
        (Mesh::Linkerd, "--mesh linkerd: the mesh does not work: no Pod with the labels "),
        (Mesh::Istio, "--mesh istio: the cluster has no Pod with the labels app=istiod: install the mesh"),
    ] {
        let error = cluster(BROKEN_LINKERD).meshes(Some(&[Mesh::None, mesh])).await.expect_err(why).to_string();
        assert!(error.starts_with(why) && error.lines().count() == 1, "{error}");
    }
}

#[tokio::test]
async fn one_ready_pod_of_a_mesh_is_enough() {
    let access = cluster(&[(LINKERD, "destination", false), (LINKERD, "identity", true)]);
    let meshes = access.meshes(Some(&[Mesh::Linkerd])).await.expect("meshes");
    assert_eq!(meshes.measured[0].1.version, "example/identity:1");
}

#[tokio::test]
async fn shared_proxies_need_their_control_plane() {
    let access = cluster(&[("app=ztunnel", "ztunnel", true), ("app=istiod", "istiod", false)]);
    let Meshes { measured, left_out } = access.meshes(None).await.expect("meshes");
    assert_eq!(measured.len(), 1, "{measured:?}");
    let targets: Vec<TargetKind> = left_out.iter().map(|skipped| skipped.target).collect();
    assert_eq!(targets, [TargetKind::Istio, TargetKind::Ambient]);
    assert!(left_out[1].why.contains("labels app=istiod"), "{}", left_out[1].why);
}
