//! A gateway.networking.k8s.io/v1 TLSRoute: selects TLS connections by server name.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use super::Object;
use super::route::written::{ParentRef, Unread};
use super::route::{ConnectionRule, Reading, read_rules};
use crate::manifest::Review;
use crate::problem::quoted;
use crate::route::{Match, RouteKind, ServerName};

/// The `kind` of a TLSRoute.
pub(crate) const KIND: &str = "TLSRoute";
/// Limit on the number of host names of a route.
const HOSTNAMES_MAX: usize = 1024;

/// The object as written.
#[derive(Debug, Deserialize)]
#[serde(rename = "TLSRoute", rename_all = "camelCase")]
pub(crate) struct Written {
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Spec,
    // The reader ignores the next three fields. Without them here, it would report them as unknown.
    #[serde(default, rename = "apiVersion")]
    _api_version: Option<Unread>,
    #[serde(default, rename = "kind")]
    _kind: Option<Unread>,
    #[serde(default, rename = "status")]
    _status: Option<Unread>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename = "TLSRouteSpec", rename_all = "camelCase", default)]
struct Spec {
    parent_refs: Option<Vec<ParentRef>>,
    hostnames: Option<Vec<String>>,
    rules: Option<Vec<ConnectionRule>>,
    #[serde(rename = "useDefaultGateways")]
    _use_default_gateways: Option<Unread>,
}

/// Checks a TLSRoute and extracts what the mesh needs.
///
/// GEP-1294 asks meshes to ignore the `hostnames` of routes, because an HTTP route can match the header `host` instead.
/// A TLSRoute has no other matches, so the mesh uses its host names: the server name in the ClientHello must match one
/// of them.
pub(crate) fn review(written: Written, review: &mut Review<'_>) -> Option<Object> {
    let mut reading = Reading::new(RouteKind::Tls, review);
    let Spec { parent_refs, hostnames, rules, .. } = written.spec;
    let matches = read_hostnames(&hostnames.unwrap_or_default(), &mut reading);
    read_rules(rules, matches, &mut reading);
    reading.finish(&written.metadata, parent_refs.unwrap_or_default())
}

/// Returns one match for each host name. A route without host names matches every connection; former versions of the
/// API allow such a route.
fn read_hostnames(hostnames: &[String], reading: &mut Reading<'_, '_>) -> Vec<Match> {
    const FIELD: &str = "spec.hostnames";
    reading.check_length(FIELD, hostnames, HOSTNAMES_MAX);
    if hostnames.is_empty() {
        return vec![Match::any()];
    }
    let mut matches = Vec::new();
    for (index, hostname) in hostnames.iter().enumerate() {
        match ServerName::parse(hostname) {
            Some(name) => matches.push(Match::server(name)),
            None => {
                let what = format!("{} is not a server name", quoted(hostname));
                let fix = "write a name in lower case, as cart.example.org or *.example.org, and no address";
                reading.problem(&format!("{FIELD}[{index}]"), what, fix);
            }
        }
    }
    matches
}

#[cfg(test)]
#[path = "tls_route_tests.rs"]
mod tests;
