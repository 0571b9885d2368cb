//! Workloads get certificates for their own identity only, and the authority renews itself.
//!
//! The clients are grpcurl and openssl, which are independent of Leno.

use std::fs;
use std::path::Path;
use std::time::Duration;

use leno_tests::control::Control;
use leno_tests::kubernetes::Cluster;
use leno_tests::programs::{run, run_well, text};
use leno_tests::proxy::wait_for;
use serde_json::{Value, json};
use tempfile::TempDir;

const TIMEOUT: Duration = Duration::from_secs(20);

/// Longest time until another replica of the control plane leads. It is longer than the time after which that replica
/// notices that the leader has ended.
const LEASE_TIMEOUT: Duration = Duration::from_secs(60);

fn openssl(arguments: &[&str]) -> String {
    run_well("openssl", arguments, TIMEOUT)
}

fn path(directory: &TempDir, name: &str) -> String {
    directory.path().join(name).to_string_lossy().into_owned()
}

/// Returns a signing request, in base64, for a new key and the URI `uri`.
fn request(directory: &TempDir, uri: &str) -> String {
    let [key, csr] = ["workload.key", "workload.csr"].map(|name| path(directory, name));
    openssl(&["ecparam", "-genkey", "-name", "prime256v1", "-noout", "-out", &key]);
    let names = format!("subjectAltName=URI:{uri}");
    openssl(&["req", "-new", "-key", &key, "-subj", "/", "-addext", &names, "-outform", "DER", "-out", &csr]);
    openssl(&["base64", "-A", "-in", &csr])
}

/// Returns a new token of a ServiceAccount, which the API server issues.
pub(super) fn token(cluster: &Cluster, namespace: &str, account: &str, audience: &str) -> String {
    let printed = cluster.kubectl(&["-n", namespace, "create", "token", account, "--audience", audience]);
    printed.trim().to_owned()
}

/// Requests a certificate. Returns the answer, or grpcurl's error.
fn certify(control: &Control, csr: &str, token: &str) -> Result<Value, String> {
    let protos = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/xds/proto");
    let (data, address) = (json!({ "csr": csr, "token": token }).to_string(), control.identity().to_string());
    let output = run(
        "grpcurl",
        &[
            "-insecure",
            "-import-path",
            &protos.to_string_lossy(),
            "-proto",
            "leno/identity/v1/identity.proto",
            "-d",
            &data,
            &address,
            "leno.identity.v1.Identity/Certify",
        ],
        TIMEOUT,
    );
    match output.status.success() {
        true => Ok(serde_json::from_slice(&output.stdout).expect("JSON")),
        false => Err(text(&output)),
    }
}

/// Writes a certificate from an answer to a PEM file, and returns the file's path.
fn write_certificate(directory: &TempDir, name: &str, base64: &Value) -> String {
    let base64 = base64.as_str().expect("a certificate");
    let lines: Vec<&str> = (0..base64.len()).step_by(64).map(|at| &base64[at..base64.len().min(at + 64)]).collect();
    let path = path(directory, name);
    let text = format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"));
    fs::write(&path, text).expect("a file");
    path
}

/// Returns the trust bundle of a namespace, once it exists.
pub(super) fn bundle(cluster: &Cluster, namespace: &str) -> String {
    let arguments = ["-n", namespace, "get", "configmap", "leno-trust-bundle", "-o", "jsonpath={.data.ca\\.crt}"];
    wait_for("the trust bundle", Duration::from_secs(30), || {
        let output = cluster.try_kubectl(&arguments);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.success() && !text.is_empty()).then_some(text)
    })
}

#[test]
fn the_proxy_beside_it_is_told_whom_to_trust_and_the_kubelet_how_it_is() {
    let Some(cluster) = Cluster::get() else { return };
    let control = Control::start(&cluster);
    let written = wait_for("the trust bundle's file", TIMEOUT, || control.bundle_file().ok());
    assert_eq!(written, bundle(&cluster, "leno"));
    let status = |path: &str| control.probe(path).expect("it answers").0;
    assert_eq!((status("/live"), status("/ready")), (200, 200));
    for page in ["/", "/metrics", "/config", "/clients", "/log-level"] {
        assert_eq!(status(page), 404, "{page}");
    }
}

