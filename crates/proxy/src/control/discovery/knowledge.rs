//! What the control plane has said so far, as a mesh: of what was asked, and of what the answers name.
//!
//! A route takes effect when all its backends are known: until then the one before it holds.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use leno_model::discovery::Subject;
use leno_model::mesh::{AttachedRoutes, Cluster, ClusterKey, Mesh};
use leno_model::policy::AuthorizationPolicy;
use leno_model::route::{BackendTarget, RouteTable};
use leno_wire::endpoints::Endpoints;
use leno_wire::listener::{Lead, Target};
use leno_wire::name::INBOUND;
use leno_wire::{Kind, Unreadable, cluster, endpoints, inbound, listener, name, routes};

/// What may be asked for in all; beyond that, questions stay unanswered.
pub(super) const SUBJECTS_MAX: usize = 10_000;

/// Everything that is known, and what has been asked.
#[derive(Debug)]
pub(super) struct Knowledge {
    /// Our own: routes of clients there are for us.
    namespace: Box<str>,
    asked: BTreeSet<Subject>,
    /// Those that select us; `None` until the control plane has said which.
    policies: Option<Vec<Arc<AuthorizationPolicy>>>,
    /// By name; `None` where the control plane says that there is nothing.
    listeners: BTreeMap<String, Option<Target>>,
    clusters: BTreeMap<ClusterKey, Option<Cluster>>,
    endpoints: BTreeMap<ClusterKey, Option<Endpoints>>,
    routes: BTreeMap<ClusterKey, Routes>,
    /// Of the resources that are there, so that a new stream need not bring them again.
    versions: BTreeMap<(Kind, String), String>,
}

/// A resource as it came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resource<'a> {
    pub(super) version: &'a str,
    pub(super) bytes: &'a [u8],
}

/// What is known of the routes of a cluster.
#[derive(Debug, Default)]
struct Routes {
    /// In force. The inner one is `None` where the cluster has no routes.
    current: Option<Option<Arc<RouteTable>>>,
    /// Newer, with backends that are not known yet.
    next: Option<Arc<RouteTable>>,
}

impl Knowledge {
    /// Nothing, in a namespace.
    pub(super) fn new(namespace: &str) -> Self {
        Self {
            namespace: namespace.into(),
            asked: BTreeSet::new(),
            policies: None,
            listeners: BTreeMap::new(),
            clusters: BTreeMap::new(),
            endpoints: BTreeMap::new(),
            routes: BTreeMap::new(),
            versions: BTreeMap::new(),
        }
    }

    /// Notes a question; `false` if there are [`SUBJECTS_MAX`] already.
    pub(super) fn ask(&mut self, subject: Subject) -> bool {
        let has_room = self.asked.len() < SUBJECTS_MAX || self.asked.contains(&subject);
        if has_room {
            self.asked.insert(subject);
        }
        has_room
    }

    /// The names of the resources of a kind that are needed now.
    pub(super) fn wanted(&self, kind: Kind) -> BTreeSet<String> {
        match kind {
            Kind::Listener => self.asked.iter().map(Subject::to_string).collect(),
            Kind::Cluster | Kind::Endpoints => self.wanted_clusters().iter().map(ClusterKey::to_string).collect(),
            Kind::Route => self.leads().filter(|(_, balances)| *balances).map(|(key, _)| key.to_string()).collect(),
        }
    }

    /// Takes in a resource, or that there is none of that name; [`Knowledge::settle`] follows.
    ///
    /// # Errors
    /// [`Unreadable`]; what was known before stays.
    pub(super) fn take(&mut self, kind: Kind, name: &str, resource: Option<Resource<'_>>) -> Result<(), Unreadable> {
        self.read(kind, name, resource.map(|resource| resource.bytes))?;
        let place = (kind, name.to_owned());
        match resource {
            Some(resource) => self.versions.insert(place, resource.version.to_owned()),
            None => self.versions.remove(&place),
        };
        Ok(())
    }

    /// Draws the conclusions of all that was taken in: once for a response, since it looks at everything.
    pub(super) fn settle(&mut self) {
        self.settle_routes();
        self.forget_unwanted();
    }

    /// The versions of the resources of a kind that are there, by name.
    pub(super) fn versions(&self, kind: Kind) -> impl Iterator<Item = (&String, &String)> {
        self.versions.iter().filter(move |((of, _), _)| *of == kind).map(|((_, name), version)| (name, version))
    }

    fn read(&mut self, kind: Kind, name: &str, resource: Option<&[u8]>) -> Result<(), Unreadable> {
        let key = || name::cluster_key(name).ok_or_else(|| Unreadable::new(name, "name", "names no cluster"));
        match kind {
            Kind::Listener if name == INBOUND => {
                // Always there: a control plane that has none does not know of policies.
                let missing = || Unreadable::new(name, "removed_resources", "every workload has this one");
                self.policies = Some(inbound::read(resource.ok_or_else(missing)?)?);
            }
            Kind::Listener => {
                let lead = resource.map(listener::read).transpose()?;
                self.listeners.insert(name.to_owned(), lead.map(|Lead { target, .. }| target));
            }
            Kind::Cluster => {
                let key = key()?;
                let cluster = resource.map(cluster::read).transpose()?;
                self.clusters.insert(key, cluster);
            }
            Kind::Endpoints => {
                let key = key()?;
                let endpoints = resource.map(endpoints::read).transpose()?;
                self.endpoints.insert(key, endpoints);
            }
            Kind::Route => {
                let key = key()?;
                let table = resource.map(routes::read).transpose()?.and_then(|routes| routes.table).map(Arc::new);
                let routes = self.routes.entry(key).or_default();
                match table {
                    None => *routes = Routes { current: Some(None), next: None },
                    Some(table) => routes.next = Some(table),
                }
            }
        }
        Ok(())
    }

