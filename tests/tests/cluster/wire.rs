//! The traffic between nodes: the content of calls between two meshed Pods is never sent unencrypted.

use std::io::{Read, Write};
use std::net::TcpStream;

use leno_tests::kubernetes::{Capture, Cluster};
use leno_tests::programs::text;
use leno_tests::proxy::wait_for;
use serde_json::Value;

use super::load::{Load, METHOD, in_client};
use super::user::{PATIENCE, image, metric, state};

/// The content of calls to a meshed Pod, and the same content in base64.
const SECRET: (&[u8], &str) =
    (b"nobody between the nodes may read this", "bm9ib2R5IGJldHdlZW4gdGhlIG5vZGVzIG1heSByZWFkIHRoaXM=");
/// The content of calls to a meshed Pod that has no Service. The client calls the Pod's address.
const SECRET_BY_ADDRESS: (&[u8], &str) =
    (b"nor what is said to a Pod by its address", "bm9yIHdoYXQgaXMgc2FpZCB0byBhIFBvZCBieSBpdHMgYWRkcmVzcw==");
/// The content of calls to a Pod without a proxy. The Pod is on the node of the meshed Pods, and the client is the
/// same.
const OPEN: (&[u8], &str) =
    (b"whoever is between the nodes may read this", "d2hvZXZlciBpcyBiZXR3ZWVuIHRoZSBub2RlcyBtYXkgcmVhZCB0aGlz");

/// Returns a Service with one server.
pub(super) fn service(name: &str) -> String {
    format!(
        r#"---
apiVersion: v1
kind: Service
metadata: {{name: {name}, namespace: shop}}
spec:
  selector: {{app: {name}}}
  ports: [{{port: 50051, appProtocol: kubernetes.io/h2c}}]
"#
    )
}

/// Returns a server's Pod on this node.
pub(super) fn server(name: &str, node: &str, inject: &str) -> String {
    let image = image("leno");
    format!(
        r#"---
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

/// Makes 100 calls from the client's Pod to a host. Returns `None` if one of them fails.
fn say(cluster: &Cluster, host: &str, payload: &str) -> Option<()> {
    let (data, address) = (format!("{{\"payload\":\"{payload}\"}}"), format!("{host}:50051"));
    let ghz = ["/ghz", "--insecure", "--call", METHOD, "-d", &data, "-n", "100", "-c", "4"];
    let output = cluster.try_kubectl(&in_client(&[&ghz[..], &["-O", "json", &address]].concat()));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output)));
    (report["statusCodeDistribution"] == serde_json::json!({"OK": 100})).then_some(())
}

/// Returns a node on which the client does not run.
pub(super) fn other_node(cluster: &Cluster) -> String {
    let own =
        cluster.kubectl(&["-n", "shop", "get", "pods", "-l", "app=web", "-o", "jsonpath={.items[0].spec.nodeName}"]);
    let nodes = cluster.kubectl(&["get", "nodes", "-o", "jsonpath={.items[*].metadata.name}"]);
    nodes.split_whitespace().find(|node| *node != own).expect("there are two nodes").to_owned()
}

/// Checks that a Pod's proxy rejects bytes that are not HTTP on a port that a Service declares to be HTTP. A lenient
/// server could treat such bytes as a request. The Pod's application calls no Service, so the proxy must receive the
/// declaration without a request for the Service.
fn only_http_reaches_a_port_that_its_service_declares(cluster: &Cluster, name: &str) {
    let address = cluster.kubectl(&["-n", "shop", "get", "pod", name, "-o", "jsonpath={.status.podIP}"]);
    let (pods, labels) = (format!("app={name}"), ["direction=\"inbound\"", "why=\"not-http\""]);
    wait_for("a connection that is not HTTP is turned away", PATIENCE, || {
        let mut stream = TcpStream::connect((&*address, 50051)).ok()?;
        stream.write_all(b"\r\n\0not HTTP").ok()?;
        // The proxy closes or resets the connection.
        let _ = stream.read(&mut [0]);
        (metric(cluster, &pods, "leno_connections_failed_total", &labels) > 0.0).then_some(())
    });
}

/// Captures the traffic between the nodes while the client calls, under load. The capture must not contain the content
/// of calls to Pods with a proxy. It must contain the content of calls to a Pod without a proxy.
pub(super) fn nothing_crosses_in_clear(cluster: &Cluster) {
    let Some(capture) = Capture::start(cluster) else { return };
    let node = other_node(cluster);
    let pods = [server("far", &node, "enabled"), server("alone", &node, "enabled"), server("bare", &node, "disabled")];
    cluster.apply(&[pods.concat(), service("far"), service("bare")].concat());
    let ready = ["-n", "shop", "wait", "--for=condition=Ready", "--timeout=120s"];
    cluster.kubectl(&[&ready[..], &["pod/far", "pod/alone", "pod/bare"]].concat());
    let alone = cluster.kubectl(&["-n", "shop", "get", "pod", "alone", "-o", "jsonpath={.status.podIP}"]);

    only_http_reaches_a_port_that_its_service_declares(cluster, "far");

    let load = Load::start(cluster, 10);
    wait_for("calls to a meshed Pod on another node", PATIENCE, || say(cluster, "far", SECRET.1));
    wait_for("calls to a meshed Pod by its address", PATIENCE, || say(cluster, &alone, SECRET_BY_ADDRESS.1));
    wait_for("calls to a Pod without a proxy there", PATIENCE, || say(cluster, "bare", OPEN.1));
    load.end().assert_well(1_000);

    let frames = capture.stop();
    assert!(frames.contain(OPEN.0), "the capture saw nothing of calls in clear\n{}", state(cluster));
    assert!(frames.contain(b"50051.leno.internal"), "no handshake with a proxy was seen\n{}", state(cluster));
    for said in [SECRET.0, SECRET_BY_ADDRESS.0] {
        assert!(!frames.contain(said), "{:?}, said to a meshed Pod, crossed in clear", String::from_utf8_lossy(said));
    }
    let client = "client_id=\"spiffe://cluster.local/ns/shop/sa/web\"";
    let named = metric(cluster, "app=alone", "response_total", &["direction=\"inbound\"", "tls=\"true\"", client]);
    assert!(named >= 100.0, "{named} calls by address came with the client's identity");
    let names = ["pod/far", "pod/alone", "pod/bare", "service/far", "service/bare"];
    cluster.kubectl(&[&["-n", "shop", "delete"], &names[..]].concat());
}
