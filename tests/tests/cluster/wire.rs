//! What crosses from node to node: nothing that two meshed Pods say.

use leno_tests::kubernetes::{Capture, Cluster};
use leno_tests::programs::text;
use leno_tests::proxy::wait_for;
use serde_json::Value;

use super::load::{Load, METHOD, in_client};
use super::user::{PATIENCE, image, state};

/// What is said to a meshed Pod, and the same in base64.
const SECRET: (&[u8], &str) =
    (b"nobody between the nodes may read this", "bm9ib2R5IGJldHdlZW4gdGhlIG5vZGVzIG1heSByZWFkIHRoaXM=");
/// What is said to a Pod without a proxy, by the same client on the same way.
const OPEN: (&[u8], &str) =
    (b"whoever is between the nodes may read this", "d2hvZXZlciBpcyBiZXR3ZWVuIHRoZSBub2RlcyBtYXkgcmVhZCB0aGlz");

/// A server on one node, alone behind a Service of its name.
fn server(name: &str, node: &str, inject: &str) -> String {
    let image = image("leno");
    format!(
        r#"---
apiVersion: v1
kind: Service
metadata: {{name: {name}, namespace: shop}}
spec:
  selector: {{app: {name}}}
  ports: [{{port: 50051, appProtocol: kubernetes.io/h2c}}]
---
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  namespace: shop
  labels: {{app: {name}}}
  annotations: {{leno.dev/inject: {inject}}}
spec:
  nodeName: {node}
  terminationGracePeriodSeconds: 1
  containers:
  - name: echo
    image: {image}
    args: [echo, "--listen=0.0.0.0:50051"]
"#
    )
}

/// A hundred calls from the client's Pod to a Service, all of which must succeed.
fn say(cluster: &Cluster, service: &str, payload: &str) -> Option<()> {
    let (data, address) = (format!("{{\"payload\":\"{payload}\"}}"), format!("{service}:50051"));
    let ghz = ["/ghz", "--insecure", "--call", METHOD, "-d", &data, "-n", "100", "-c", "4"];
    let output = cluster.try_kubectl(&in_client(&[&ghz[..], &["-O", "json", &address]].concat()));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output)));
    (report["statusCodeDistribution"] == serde_json::json!({"OK": 100})).then_some(())
}

/// A node that the client does not run on.
fn other_node(cluster: &Cluster) -> String {
    let own =
        cluster.kubectl(&["-n", "shop", "get", "pods", "-l", "app=web", "-o", "jsonpath={.items[0].spec.nodeName}"]);
    let nodes = cluster.kubectl(&["get", "nodes", "-o", "jsonpath={.items[*].metadata.name}"]);
    nodes.split_whitespace().find(|node| *node != own).expect("there are two nodes").to_owned()
}

/// Records the wire between the nodes while the client calls, under load: what it says to a Pod with a proxy is not there, and
/// what it says to one without is.
pub(super) fn nothing_crosses_in_clear(cluster: &Cluster) {
    let Some(capture) = Capture::start(cluster) else { return };
    let node = other_node(cluster);
    cluster.apply(&[server("far", &node, "enabled"), server("bare", &node, "disabled")].concat());
    cluster.kubectl(&["-n", "shop", "wait", "--for=condition=Ready", "pod/far", "pod/bare", "--timeout=120s"]);

    let load = Load::start(cluster, 10);
    wait_for("calls to a meshed Pod on another node", PATIENCE, || say(cluster, "far", SECRET.1));
    wait_for("calls to a Pod without a proxy there", PATIENCE, || say(cluster, "bare", OPEN.1));
    load.end().assert_well(1_000);

    let frames = capture.stop();
    assert!(frames.contain(OPEN.0), "the capture saw nothing of calls in clear\n{}", state(cluster));
    assert!(frames.contain(b"50051.leno.internal"), "no handshake with a proxy was seen\n{}", state(cluster));
    assert!(!frames.contain(SECRET.0), "what was said to a meshed Pod crossed in clear");
    cluster.kubectl(&["-n", "shop", "delete", "pod/far", "pod/bare", "service/far", "service/bare"]);
}