#[test]
fn a_workload_with_its_token_gets_its_certificate_and_peers_believe_it() {
    let Some(cluster) = Cluster::get() else { return };
    cluster.namespace("issued");
    cluster.kubectl(&["annotate", "namespace", "issued", "leno.dev/inject=enabled"]);
    let control = Control::start(&cluster);
    let directory = TempDir::new().expect("a directory");

    let id = "spiffe://cluster.local/ns/issued/sa/default";
    let csr = request(&directory, id);
    let answer = certify(&control, &csr, &token(&cluster, "issued", "default", "leno.dev")).expect("a certificate");

    let chain = answer["chain"].as_array().expect("a chain");
    let certificate = write_certificate(&directory, "workload.crt", &chain[0]);
    let intermediate = write_certificate(&directory, "intermediate.crt", &chain[1]);
    let anchors = path(&directory, "anchors.crt");
    fs::write(&anchors, bundle(&cluster, "issued")).expect("a file");
    openssl(&["verify", "-CAfile", &anchors, "-untrusted", &intermediate, &certificate]);
    let shown = openssl(&["x509", "-in", &certificate, "-noout", "-ext", "subjectAltName"]);
    assert!(shown.contains(&format!("URI:{id}\n")), "{shown}");
    let key = openssl(&["pkey", "-in", &path(&directory, "workload.key"), "-pubout"]);
    assert_eq!(openssl(&["x509", "-in", &certificate, "-noout", "-pubkey"]), key);

    // Check that a client with the trust bundle can verify the identity service's certificate.
    let address = control.identity().to_string();
    let seen = run("openssl", &["s_client", "-connect", &address, "-CAfile", &anchors, "-alpn", "h2"], TIMEOUT);
    assert!(text(&seen).contains("Verify return code: 0 (ok)"), "{}", text(&seen));
}

#[test]
fn nobody_gets_a_certificate_without_a_token_of_its_own() {
    let Some(cluster) = Cluster::get() else { return };
    cluster.namespace("refused");
    cluster.apply("{apiVersion: v1, kind: ServiceAccount, metadata: {name: other, namespace: refused}}");
    let control = Control::start(&cluster);
    let directory = TempDir::new().expect("a directory");
    let own = request(&directory, "spiffe://cluster.local/ns/refused/sa/default");
    let good = token(&cluster, "refused", "default", "leno.dev");

    let refused = |csr: &str, token: &str, words: &[&str]| {
        let why = certify(&control, csr, token).expect_err("no certificate");
        assert!(words.iter().all(|word| why.contains(word)), "{words:?}: {why}");
    };
    refused(&own, "", &["Unauthenticated", "there is no token"]);
    refused(&own, "nonsense", &["Unauthenticated", "is not accepted"]);
    let wrong_audience = token(&cluster, "refused", "default", "https://kubernetes.default.svc.cluster.local");
    refused(&own, &wrong_audience, &["Unauthenticated"]);
    let mut forged = good.clone();
    forged.replace_range(good.len() - 8.., "AAAAAAAA");
    refused(&own, &forged, &["Unauthenticated"]);
    let anothers = token(&cluster, "refused", "other", "leno.dev");
    refused(&own, &anothers, &["PermissionDenied", "only spiffe://cluster.local/ns/refused/sa/other may be certified"]);
    refused("AAAA", &good, &["InvalidArgument", "certificate signing request"]);
    let huge = "A".repeat(60_000);
    refused(&huge, &good, &["OutOfRange"]);
    let gone = token(&cluster, "refused", "other", "leno.dev");
    cluster.kubectl(&["-n", "refused", "delete", "serviceaccount", "other"]);
    refused(&request(&directory, "spiffe://cluster.local/ns/refused/sa/other"), &gone, &["Unauthenticated"]);
    // The authorized workload still gets its certificate.
    let own = request(&directory, "spiffe://cluster.local/ns/refused/sa/default");
    certify(&control, &own, &good).expect("a certificate");
}

