//! A gateway.networking.k8s.io/v1 TCPRoute: distributes connections of any protocol by weight.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use super::Object;
use super::route::written::{ParentRef, Unread};
use super::route::{ConnectionRule, Reading, read_rules};
use crate::manifest::Review;
use crate::route::{Match, RouteKind};

/// The `kind` of a TCPRoute.
pub(crate) const KIND: &str = "TCPRoute";

/// The object as written.
#[derive(Debug, Deserialize)]
#[serde(rename = "TCPRoute", rename_all = "camelCase")]
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
#[serde(rename = "TCPRouteSpec", rename_all = "camelCase", default)]
struct Spec {
    parent_refs: Option<Vec<ParentRef>>,
    rules: Option<Vec<ConnectionRule>>,
    #[serde(rename = "useDefaultGateways")]
    _use_default_gateways: Option<Unread>,
}

/// Checks a TCPRoute and extracts what the mesh needs.
pub(crate) fn review(written: Written, review: &mut Review<'_>) -> Option<Object> {
    let mut reading = Reading::new(RouteKind::Tcp, review);
    let Spec { parent_refs, rules, .. } = written.spec;
    read_rules(rules, vec![Match::any()], &mut reading);
    reading.finish(&written.metadata, parent_refs.unwrap_or_default())
}

#[cfg(test)]
#[path = "tcp_route_tests.rs"]
mod tests;
