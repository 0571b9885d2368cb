//! Reads a leno.dev/v1alpha1 AuthorizationPolicy, which decides which callers may call some workloads of its namespace.
//!
//! An empty rule, a field without a value, and an empty list of ports, identities or networks are mistakes. They could
//! be read as "allow all", which the author may not have intended.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny};

use super::{DNS_SUBDOMAIN_RULE, Identity, Object, identity, is_dns_subdomain};
use crate::manifest::Review;
use crate::policy::{self, Allow, Mode, Rule};
use crate::problem::quoted;
use crate::spelling::closest;

/// The API group of Leno's own kinds.
pub const GROUP: &str = "leno.dev";
/// The `apiVersion` of an AuthorizationPolicy.
pub(crate) const API_VERSION: &str = "leno.dev/v1alpha1";
/// The `kind` of an AuthorizationPolicy.
pub(crate) const KIND: &str = "AuthorizationPolicy";

/// The parts of an AuthorizationPolicy that the mesh keeps.
#[derive(Clone, Debug)]
pub struct AuthorizationPolicy {
    /// The policy's name, and the position of its definition.
    pub identity: Identity,
    /// The callers that the policy allows, and the workloads that it selects.
    pub policy: Arc<policy::AuthorizationPolicy>,
}

/// The object's fields, as its author writes them.
#[derive(Debug, Deserialize)]
#[serde(rename = "AuthorizationPolicy", rename_all = "camelCase")]
pub(crate) struct Written {
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Option<Spec>,
    // These fields exist only so that they are not reported as unknown. `apiVersion` and `kind` have already been used
    // to select this type, and the API server adds `status`.
    #[serde(default, rename = "apiVersion", deserialize_with = "pass_over")]
    _api_version: (),
    #[serde(default, rename = "kind", deserialize_with = "pass_over")]
    _kind: (),
    #[serde(default, rename = "status", deserialize_with = "pass_over")]
    _status: (),
}

/// The `spec` of the object: the selected workloads, and their allowed callers.
#[derive(Debug, Default, Deserialize)]
#[serde(rename = "AuthorizationPolicySpec", rename_all = "camelCase", default)]
struct Spec {
    /// The workloads that the policy selects. Default: all workloads of the policy's namespace.
    #[serde(deserialize_with = "given")]
    target_ref: Option<TargetRef>,
    /// The ports on which the workload itself listens (the `targetPort` of a Service). Default: all ports.
    #[serde(deserialize_with = "given")]
    ports: Option<Vec<i32>>,
    /// `Enforce` (the default) or `Audit`. `Enforce` denies the calls that no rule allows; `Audit` only logs them.
    #[serde(deserialize_with = "given")]
    mode: Option<String>,
    /// The allowed callers. A caller is allowed if at least one rule allows it; an empty list allows no caller.
    #[serde(deserialize_with = "given")]
    allow: Option<Vec<AllowRule>>,
    /// Paths of health checks, such as `/healthz`, or `/grpc.health.v1.Health/Check` for gRPC. Every caller, with or
    /// without an identity, may GET them (POST for gRPC).
    health_checks: Vec<String>,
}

/// The target of a policy, in the format that Gateway API defines for policies.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct TargetRef {
    /// The API group of the target. Must be empty, because both allowed kinds belong to Kubernetes' core group, whose
    /// name is empty.
    group: String,
    /// `ServiceAccount` selects the workloads that run as the named service account. `Namespace` selects all workloads
    /// of the policy's own namespace.
    kind: String,
    /// The name of the service account. For a namespace, it must be the policy's own namespace.
    name: String,
}

/// A rule that allows callers. A caller must meet the conditions of all fields; at least one field is required.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AllowRule {
    /// The caller's certificate must contain one of these identities.
    ///
    /// An identity is `ns/<namespace>/sa/<service-account>`, in which `*` matches any name. A prefix
    /// `spiffe://<trust-domain>/` selects another trust domain. `*` alone matches every identity.
    #[serde(deserialize_with = "given")]
    identities: Option<Vec<String>>,
    /// The caller's address must be in one of these networks, for example `10.0.0.0/8`, `fd00::/8` or `10.1.2.3`.
    #[serde(deserialize_with = "given")]
    networks: Option<Vec<String>>,
}

/// Checks an AuthorizationPolicy, and extracts the parts that the mesh keeps.
pub(crate) fn review(written: Written, review: &mut Review<'_>) -> Option<Object> {
    let identity = identity(&written.metadata, review, is_dns_subdomain, DNS_SUBDOMAIN_RULE);
    let Some(spec) = written.spec else {
        review.problem(
            "spec",
            "missing",
            "list the allowed callers, as `spec: {allow: [{identities: [ns/shop/sa/web]}]}`",
        );
        return None;
    };
    let policy = policy::AuthorizationPolicy {
        namespace: identity.namespace.clone(),
        name: identity.name.clone(),
        service_account: spec.target_ref.and_then(|target| service_account(target, &identity.namespace, review)),
        ports: spec.ports.map(|written| ports(&written, review)),
        mode: mode(spec.mode.as_deref(), review),
        allow: rules(spec.allow, review),
        health_checks: read_all("spec.healthChecks", "a path for health checks", &spec.health_checks, review),
    };
    let policy = AuthorizationPolicy { identity, policy: Arc::new(policy) };
    review.is_clean().then_some(Object::AuthorizationPolicy(policy))
}

