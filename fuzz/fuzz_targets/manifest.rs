//! Fuzzes manifests, which users write: any text becomes a mesh, or problems that name a line of the text.
#![no_main]

use std::fmt::{Debug, Display};
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use leno_model::manifest::{FINDINGS_MAX, Refused, SourceFile, parse_file};
use leno_model::mesh::Mesh;
use leno_model::policy::{Caller, Decision, DefaultInboundPolicy, HealthPath, Identities, Network, Request};
use leno_model::route::status::ConditionKind;
use leno_model::route::{BackendTarget, RouteKind};
use leno_model::spiffe::SpiffeId;
use leno_model::traffic::{HedgeDelay, Repeatable};
use leno_model::translate::{Translation, translate};
use libfuzzer_sys::fuzz_target;

/// A Service that a route can name as its parent and as its backend.
const SERVICE: &str = "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {ports: [{name: b, port: 80}]}\n";

fuzz_target!(|text: &str| {
    check(text);
    // Check the text also as the spec of a policy, which the fuzzer seldom finds by chance.
    check(&format!("apiVersion: leno.dev/v1alpha1\nkind: AuthorizationPolicy\nmetadata: {{name: a}}\nspec: {text}"));
    // Check the text also as part of the spec of a TrafficPolicy whose target exists.
    check(&format!(
        "{SERVICE}---\napiVersion: leno.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {{name: a}}\n\
         spec: {{targetRefs: [{{kind: Service, name: a}}], {text}}}"
    ));
    // Check the text also as part of the spec of Gateway API's XBackendTrafficPolicy, with a target that exists.
    check(&format!(
        "{SERVICE}---\napiVersion: gateway.networking.x-k8s.io/v1alpha1\nkind: XBackendTrafficPolicy\nmetadata: {{name: a}}\n\
         spec: {{targetRefs: [{{kind: Service, name: a}}], {text}}}"
    ));
    // Check the text also as the spec of each kind of route.
    for kind in RouteKind::OBJECTS.map(RouteKind::name) {
        check(&format!(
            "{SERVICE}---\napiVersion: gateway.networking.k8s.io/v1\nkind: {kind}\nmetadata: {{name: a}}\nspec: {text}"
        ));
    }
    check_same::<HedgeDelay>(text);
    check_same::<Repeatable>(text);
    check_same::<Identities>(text);
    check_same::<Network>(text);
    check_same::<HealthPath>(text);
});

fn check(text: &str) {
    let file = SourceFile { path: "fuzz.yaml".to_owned(), text: text.to_owned() };
    match parse_file(&file, "default") {
        Ok(manifest) => {
            let translation = translate(&manifest.objects, "default");
            check_statuses(&translation);
            let mesh = translation.mesh;
            check_mesh(&mesh);
            check_routes(&mesh);
            check_policies(&mesh);
        }
        Err(Refused { problems, policies, .. }) => {
            assert!((1..=FINDINGS_MAX).contains(&problems.len()));
            check_policies(&translate(&policies, "default").mesh);
            for problem in problems {
                assert!(problem.place.mark.line >= 1 && problem.place.mark.column >= 1);
                assert!(!problem.to_string().contains('\n'), "{problem}");
            }
        }
    }
}

/// Checks that a parsed value is formatted as a text that parses to the same value.
fn check_same<T: FromStr + Display + PartialEq + Debug>(text: &str) {
    if let Ok(read) = text.parse::<T>() {
        assert_eq!(read.to_string().parse::<T>().ok(), Some(read));
    }
}

/// Checks that clusters and endpoints are sorted and unique, and that the mesh finds each of them by its name or
/// address.
fn check_mesh(mesh: &Mesh) {
    assert!(mesh.clusters().iter().is_sorted_by(|a, b| a.key < b.key));
    for cluster in mesh.clusters() {
        assert!(cluster.endpoints.is_sorted_by(|a, b| a.address < b.address));
        for endpoint in cluster.endpoints.iter().chain(&cluster.unready_endpoints) {
            let found = mesh.endpoint_by_address(endpoint.address);
            let ip = endpoint.address.ip().to_canonical();
            assert!(found.is_some_and(|(_, found)| found.address.ip().to_canonical() == ip));
        }
        let found = mesh.cluster_by_authority(cluster.key.to_string().as_bytes());
        assert_eq!(found.map(|found| &found.key), Ok(&cluster.key));
        for ip in &cluster.cluster_ips {
            assert!(mesh.cluster_by_address(SocketAddr::new(*ip, cluster.key.port)).is_some());
        }
    }
}

/// Checks that each route has the conditions Accepted and ResolvedRefs for each of its parent Services. If a condition
/// is false, the translation must report a problem.
fn check_statuses(translation: &Translation) {
    for status in &translation.routes {
        let kinds: Vec<ConditionKind> = status.conditions.iter().map(|condition| condition.kind).collect();
        assert_eq!(kinds, [ConditionKind::Accepted, ConditionKind::ResolvedRefs]);
        for condition in &status.conditions {
            assert!(!condition.message.contains('\n'), "{condition:?}");
            assert!(condition.status || !translation.problems.is_empty(), "{condition:?}");
        }
    }
}

/// Checks that the mesh finds every route table by its cluster and namespace. If a rule selects a backend, the backend
/// must be a cluster of the mesh, or contain the reason why it is invalid.
fn check_routes(mesh: &Mesh) {
    for routes in mesh.attached_routes() {
        let found = mesh.routes(&routes.cluster, &routes.namespace).expect("the table");
        assert_eq!(found, &routes.table);
        for entry in routes.table.entries() {
            let chosen = entry.rule.choose(u64::MAX / 2);
            assert_eq!(chosen.is_some(), entry.rule.backends.iter().any(|backend| backend.weight > 0));
            match chosen.map(|backend| &backend.to) {
                Some(BackendTarget::Cluster(key)) => assert!(mesh.clusters().iter().any(|cluster| cluster.key == *key)),
                Some(BackendTarget::Invalid(why)) => assert!(!why.is_empty()),
                None => {}
            }
        }
    }
}

/// Checks two invariants of policies, with a default policy that denies every request. If the proxy may close a
/// caller's connection at once, no policy may allow a request of this caller. Only an enforced policy may allow a
/// request.
fn check_policies(mesh: &Mesh) {
    for policy in mesh.policies() {
        let account = policy.service_account.as_deref().unwrap_or("a");
        let own = format!("spiffe://own.org/ns/{}/sa/{account}", policy.namespace);
        let own: SpiffeId = own.parse().expect("names in a policy are names of workloads");
        let port = policy.ports.as_ref().map_or(1, |ports| ports[0]);
        assert!(policy.selects(&own.workload, port));
        let is_enforced =
            mesh.policies().iter().any(|policy| policy.mode.is_enforced() && policy.selects(&own.workload, port));
        let path = policy.health_checks.first().map_or("/".to_owned(), ToString::to_string);
        let request = Request { method: b"GET", path: path.as_bytes(), upgrade: false, has_content: false };
        for identity in [None, Some(&own)] {
            let caller = Caller { identity, address: IpAddr::from([10, 0, 0, 1]) };
            let decides = mesh.inbound_policy(&own, port, DefaultInboundPolicy::Deny);
            let is_allowed = |request| !matches!(decides.authorize(&caller, request), Decision::Deny(_));
            let some_is_allowed = is_allowed(None) || is_allowed(Some(&request));
            assert!(decides.may_allow(&caller) || !some_is_allowed);
            assert!(is_enforced || !some_is_allowed);
        }
    }
}
