//! Real proxies get their certificates with their Pods' tokens. Then they get the mesh's configuration over mutual TLS.

use std::fs;
use std::path::Path;
use std::time::Duration;

use leno_tests::control::Control;
use leno_tests::kubernetes::Cluster;
use leno_tests::proxy::Proxy;
use tempfile::TempDir;

use super::identity::{bundle, token};

/// Longest time for a step of a test: longer than a proxy's longest retry interval.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Starts a proxy that requests its certificate with the files `token` and `ca.crt` of a directory.
pub(super) fn start(control: &Control, workload: &str, directory: &Path) -> Proxy {
    let file = |name: &str| directory.join(name).display().to_string();
    Proxy::start_asking_early(
        control.xds(),
        &[
            &format!("--identity={workload}"),
            &format!("--issuer={}", control.identity()),
            &format!("--token={}", file("token")),
            &format!("--trust-bundle={}", file("ca.crt")),
            "--inbound=127.0.0.1:0",
            "--tunnel=127.0.0.1:0",
        ],
    )
}

#[test]
fn a_proxy_waits_for_its_certificate_and_then_asks_as_who_it_is() {
    let Some(cluster) = Cluster::get() else { return };
    cluster.namespace("proxied");
    cluster.apply("{apiVersion: v1, kind: ServiceAccount, metadata: {name: other, namespace: proxied}}");
    cluster.kubectl(&["annotate", "namespace", "proxied", "leno.dev/inject=enabled"]);
    let control = Control::start(&cluster);
    let directory = TempDir::new().expect("a directory");
    let file = |name: &str, text: &str| fs::write(directory.path().join(name), text).expect("a file");
    file("ca.crt", &bundle(&cluster, "proxied"));
    // Begin with the token of another service account, for which the control plane must not issue this proxy's
    // certificate.
    file("token", &token(&cluster, "proxied", "other", "leno.dev"));
    let mut proxy = start(&control, "ns/proxied/sa/default", directory.path());
    proxy.wait_for_log_within(&["no certificate yet", "only spiffe://cluster.local/ns/proxied/sa/other"], TIMEOUT);
    let (status, why) = proxy.get("/ready").expect("the admin listener answers");
    assert!(status == 503 && why.contains("waiting for the first certificate"), "{status} {why}");
    assert_eq!(proxy.get("/live").expect("the admin listener answers").0, 200);

    file("token", &token(&cluster, "proxied", "default", "leno.dev"));
    proxy.wait_for_log_within(&["an SVID was issued", "spiffe://cluster.local/ns/proxied/sa/default"], TIMEOUT);
    proxy.wait_until_ready();
    // The control plane accepts only clients with a certificate of the mesh.
    proxy.wait_for_log_within(&["connected to the control plane"], TIMEOUT);
}

#[test]
fn a_proxy_takes_no_certificate_from_whom_its_trust_bundle_does_not_vouch_for() {
    let Some(cluster) = Cluster::get() else { return };
    cluster.namespace("wary");
    let control = Control::start(&cluster);
    let directory = TempDir::new().expect("a directory");
    let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
    fs::write(path("token"), token(&cluster, "wary", "default", "leno.dev")).expect("a file");
    let make = [
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-subj",
        "/CN=somebody",
        "-keyout",
        &path("other.key"),
        "-out",
        &path("ca.crt"),
    ];
    leno_tests::programs::run_well("openssl", &make, TIMEOUT);
    let proxy = start(&control, "ns/wary/sa/default", directory.path());
    proxy.wait_for_log_within(&["no certificate yet", "trust bundle"], TIMEOUT);
    assert_eq!(proxy.get("/ready").expect("the admin listener answers").0, 503);
    assert!(!control.log().contains("ns/wary/sa/default"), "the token was sent: {}", control.log());
}
