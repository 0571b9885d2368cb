//! What the cluster itself must be.

use k8s_openapi::apimachinery::pkg::version::Info;

use super::report::{Checklist, Finding};
use crate::cluster::connect::ClusterError;

/// The oldest minor version of Kubernetes 1: native sidecars are on by default from it on.
const OLDEST_MINOR: u32 = 29;

/// Kubernetes' routes, which are installed apart from it.
pub(super) const GATEWAY_DEFINITIONS: [&str; 2] =
    ["httproutes.gateway.networking.k8s.io", "grpcroutes.gateway.networking.k8s.io"];

pub(super) const API_SERVER: &str = "API server";
pub(super) const VERSION: &str = "version";

/// Whether there is an API server, and one that is new enough.
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
    // Some providers write 29+.
    let number = |text: &str| text.trim_end_matches('+').parse::<u32>().ok();
    let shown = &version.git_version;
    match (number(&version.major), number(&version.minor)) {
        (Some(1), Some(minor)) if minor < OLDEST_MINOR => Finding::failed(
            format!("{shown} is too old: Leno needs native sidecars, which 1.{OLDEST_MINOR} has"),
            format!("upgrade the cluster to 1.{OLDEST_MINOR} or newer"),
        ),
        (Some(_), Some(_)) => Finding::ok(shown.clone()),
        _ => Finding::warning(
            format!("{shown:?} is no version that this understands"),
            format!("see that it is 1.{OLDEST_MINOR} or newer"),
        ),
    }
}

/// Whether routes can be written; `missing` are those of [`GATEWAY_DEFINITIONS`] that are not there.
pub(super) fn gateway(list: &mut Checklist, missing: &Result<Vec<&'static str>, ClusterError>) {
    list.section("routes");
    list.check("Gateway API", &[API_SERVER], || match missing {
        Ok(missing) if missing.is_empty() => Finding::ok("HTTPRoute and GRPCRoute are installed"),
        Ok(missing) => Finding::warning(
            format!("Services are balanced, but calls are not routed: there is no {}", missing.join(" and no ")),
            "to have routes, install the Gateway API; gateway-api.sigs.k8s.io says how",
        ),
        Err(error) => error.into(),
    });
}

#[cfg(test)]
#[path = "kubernetes_tests.rs"]
mod tests;
