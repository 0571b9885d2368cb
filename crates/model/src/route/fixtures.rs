//! Requests and rules for the tests.

use std::sync::Arc;

use super::{RequestHead, RouteKind, RouteName, Rule};
use crate::traffic::CallPolicy;

/// A request's head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) authority: &'a str,
    pub(crate) headers: &'a [(&'a str, &'a str)],
}

impl RequestHead for Head<'_> {
    fn method(&self) -> &[u8] {
        self.method.as_bytes()
    }

    fn path(&self) -> &[u8] {
        self.path.as_bytes()
    }

    fn authority(&self) -> &[u8] {
        self.authority.as_bytes()
    }

    fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.headers.iter().filter(move |(other, _)| *other == name).map(|(_, value)| value.as_bytes())
    }
}

/// A GET of `path`, without header fields.
pub(crate) fn get(path: &str) -> Head<'_> {
    Head { method: "GET", path, authority: "echo", headers: &[] }
}

/// A call of the gRPC method `path`.
pub(crate) fn call(path: &str) -> Head<'_> {
    Head { method: "POST", ..get(path) }
}

/// A rule without backends. `route` has the form `namespace/name`.
pub(crate) fn rule(kind: RouteKind, route: &str, name: &str) -> Arc<Rule> {
    let (namespace, route) = route.split_once('/').expect("a namespace and a name");
    Arc::new(Rule {
        route: RouteName { kind, namespace: namespace.into(), name: route.into() },
        name: Some(name.into()),
        filters: Arc::default(),
        backends: Arc::default(),
        calls: CallPolicy::default(),
    })
}
