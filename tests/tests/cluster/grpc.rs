//! A gRPC program in a Pod without a proxy: its identity comes from `leno.dev/inject: grpc`.

use leno_tests::kubernetes::Cluster;
use leno_tests::programs::text;
use leno_tests::proxy::wait_for;

use super::user::{PATIENCE, cluster_with_images, image, install_a_meshed_pair, metric, nothing_is_left, state};

/// The caller, which runs grpc-go, and a policy that leaves it out.
const CALLER: &str = r"---
apiVersion: v1
kind: ServiceAccount
metadata: {name: caller, namespace: shop}
---
apiVersion: v1
kind: Pod
metadata:
  name: caller
  namespace: shop
  annotations: {leno.dev/inject: grpc}
spec:
  serviceAccountName: caller
  terminationGracePeriodSeconds: 1
  securityContext: {runAsUser: 1000, runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: caller
    image: IMAGE
    command: [/leno, echo, '--listen=0.0.0.0:50051']
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}, readOnlyRootFilesystem: true}
";
const POLICY: &str = "\
apiVersion: leno.dev/v1alpha1
kind: AuthorizationPolicy
metadata: {name: only-web, namespace: shop}
spec:
  allow: [{identities: [ns/shop/sa/web]}]
";

/// So many calls from the Pod: how often each status was met.
fn call(cluster: &Cluster, count: u32) -> String {
    let count = count.to_string();
    let program = ["/xds-client", "xds:///echo.shop:50051", "call", "/leno.echo.v1.Echo/Unary", &count];
    let exec = ["-n", "shop", "exec", "caller", "-c", "caller", "--"];
    let output = cluster.try_kubectl(&[&exec[..], &program].concat());
    assert!(output.status.success(), "{}\n{}", text(&output), state(cluster));
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

#[test]
fn a_grpc_program_without_a_proxy_calls_a_meshed_service_by_mutual_tls() {
    let Some(cluster) = cluster_with_images() else { return };
    install_a_meshed_pair(&cluster);
    cluster.apply(&CALLER.replace("IMAGE", &image("leno-tools")));
    let ready = ["-n", "shop", "wait", "--for=condition=Ready", "pod/caller", "--timeout=120s"];
    let waited = cluster.try_kubectl(&ready);
    let log = || text(&cluster.try_kubectl(&["-n", "shop", "logs", "caller", "-c", "leno-grpc"]));
    assert!(waited.status.success(), "{}\n{}\n{}", text(&waited), log(), state(&cluster));
    let names = cluster.kubectl(&["-n", "shop", "get", "pod/caller", "-o", "jsonpath={.spec.initContainers[*].name}"]);
    assert_eq!(names, "leno-grpc");

    assert_eq!(call(&cluster, 20), "OK=20");
    let client = "client_id=\"spiffe://cluster.local/ns/shop/sa/caller\"";
    let came = metric(&cluster, "app=echo", "response_total", &["direction=\"inbound\"", "tls=\"true\"", client]);
    assert!(came >= 20.0, "{came} calls came from the Pod by mutual TLS\n{}", state(&cluster));

    cluster.apply(POLICY);
    wait_for("the policy", PATIENCE, || (call(&cluster, 5) == "PermissionDenied=5").then_some(()));
    cluster.kubectl(&["-n", "shop", "delete", "authorizationpolicy", "only-web"]);
    wait_for("the policy is gone", PATIENCE, || (call(&cluster, 5) == "OK=5").then_some(()));
    nothing_is_left(&cluster);
}
