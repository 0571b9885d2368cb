//! `leno check`, `leno identity` and the dashboard warn about an authority that expires soon.

use std::time::{Duration, SystemTime};

use leno_identity::authority::Authority;
use leno_tests::dashboard::Dashboard;
use leno_tests::kubernetes::Cluster;
use leno_tests::proxy::wait_for;
use serde_json::{Value, json};

use super::user::{PATIENCE, leno, rolled_out, state};

/// Lifetime of the authority: longer than this test, and shorter than the usual lifetime of a proxy's certificate.
const LIFETIME: Duration = Duration::from_secs(40 * 60);
const SECRET: [&str; 4] = ["-n", "leno", "secret", "leno-identity-issuer"];
/// The unit of the remaining lifetime, as the commands and the dashboard print it after the number of minutes.
const IN_MINUTES: &str = " min";

fn secret(cluster: &Cluster, key: &str) -> String {
    let template = format!("go-template={{{{index .data \"{key}\" | base64decode}}}}");
    cluster.kubectl(&[&["get"], &SECRET[..], &["-o", &template]].concat())
}

/// Changes the Secret of the authority. A `null` removes an entry.
fn write_secret(cluster: &Cluster, change: &Value) {
    cluster.kubectl(&[&["patch"], &SECRET[..], &["--type=merge", "-p", &change.to_string()]].concat());
}

/// Replaces the client's Pod, whose proxy then gets a new certificate.
fn renew_the_clients_certificate(cluster: &Cluster) {
    cluster.kubectl(&["-n", "shop", "rollout", "restart", "deploy/web"]);
    rolled_out(cluster, "shop", "deploy/web");
}

/// Gives the mesh an authority that expires soon. The anchor's key is not in the cluster, so another program, such as
/// cert-manager, would have to renew the authority. `leno check`, `leno identity` and the dashboard must warn about the
/// authority. Then puts the old authority back.
pub(super) fn an_authority_that_ends_soon_is_named(cluster: &Cluster) {
    let keys = ["tls.crt", "tls.key", "ca.key"];
    let before: Vec<String> = keys.iter().map(|key| secret(cluster, key)).collect();
    let anchor = Authority::from_pem(&secret(cluster, "ca.crt"), &before[2]).expect("an anchor");
    let ending = anchor.delegate(SystemTime::now(), LIFETIME).expect("an authority");
    let entries = json!({"tls.crt": ending.certificate_pem(), "tls.key": ending.key_pem()});
    write_secret(cluster, &json!({"stringData": entries, "data": {"ca.key": null}}));

    wait_for("leno check names the authority", PATIENCE, || {
        let found = leno(cluster, &["check"]);
        let line = found.lines().find(|line| line.contains("the issuing authority expires in"))?.to_owned();
        let is_told = line.contains(IN_MINUTES) && found.contains("renew it where it was issued");
        is_told.then_some(())
    });
    renew_the_clients_certificate(cluster);
    let dashboard = Dashboard::start(&["-n", "shop"], Some(&cluster.kubeconfig()));
    wait_for("leno identity names the authority", PATIENCE, || {
        let shown = leno(cluster, &["identity", "deploy/web", "-n", "shop"]);
        let warning = shown.lines().find(|line| line.starts_with("the authority CN="))?.to_owned();
        (warning.contains(IN_MINUTES) && warning.ends_with("and all its certificates with it; leno check"))
            .then_some(())
    });
    let problem = wait_for("the authority is a problem on the page", PATIENCE, || {
        let mesh = dashboard.json("/api/mesh");
        mesh["problems"].as_array()?.iter().find(|problem| problem["kind"] == "certificate").cloned()
    });
    let what = problem["what"].as_str().unwrap_or_default();
    let is_named = what.starts_with("The authority that certified web-") && what.ends_with(IN_MINUTES);
    assert!(is_named && problem["severity"] == "error", "{problem}\n{}", state(cluster));

    let entries = json!({"tls.crt": before[0], "tls.key": before[1], "ca.key": before[2]});
    write_secret(cluster, &json!({"stringData": entries}));
    wait_for("leno check finds the old authority", PATIENCE, || {
        leno(cluster, &["check"]).contains("the issuing authority expires in 89 days").then_some(())
    });
    renew_the_clients_certificate(cluster);
    wait_for("the problem is over", PATIENCE, || {
        let mesh = dashboard.json("/api/mesh");
        mesh["problems"].as_array()?.iter().all(|problem| problem["kind"] != "certificate").then_some(())
    });
}
