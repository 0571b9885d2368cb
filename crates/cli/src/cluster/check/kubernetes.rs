//! Checks the cluster itself: its version of Kubernetes, and its Gateway API routes.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion,
};
use k8s_openapi::apimachinery::pkg::version::Info;

use super::report::{Checklist, Finding};
use crate::cluster::connect::ClusterError;

/// Oldest supported minor version of Kubernetes 1. Leno needs its native sidecars and, for the guard, its
/// ValidatingAdmissionPolicies.
const OLDEST_MINOR: u32 = 30;

/// Kinds of Gateway API routes for requests. Gateway API is not part of Kubernetes and is installed separately.
const REQUEST_ROUTES: [&str; 2] = ["httproutes.gateway.networking.k8s.io", "grpcroutes.gateway.networking.k8s.io"];
/// Kinds of Gateway API routes for connections. Few installations need them, so the check does not report it if the
/// cluster lacks their CustomResourceDefinitions.
const CONNECTION_ROUTES: [&str; 2] = ["tlsroutes.gateway.networking.k8s.io", "tcproutes.gateway.networking.k8s.io"];
/// The version of the routes that the control plane reads.
const ROUTE_VERSION: &str = "v1";

/// Problems with the CustomResourceDefinitions of Gateway API routes. Both lists are empty if the cluster accepts all
/// routes.
#[derive(Debug, Default)]
pub(super) struct Routes {
    /// Missing CustomResourceDefinitions of routes for requests.
    missing: Vec<&'static str>,
    /// CustomResourceDefinitions that exist but do not serve the version that the control plane reads.
    outdated: Vec<&'static str>,
}

impl Routes {
    /// The names of the CustomResourceDefinitions of all routes.
    pub(super) fn definitions() -> impl Iterator<Item = &'static str> {
        REQUEST_ROUTES.into_iter().chain(CONNECTION_ROUTES)
    }

    /// Records whether the cluster has the CustomResourceDefinition `name` in the version that the control plane reads.
    /// `found` is `None` if the cluster does not have it.
    pub(super) fn note(&mut self, name: &'static str, found: Option<&CustomResourceDefinition>) {
        let is_read = |version: &CustomResourceDefinitionVersion| version.name == ROUTE_VERSION && version.served;
        match found {
            Some(definition) if definition.spec.versions.iter().any(is_read) => {}
            Some(_) => self.outdated.push(name),
            None if REQUEST_ROUTES.contains(&name) => self.missing.push(name),
            None => {}
        }
    }
}

pub(super) const API_SERVER: &str = "API server";
pub(super) const VERSION: &str = "version";

/// Checks whether the API server answers and its version is supported.
pub(super) fn conclude(list: &mut Checklist, version: &Result<Info, ClusterError>) {
    list.section("Kubernetes");
    list.check(API_SERVER, &[], || match version {
        Ok(_) => Finding::ok("it answers"),
        Err(error) => error.into(),
    });
    list.check(VERSION, &[API_SERVER], || match version {
        Ok(version) => new_enough(version),
        Err(error) => error.into(),
    });
}

fn new_enough(version: &Info) -> Finding {
    // Some providers report the minor version as 29+.
    let number = |text: &str| text.trim_end_matches('+').parse::<u32>().ok();
    let shown = &version.git_version;
    match (number(&version.major), number(&version.minor)) {
        (Some(1), Some(minor)) if minor < OLDEST_MINOR => Finding::failed(
            format!(
                "{shown} is too old: Leno needs native sidecars and ValidatingAdmissionPolicies, which 1.{OLDEST_MINOR} has"
            ),
            format!("upgrade the cluster to 1.{OLDEST_MINOR} or newer"),
        ),
        (Some(_), Some(_)) => Finding::ok(shown.clone()),
        _ => Finding::warning(
            format!("{shown:?} is not a version that this leno can parse"),
            format!("make sure that it is 1.{OLDEST_MINOR} or newer"),
        ),
    }
}

/// Checks whether the cluster accepts routes in the version that the control plane reads.
pub(super) fn gateway(list: &mut Checklist, routes: &Result<Routes, ClusterError>) {
    list.section("routes");
    list.check("Gateway API", &[API_SERVER], || match routes {
        Ok(Routes { missing, outdated }) => {
            let mut findings = Vec::new();
            if !missing.is_empty() {
                findings.push(Finding::warning(
                    format!(
                        "Services are balanced, but calls are not routed: there is no {}",
                        missing.join(" and no ")
                    ),
                    "to have routes, install the Gateway API; gateway-api.sigs.k8s.io says how",
                ));
            }
            findings.extend(outdated.iter().map(|name| {
                Finding::warning(
                    format!("{name} has no version {ROUTE_VERSION}: the mesh ignores routes of this kind"),
                    "install Gateway API 1.6 or newer; gateway-api.sigs.k8s.io says how",
                )
            }));
            if findings.is_empty() {
                findings.push(Finding::ok("HTTPRoute and GRPCRoute are installed"));
            }
            findings
        }
        Err(error) => vec![error.into()],
    });
}

#[cfg(test)]
#[path = "kubernetes_tests.rs"]
mod tests;
