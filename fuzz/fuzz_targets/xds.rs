//! Fuzzes resources, which a control plane sends, and their names, which a client sends: the parser reads any bytes as
//! a resource, or rejects them with a one-line error. A resource that was read must be the same after it is written and
//! read again. For routes, the target only checks that they can be read again.
#![no_main]

use std::sync::LazyLock;

use leno_model::manifest::{SourceFile, parse_file};
use leno_model::mesh::Cluster;
use leno_model::spiffe::TrustDomain;
use leno_model::translate::translate;
use leno_xds::name::{RouteName, cluster_key, listener_subject};
use leno_xds::{Dialect, Unreadable, View, cluster, endpoints, inbound, listener, routes};
use libfuzzer_sys::fuzz_target;
use prost::Message;

/// A policy with every field of `spec` except `mode`.
const POLICY: &str = "
apiVersion: leno.dev/v1alpha1
kind: AuthorizationPolicy
metadata: {name: cart, namespace: shop}
spec:
  targetRef: {kind: ServiceAccount, name: cart}
  ports: [8080]
  allow: [{identities: [ns/shop/sa/web, 'spiffe://a.b/ns/*/sa/c', '*'], networks: [10.0.0.0/8]}]
  healthChecks: [/healthz]
";

const VIEW: View<'_> = View { dialect: Dialect::Envoy, mutual_tls: None };

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        check_name(text);
    }
    let read_cluster = taken(cluster::read(bytes));
    if let Some(read) = &read_cluster {
        let again = cluster::read(&cluster::write(read, VIEW).encode_to_vec());
        assert_eq!(again.as_ref(), Ok(read));
    }
    if let Some(read) = taken(endpoints::read(bytes)) {
        check_endpoints(&read);
    }
    taken(listener::read(bytes));
    check_policies(bytes);
    check_policies(&policies_changed_by(bytes));
    if let Some(read) = taken(routes::read(bytes)) {
        let written = routes::write(&read.key, read.table.as_ref(), Dialect::Envoy).encode_to_vec();
        assert!(routes::read(&written).is_ok());
    }
});

fn taken<T>(read: Result<T, Unreadable>) -> Option<T> {
    read.inspect_err(|error| assert!(!error.to_string().contains('\n'), "{error}")).ok()
}

fn check_name(text: &str) {
    if let Some(key) = cluster_key(text) {
        assert_eq!(key.to_string(), text);
    }
    if let Some(subject) = listener_subject(text, "default") {
        assert_eq!(listener_subject(&subject.to_string(), "elsewhere"), Some(subject));
    }
    if let Some(name) = RouteName::parse(text) {
        assert_eq!(name.to_string(), text);
    }
}

fn check_endpoints(read: &endpoints::Endpoints) {
    assert!(read.ready.is_sorted_by(|a, b| a.address < b.address));
    assert!(read.unready.is_sorted_by(|a, b| a.address < b.address));
    let whole = Cluster {
        key: read.key.clone(),
        balancer: Default::default(),
        protocol: Default::default(),
        settings: Default::default(),
        retry_budget: None,
        objectives: None,
        cluster_ips: Box::default(),
        endpoints: read.ready.clone(),
        unready_endpoints: read.unready.clone(),
    };
    assert_eq!(endpoints::read(&endpoints::write(&whole, VIEW).encode_to_vec()).as_ref(), Ok(read));
}

fn check_policies(bytes: &[u8]) {
    if let Some(read) = taken(inbound::read(bytes)) {
        let written =
            inbound::write(read.policies.iter().map(AsRef::as_ref), &read.http_ports, &trust_domain()).encode_to_vec();
        assert_eq!(inbound::read(&written), Ok(read));
    }
}

/// Returns a control plane's resource with some bytes replaced, because the fuzzer would not find nested messages by
/// chance.
fn policies_changed_by(bytes: &[u8]) -> Vec<u8> {
    static WRITTEN: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let file = SourceFile { path: "policy.yaml".to_owned(), text: POLICY.to_owned() };
        let objects = parse_file(&file, "default").expect("a manifest without mistakes").objects;
        let mesh = translate(&objects, "default").mesh;
        inbound::write(mesh.policies().iter().map(AsRef::as_ref), &[80, 8080], &trust_domain()).encode_to_vec()
    });
    let mut changed = WRITTEN.clone();
    for change in bytes.chunks_exact(3).take(16) {
        let [high, low, byte] = change else { continue };
        let place = usize::from(u16::from_be_bytes([*high, *low])) % changed.len();
        changed[place] = *byte;
    }
    changed
}

fn trust_domain() -> TrustDomain {
    "cluster.local".parse().expect("a trust domain")
}