    /// The mesh as far as it is known.
    pub(super) fn mesh(&self) -> Mesh {
        let clusters = self.clusters.iter().filter_map(|(key, cluster)| {
            let mut cluster = cluster.clone()?;
            let known = self.endpoints.get(key).and_then(Option::as_ref);
            if let Some(known) = known {
                cluster.endpoints = known.ready.clone();
                cluster.unready_endpoints = known.unready.clone();
            }
            Some(Arc::new(cluster))
        });
        let addresses = self.asked.iter().filter_map(|subject| match (subject, self.lead(subject)?.as_ref()?) {
            (Subject::Address(address), Target::Cluster(key)) => Some((*address, key.clone())),
            _ => None,
        });
        let routes = self.routes.iter().filter_map(|(key, routes)| {
            let table = routes.current.as_ref()?.clone()?;
            Some(AttachedRoutes { cluster: key.clone(), namespace: self.namespace.clone(), table })
        });
        let addresses: Vec<(SocketAddr, ClusterKey)> = addresses.collect();
        let policies = self.policies.clone().unwrap_or_default();
        let mesh = Mesh::new(&self.namespace, clusters.collect(), addresses, policies, routes.collect());
        mesh.answering(self.asked.iter().filter(|subject| self.is_answered(subject)).cloned())
    }

    fn lead(&self, subject: &Subject) -> Option<&Option<Target>> {
        self.listeners.get(&subject.to_string())
    }

    /// The clusters that questions lead to, and whether calls to each are balanced, and so routed.
    fn leads(&self) -> impl Iterator<Item = (&ClusterKey, bool)> {
        self.asked.iter().filter_map(|subject| match self.lead(subject)?.as_ref()? {
            Target::Cluster(key) => Some((key, true)),
            Target::Endpoint(key) => Some((key, false)),
        })
    }

    /// Those clusters, and the ones that their routes lead to.
    fn wanted_clusters(&self) -> BTreeSet<ClusterKey> {
        let mut wanted = BTreeSet::new();
        for (key, _) in self.leads() {
            wanted.insert(key.clone());
            if let Some(routes) = self.routes.get(key) {
                let tables = routes.current.iter().flatten().chain(&routes.next);
                wanted.extend(tables.flat_map(|table| destinations(table)).cloned());
            }
        }
        wanted
    }

    fn is_answered(&self, subject: &Subject) -> bool {
        if *subject == Subject::Inbound {
            return self.policies.is_some();
        }
        match self.lead(subject) {
            None => false,
            Some(None) => true,
            Some(Some(Target::Endpoint(key))) => self.is_known(key),
            Some(Some(Target::Cluster(key))) => {
                self.is_known(key) && self.routes.get(key).is_some_and(|routes| routes.current.is_some())
            }
        }
    }

    /// Whether it is known of a cluster where its endpoints are, or that there is no such cluster.
    fn is_known(&self, key: &ClusterKey) -> bool {
        match self.clusters.get(key) {
            None => false,
            Some(None) => true,
            Some(Some(_)) => self.endpoints.contains_key(key),
        }
    }

    /// Forgets what no question leads to any more: nobody would tell of its changes.
    fn forget_unwanted(&mut self) {
        let clusters = self.wanted_clusters();
        self.clusters.retain(|key, _| clusters.contains(key));
        self.endpoints.retain(|key, _| clusters.contains(key));
        let routed: BTreeSet<ClusterKey> =
            self.leads().filter(|(_, balances)| *balances).map(|(key, _)| key.clone()).collect();
        self.routes.retain(|key, _| routed.contains(key));
        let wanted = Kind::ALL.map(|kind| self.wanted(kind));
        self.versions.retain(|(kind, name), _| wanted.get(kind.index()).is_some_and(|wanted| wanted.contains(name)));
    }

    /// Puts routes into force whose backends are all known.
    fn settle_routes(&mut self) {
        let is_ready = |routes: &Routes| {
            routes.next.as_ref().is_some_and(|table| destinations(table).all(|key| self.is_known(key)))
        };
        let ready: Vec<ClusterKey> =
            self.routes.iter().filter(|(_, routes)| is_ready(routes)).map(|(key, _)| key.clone()).collect();
        for key in ready {
            if let Some(routes) = self.routes.get_mut(&key) {
                routes.current = Some(routes.next.take());
            }
        }
    }
}

/// Every cluster that a table's rules lead to.
fn destinations(table: &RouteTable) -> impl Iterator<Item = &ClusterKey> {
    table.entries().iter().flat_map(|entry| {
        let rule = &entry.rule;
        let backends = rule.backends.iter().filter_map(|backend| match &backend.to {
            BackendTarget::Cluster(key) => Some(key),
            BackendTarget::Invalid(_) => None,
        });
        let filters = rule.backends.iter().map(|backend| &backend.filters).chain([&rule.filters]);
        backends.chain(filters.flat_map(|filters| &filters.mirrors).map(|mirror| &mirror.to))
    })
}

#[cfg(test)]
#[path = "knowledge_tests.rs"]
mod tests;
