//! Reads the rules of TLSRoutes and TCPRoutes, which send connections to backends.

use std::iter;

use serde::Deserialize;

use super::written::BackendRef;
use super::{Reading, RuleParts};
use crate::route::Match;
use crate::traffic::CallPolicy;

/// A rule of a TLSRoute or a TCPRoute.
#[derive(Debug, Default, Deserialize)]
#[serde(rename = "Rule", rename_all = "camelCase", default)]
pub(in crate::object) struct ConnectionRule {
    name: Option<String>,
    backend_refs: Option<Vec<ConnectionBackend>>,
}

/// A backend of connections.
#[derive(Debug, Default, Deserialize)]
#[serde(rename = "BackendRef", default)]
struct ConnectionBackend {
    group: Option<String>,
    kind: Option<String>,
    namespace: Option<String>,
    name: String,
    port: Option<i32>,
    weight: Option<i32>,
}

/// Reads the rules. The first rule gets all `matches` and thus all connections, so later rules never apply.
pub(in crate::object) fn read_rules(
    rules: Option<Vec<ConnectionRule>>,
    matches: Vec<Match>,
    reading: &mut Reading<'_, '_>,
) {
    let rules = rules.unwrap_or_default();
    if rules.is_empty() {
        reading.problem("spec.rules", "missing", "write one, with the backendRefs");
    }
    let matches = iter::once(matches).chain(iter::repeat_with(Vec::new));
    for (index, (ConnectionRule { name, backend_refs }, matches)) in rules.into_iter().zip(matches).enumerate() {
        let field = format!("spec.rules[{index}]");
        if index > 0 {
            reading.notice(&field, "never used: the first rule matches all connections");
        }
        let backend_refs: Vec<BackendRef> = backend_refs.into_iter().flatten().map(Into::into).collect();
        if backend_refs.is_empty() {
            reading.problem(
                &format!("{field}.backendRefs"),
                "missing",
                "name the Service that receives the connections",
            );
        }
        let (filters, calls) = (Vec::new(), CallPolicy::default());
        reading.rule(index, RuleParts { name, matches, filters, backend_refs, calls });
    }
}

impl From<ConnectionBackend> for BackendRef {
    fn from(backend: ConnectionBackend) -> Self {
        let ConnectionBackend { group, kind, namespace, name, port, weight } = backend;
        Self { group, kind, namespace, name, port, weight, filters: None }
    }
}
