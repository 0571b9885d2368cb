//! Resolves the references of routes to Services: checks that the Service exists, and that the route may refer to it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::mesh::{Cluster, ClusterKey};
use crate::object::route::{GROUP, MirrorRef, Reference, Refusal, RouteFilters, RouteRule};
use crate::object::{ReferenceGrant, Route, Service};
use crate::problem::{listed, quoted};
use crate::protocol::Protocol;
use crate::route::status::Reason;
use crate::route::{Backend, BackendTarget, Filters, Mirror, RouteName, Rule};
use crate::traffic::CallPolicy;

/// The objects that routes can refer to.
pub(super) struct Known<'a> {
    services: HashMap<(&'a str, &'a str), &'a Service>,
    /// The names of the Services to which grants allow references; `None` for all Services. The key is the namespace
    /// of the Services, and the kind and the namespace of the routes. A namespace may have thousands of grants, and
    /// routes may have thousands of references, so a reference must not cost a search through all grants.
    granted: HashMap<(&'a str, &'a str, &'a str), HashSet<Option<&'a str>>>,
    clusters: BTreeSet<&'a ClusterKey>,
    opaque: BTreeSet<&'a ClusterKey>,
}

/// A route, and the namespace of one of the Services to which it is attached.
#[derive(Clone, Copy)]
pub(super) struct Referrer<'a> {
    pub(super) route: &'a Route,
    /// The namespace of the Service.
    pub(super) parent_namespace: &'a str,
}

impl<'a> Known<'a> {
    pub(super) fn new(
        services: &[&'a Arc<Service>],
        grants: &[&'a ReferenceGrant],
        clusters: &'a [Arc<Cluster>],
        routes: &[&Route],
    ) -> Self {
        // A grant may name hundreds of pairs of a kind and a namespace. Keep only the pairs that a route has.
        let referring: HashSet<(&str, &str)> =
            routes.iter().map(|route| (route.kind.name(), &*route.identity.namespace)).collect();
        let mut granted: HashMap<_, HashSet<Option<&str>>> = HashMap::new();
        for grant in grants {
            for (kind, namespace) in grant.referrers(GROUP).filter(|referrer| referring.contains(referrer)) {
                granted.entry((&*grant.identity.namespace, kind, namespace)).or_default().extend(grant.services());
            }
        }
        let named =
            services.iter().map(|service| ((&*service.identity.namespace, &*service.identity.name), &***service));
        let opaque = clusters.iter().filter(|cluster| cluster.protocol == Protocol::Opaque);
        Self {
            services: named.collect(),
            granted,
            clusters: clusters.iter().map(|cluster| &cluster.key).collect(),
            opaque: opaque.map(|cluster| &cluster.key).collect(),
        }
    }

    pub(super) fn service(&self, namespace: &str, name: &str) -> Option<&'a Service> {
        self.services.get(&(namespace, name)).copied()
    }

    /// Returns the key of this cluster; `None` if there is no such cluster.
    pub(super) fn cluster(&self, key: &ClusterKey) -> Option<&'a ClusterKey> {
        self.clusters.get(key).copied()
    }

    /// Returns whether the port's protocol is opaque.
    pub(super) fn is_opaque(&self, key: &ClusterKey) -> bool {
        self.opaque.contains(key)
    }

    /// Returns whether the `appProtocol` of the port declares TLS. An opaque port without this declaration may speak
    /// HTTP.
    fn is_tls(&self, key: &ClusterKey) -> bool {
        // A port that declares TLS is always opaque. So look up the Service only for opaque ports.
        self.is_opaque(key)
            && self
                .service(&key.namespace, &key.service)
                .is_some_and(|service| service.ports.iter().any(|port| port.port == key.port && port.is_tls))
    }

    /// Returns a rule with its references resolved. Adds failures to `faults`. If a part of the rule is unsupported,
    /// the returned rule answers every request with an error, because to skip a filter would be unsafe.
    pub(super) fn rule(&self, rule: &RouteRule, from: Referrer<'_>, faults: &mut Vec<Refusal>) -> Rule {
        let filters = self.filters(&rule.filters, from, faults);
        let mut backends = Vec::new();
        for backend in &rule.backends {
            let to = match self.resolve(&backend.to, from) {
                Ok(key) => BackendTarget::Cluster(key),
                Err(fault) => {
                    let why = fault.what.as_str().into();
                    faults.push(fault);
                    BackendTarget::Invalid(why)
                }
            };
            let filters = self.filters(&backend.filters, from, faults);
            backends.push(Backend { to, weight: backend.weight, filters });
        }
        let Route { identity, kind, .. } = from.route;
        let route = RouteName { kind: *kind, namespace: identity.namespace.clone(), name: identity.name.clone() };
        let name = rule.name.clone();
        if let Some(refusal) = rule.refusals.first() {
            let to = BackendTarget::Invalid(format!("{}: {}", refusal.spot.field, refusal.what).into());
            let refused = Backend { to, weight: 1, filters: Filters::default() };
            let (filters, calls) = (Arc::default(), CallPolicy::default());
            return Rule { route, name, filters, backends: [refused].into(), calls };
        }
        let calls = rule.calls.clone().without_off();
        Rule { route, name, filters: filters.into(), backends: backends.into(), calls }
    }