/// Returns the service account that the target names. `None` if the target is the whole namespace. Also `None` if the
/// target is invalid; the mistake is then reported.
pub(crate) fn service_account(target: TargetRef, namespace: &str, review: &mut Review<'_>) -> Option<Box<str>> {
    let TargetRef { group, kind, name } = target;
    if !group.is_empty() {
        let what = format!("{} has no kind that a policy can select", quoted(&group));
        review.problem("spec.targetRef.group", what, "remove it");
    }
    let fix = match kind.as_str() {
        "ServiceAccount" if is_dns_subdomain(&name) => return Some(name.into()),
        "ServiceAccount" => {
            let what = format!("{} is not the name of a service account", quoted(&name));
            review.problem("spec.targetRef.name", what, DNS_SUBDOMAIN_RULE);
            return None;
        }
        "Namespace" => {
            if name != namespace {
                let what = format!("{} is not the policy's own namespace", quoted(&name));
                review.problem("spec.targetRef.name", what, format!("write {namespace}, or move the policy there"));
            }
            return None;
        }
        other => match closest(other, ["ServiceAccount", "Namespace"]) {
            Some(meant) => format!("did you mean {meant}?"),
            None => "use ServiceAccount or Namespace".to_owned(),
        },
    };
    review.problem("spec.targetRef.kind", format!("a policy cannot select {}", quoted(&kind)), fix);
    None
}

/// Reads the list of ports; an empty list is a mistake.
pub(crate) fn ports(written: &[i32], review: &mut Review<'_>) -> Box<[u16]> {
    const FIELD: &str = "spec.ports";
    if written.is_empty() {
        review.problem(FIELD, "an empty list", "list a port, or remove the field to mean all of them");
    }
    let mut ports = Vec::new();
    for (index, port) in written.iter().enumerate() {
        match super::port_number(*port) {
            Some(port) => ports.push(port),
            None => review.problem(&format!("{FIELD}[{index}]"), format!("{port} is not a port"), "use 1 to 65535"),
        }
    }
    ports.into()
}

fn mode(written: Option<&str>, review: &mut Review<'_>) -> Mode {
    match written.unwrap_or("Enforce") {
        "Enforce" => Mode::Enforce,
        "Audit" => Mode::Audit,
        other => {
            review.problem("spec.mode", format!("{} is not a mode", quoted(other)), "use Enforce or Audit");
            Mode::Enforce
        }
    }
}

fn rules(written: Option<Vec<AllowRule>>, review: &mut Review<'_>) -> Allow {
    let Some(written) = written else {
        review.problem("spec.allow", "missing", "list the allowed callers, or write [] to allow no caller");
        return Allow::default();
    };
    let mut rules = Vec::new();
    for (index, rule) in written.into_iter().enumerate() {
        let field = format!("spec.allow[{index}]");
        if rule.identities.is_none() && rule.networks.is_none() {
            let what = "allows no caller";
            review.problem(
                &field,
                what,
                "add identities, networks or both; networks [0.0.0.0/0, ::/0] allow every caller",
            );
        }
        let identities = rule.identities.map(|all| members(&field, "identities", "an identity", &all, review));
        let networks = rule.networks.map(|all| members(&field, "networks", "a network", &all, review));
        rules.push(Rule { identities, networks });
    }
    rules.into()
}

/// Reads a list in a rule. An empty list is a mistake, because it could be read as "all".
fn members<T>(rule: &str, key: &str, noun: &str, written: &[String], review: &mut Review<'_>) -> Box<[T]>
where
    T: FromStr<Err: fmt::Display>,
{
    let field = format!("{rule}.{key}");
    if written.is_empty() {
        review.problem(&field, "an empty list", "list one, or remove the field if it does not matter");
    }
    read_all(&field, noun, written, review)
}

fn read_all<T>(field: &str, noun: &str, written: &[String], review: &mut Review<'_>) -> Box<[T]>
where
    T: FromStr<Err: fmt::Display>,
{
    let mut read = Vec::new();
    for (index, text) in written.iter().enumerate() {
        match text.parse() {
            Ok(member) => read.push(member),
            Err(fix) => {
                let what = format!("{} is not {noun}", quoted(text));
                review.problem(&format!("{field}[{index}]"), what, T::Err::to_string(&fix));
            }
        }
    }
    read.into()
}

/// Deserializes an optional field that needs a value if it is present. Kubernetes' own types do not distinguish between
/// a field without a value and an absent field.
fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

fn pass_over<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(), D::Error> {
    deserializer.deserialize_any(IgnoredAny).map(|_| ())
}

#[cfg(test)]
#[path = "authorization_policy_tests.rs"]
mod tests;