#[test]
fn what_somebody_removes_or_changes_is_written_again_and_trust_does_not_change() {
    let Some(cluster) = Cluster::get() else { return };
    cluster.namespace("written");
    cluster.kubectl(&["annotate", "namespace", "written", "leno.dev/inject=enabled"]);
    let control = Control::start(&cluster);
    let first = bundle(&cluster, "written");
    assert_eq!(bundle(&cluster, "leno"), first);

    cluster.kubectl(&["-n", "written", "delete", "configmap", "leno-trust-bundle"]);
    assert_eq!(bundle(&cluster, "written"), first);
    let wrong = "{\"data\": {\"ca.crt\": \"nonsense\"}}";
    cluster.kubectl(&["-n", "written", "patch", "configmap", "leno-trust-bundle", "-p", wrong]);
    wait_for("the bundle is right again", TIMEOUT, || (bundle(&cluster, "written") == first).then_some(()));

    cluster.kubectl(&["-n", "leno", "delete", "secret", "leno-identity-issuer"]);
    let secret = || cluster.try_kubectl(&["-n", "leno", "get", "secret", "leno-identity-issuer"]).status.success();
    wait_for("the Secret is there again", TIMEOUT, || secret().then_some(()));
    drop(control);
    let _next = Control::start(&cluster);
    assert_eq!(bundle(&cluster, "written"), first);
}

#[test]
fn a_replica_writes_when_the_one_that_did_is_gone() {
    let Some(cluster) = Cluster::get() else { return };
    let first = Control::start(&cluster);
    first.wait_for_log(&["this replica leads"]);
    let second = Control::start(&cluster);
    assert!(!second.log().contains("this replica leads"), "{}", second.log());
    first.kill();
    wait_for("the second leads", LEASE_TIMEOUT, || second.log().contains("this replica leads").then_some(()));
    cluster.namespace("after");
    cluster.kubectl(&["annotate", "namespace", "after", "leno.dev/inject=enabled"]);
    assert_eq!(bundle(&cluster, "after"), bundle(&cluster, "leno"));
}

#[test]
fn an_authority_that_somebody_else_keeps_is_used_as_it_is() {
    let Some(cluster) = Cluster::get() else { return };
    let control = Control::start(&cluster);
    cluster.namespace("external");
    let directory = TempDir::new().expect("a directory");
    let [root_key, root, key, csr, certificate, extensions] =
        ["root.key", "root.crt", "tls.key", "tls.csr", "tls.crt", "extensions"].map(|name| path(&directory, name));
    // These are the files that cert-manager makes for a Certificate with isCA, uris: [spiffe://cluster.local] and
    // PKCS8.
    for file in [&root_key, &key] {
        openssl(&["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", file]);
    }
    openssl(&["req", "-x509", "-new", "-key", &root_key, "-subj", "/CN=company root", "-days", "30", "-out", &root]);
    openssl(&["req", "-new", "-key", &key, "-subj", "/CN=mesh", "-out", &csr]);
    let wanted =
        "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign\nsubjectAltName=URI:spiffe://cluster.local\n";
    fs::write(&extensions, wanted).expect("a file");
    openssl(&[
        "x509",
        "-req",
        "-in",
        &csr,
        "-CA",
        &root,
        "-CAkey",
        &root_key,
        "-CAcreateserial",
        "-days",
        "20",
        "-extfile",
        &extensions,
        "-out",
        &certificate,
    ]);
    let files = [
        format!("--from-file=tls.crt={certificate}"),
        format!("--from-file=tls.key={key}"),
        format!("--from-file=ca.crt={root}"),
    ];
    let made = cluster.kubectl(&[
        "-n",
        "leno",
        "create",
        "secret",
        "generic",
        "leno-identity-issuer",
        "--type=kubernetes.io/tls",
        &files[0],
        &files[1],
        &files[2],
        "--dry-run=client",
        "-o",
        "json",
    ]);
    let theirs = path(&directory, "secret.json");
    fs::write(&theirs, made).expect("a file");
    cluster.kubectl(&["-n", "leno", "replace", "-f", &theirs]);
    control.wait_for_log(&["SVIDs are signed with the authority of Secret"]);
    let root_text = fs::read_to_string(&root).expect("the root");
    wait_for("the bundle is theirs", TIMEOUT, || (bundle(&cluster, "leno").trim() == root_text.trim()).then_some(()));
    let csr = request(&directory, "spiffe://cluster.local/ns/external/sa/default");
    let answer = certify(&control, &csr, &token(&cluster, "external", "default", "leno.dev")).expect("a certificate");
    let chain = answer["chain"].as_array().expect("a chain");
    let leaf = write_certificate(&directory, "workload.crt", &chain[0]);
    openssl(&["verify", "-CAfile", &root, "-untrusted", &certificate, &leaf]);

    // Delete the external authority, so that the next test uses Leno's own authority again.
    drop(control);
    cluster.kubectl(&["-n", "leno", "delete", "secret", "leno-identity-issuer"]);
}