    /// Resolves the mirrors; drops mirrors that cannot be resolved.
    fn filters(&self, filters: &RouteFilters, from: Referrer<'_>, faults: &mut Vec<Refusal>) -> Filters {
        let mut mirrors = Vec::new();
        for MirrorRef { to, numerator, denominator } in &filters.mirrors {
            match self.resolve(to, from) {
                Ok(to) => mirrors.push(Mirror { to, numerator: *numerator, denominator: *denominator }),
                Err(fault) => faults.push(fault),
            }
        }
        Filters { mirrors: mirrors.into(), ..filters.fixed.clone() }
    }

    /// Returns the key of the referenced cluster, or the fault of the reference.
    fn resolve(&self, reference: &Reference, from: Referrer<'_>) -> Result<ClusterKey, Refusal> {
        let fault = |reason, what, fix| Refusal { spot: reference.spot.clone(), reason, what, fix };
        let own = &*from.route.identity.namespace;
        let namespace = reference.namespace.as_deref().unwrap_or(own);
        let Reference { name, kind, group, .. } = reference;
        let port = match reference.port {
            Some(port) if reference.is_service() => port,
            _ => {
                let of_group = if group.is_empty() { String::new() } else { format!(" of {group}") };
                let what = format!("calls cannot be sent to a {kind}{of_group}");
                return Err(fault(Reason::InvalidKind, what, "name a Service".to_owned()));
            }
        };
        if namespace != own && namespace != from.parent_namespace && !self.is_granted(namespace, name, from) {
            let what = format!("no ReferenceGrant in namespace {namespace} allows it");
            let fix = format!("add one there, from {}s of {own} to Services", from.route.kind.name());
            return Err(fault(Reason::RefNotPermitted, what, fix));
        }
        let key = ClusterKey { namespace: namespace.into(), service: name.clone(), port };
        if self.clusters.contains(&key) {
            if from.route.kind.is_of_requests() && self.is_tls(&key) {
                let what = format!(
                    "port {port} of Service {namespace}/{name} expects the application's own TLS, which {}s do not send",
                    from.route.kind.name()
                );
                let fix = "name a port without TLS, or correct its appProtocol".to_owned();
                return Err(fault(Reason::UnsupportedProtocol, what, fix));
            }
            return Ok(key);
        }
        let (what, fix) = match self.service(namespace, name) {
            None => (no_service(namespace, name), "add it, or correct the name".to_owned()),
            Some(service) if service.ports.is_empty() => (no_ports(namespace, name), NO_PORTS_FIX.to_owned()),
            Some(service) => {
                let ports = service.ports.iter().map(|port| port.port);
                let what = format!("Service {namespace}/{name} has no port {port}");
                (what, format!("use one of its ports: {}", listed(ports)))
            }
        };
        Err(fault(Reason::BackendNotFound, what, fix))
    }

    fn is_granted(&self, namespace: &str, service: &str, from: Referrer<'_>) -> bool {
        let (kind, own) = (from.route.kind.name(), &*from.route.identity.namespace);
        let granted = self.granted.get(&(namespace, kind, own));
        granted.is_some_and(|services| services.contains(&None::<&str>) || services.contains(&Some(service)))
    }
}

/// The fix for [`no_ports`].
pub(super) const NO_PORTS_FIX: &str = "name a Service with a TCP port";

/// The message for a Service to which calls cannot be sent.
pub(super) fn no_ports(namespace: &str, name: &str) -> String {
    format!("Service {namespace}/{name} is an ExternalName or has no TCP port, so calls cannot be sent to it")
}

/// The message for a missing Service; escapes its name.
pub(super) fn no_service(namespace: &str, name: &str) -> String {
    format!("there is no Service {}", quoted(&format!("{namespace}/{name}")))
}
