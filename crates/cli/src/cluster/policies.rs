//! Reads the AuthorizationPolicies in the cluster, and describes the callers that they allow.

use kube::api::Api;
use kube::core::{ApiResource, DynamicObject, TypeMeta};
use leno_model::manifest::read_object;
use leno_model::object::Object;
use leno_model::policy::{AuthorizationPolicy, Rule};
use std::sync::Arc;

use super::connect::{Cluster, ClusterError};

/// The API resource of AuthorizationPolicies.
pub(crate) fn resource() -> ApiResource {
    resource_of("AuthorizationPolicy", "authorizationpolicies")
}

/// The API resource of TrafficPolicies.
pub(crate) fn traffic_resource() -> ApiResource {
    resource_of("TrafficPolicy", "trafficpolicies")
}

fn resource_of(kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: "leno.dev".to_owned(),
        version: "v1alpha1".to_owned(),
        api_version: "leno.dev/v1alpha1".to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}

/// The valid policies, a stand-in for each of the others ([`leno_model::policy::Mode::Unreadable`]), and a line about
/// each mistake.
#[derive(Debug, Default)]
pub(crate) struct Policies {
    pub(crate) all: Vec<Arc<AuthorizationPolicy>>,
    pub(crate) mistakes: Vec<String>,
}

/// Lists the policies of `namespace`, or of all namespaces if `namespace` is `None`.
pub(crate) async fn list(cluster: &Cluster, namespace: Option<&str>) -> Result<Policies, ClusterError> {
    let resource = resource();
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(cluster.client.clone(), namespace, &resource),
        None => Api::all_with(cluster.client.clone(), &resource),
    };
    Ok(read(cluster.list(api, "").await?))
}

fn read(objects: Vec<DynamicObject>) -> Policies {
    let (api, mut policies) = (resource(), Policies::default());
    for mut object in objects {
        // List responses omit each item's kind, which the parser requires.
        object.types = Some(TypeMeta { api_version: api.api_version.clone(), kind: api.kind.clone() });
        let (objects, problems) = match read_object(serde_json::to_value(object).unwrap_or_default()) {
            Ok(manifest) => (manifest.objects, Vec::new()),
            // The stand-in of a policy with mistakes allows no caller, unless the control plane knows an earlier valid
            // version.
            Err(refused) => (refused.policies, refused.problems),
        };
        policies.mistakes.extend(problems.iter().map(ToString::to_string));
        policies.all.extend(objects.into_iter().filter_map(|object| match object {
            Object::AuthorizationPolicy(policy) => Some(policy.policy),
            _ => None,
        }));
    }
    policies
}

/// Describes the callers that a policy allows, with one text for each rule and each health check.
pub(crate) fn callers(policy: &AuthorizationPolicy) -> Vec<String> {
    let checks = policy.health_checks.iter().map(|path| format!("every caller to {path}"));
    policy.allow.iter().map(rule).chain(checks).collect()
}

fn rule(rule: &Rule) -> String {
    let joined = |texts: Vec<String>| texts.join(", ");
    let identities = rule.identities.as_ref().map(|all| joined(all.iter().map(ToString::to_string).collect()));
    let networks = rule.networks.as_ref().map(|all| joined(all.iter().map(ToString::to_string).collect()));
    allowed(identities, networks)
}

/// Describes the callers that a rule with these identities and networks allows.
pub(crate) fn allowed(identities: Option<String>, networks: Option<String>) -> String {
    match (identities, networks) {
        (Some(identities), Some(networks)) => format!("{identities} from {networks}"),
        (Some(identities), None) => identities,
        (None, Some(networks)) => networks,
        (None, None) => "no caller".to_owned(),
    }
}

#[cfg(test)]
#[path = "policies_tests.rs"]
mod tests;
