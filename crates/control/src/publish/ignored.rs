//! The parts of call policies that clients without a proxy ignore, for the page /clients.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use leno_model::authority::CLUSTER_DOMAIN;
use leno_model::mesh::{ClusterKey, Mesh};
use leno_model::traffic::{CallPolicy, Unsupported, XdsClient, unsupported};
use leno_xds::{Dialect, Kind, PROXY_USER_AGENT};

use super::subject::Subject;

/// The `user_agent_name` of grpc-go.
const GRPC_GO: &str = "gRPC Go";

/// The parts of call policies that a client ignores, by the object that sets them.
pub(super) type Ignored = BTreeMap<Arc<str>, BTreeSet<String>>;

/// Returns which program a client is, by the `user_agent_name` of its node. `None` for a proxy of the mesh, which
/// ignores nothing.
pub(super) fn program(user_agent: &str) -> Option<XdsClient> {
    match Dialect::of_user_agent(user_agent) {
        Dialect::Grpc if user_agent == GRPC_GO => Some(XdsClient::GrpcGo),
        Dialect::Grpc => Some(XdsClient::Grpc),
        Dialect::Envoy => (user_agent != PROXY_USER_AGENT).then_some(XdsClient::Envoy),
    }
}

/// Returns the parts that `program` ignores in the resource with this name. `namespace` is the client's namespace.
pub(super) fn of_resource(program: XdsClient, (kind, name): (Kind, &str), namespace: &str, mesh: &Mesh) -> Ignored {
    let mut ignored = Ignored::new();
    let mut add = |parts: Vec<Unsupported>| {
        for part in parts {
            ignored.entry(part.set_by.clone()).or_default().insert(part.to_string());
        }
    };
    let mut add_routes = |key: &ClusterKey| {
        let entries = mesh.routes(key, namespace).map(|table| table.entries()).unwrap_or_default();
        entries.iter().for_each(|entry| add(unsupported(program, &entry.rule.calls, None)));
    };
    // The default DNS domain will do: only names of Listeners depend on the domain, and Listeners are not examined
    // here.
    match (kind, Subject::of(kind, name, namespace, CLUSTER_DOMAIN)) {
        (Kind::Route, Some(Subject::Cluster(key))) => add_routes(&key),
        (Kind::Route, Some(Subject::Mesh)) => mesh.clusters().iter().for_each(|cluster| add_routes(&cluster.key)),
        (Kind::Cluster, Some(Subject::Cluster(key))) => {
            let budget = mesh.cluster(&key).and_then(|cluster| cluster.retry_budget.as_ref());
            add(unsupported(program, &CallPolicy::default(), budget));
        }
        _ => {}
    }
    ignored
}

#[cfg(test)]
#[path = "ignored_tests.rs"]
mod tests;
