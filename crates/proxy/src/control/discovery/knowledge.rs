//! The control plane's answers so far, joined into a mesh. Workers ask about subjects (destinations of outbound calls,
//! or the inbound policies). The answers may name further resources, about which the proxy asks, too.
//!
//! The answers form a graph: subjects lead to clusters, and a cluster's routes lead to further clusters. A new resource
//! changes only its own part of the graph and of the mesh. A resource is forgotten when nothing in the graph leads to
//! it any more. A route takes effect once all its backends are known; until then the previous route stays in force, and
//! its backends stay in the mesh even if the control plane has removed them, for a limited time.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leno_model::discovery::Subject;
use leno_model::mesh::{Changes, ClusterKey, Draft, Mesh};
use leno_relay::Usage;
use leno_xds::listener::{Destination, Lead};
use leno_xds::name::{INBOUND, listener_subject};
use leno_xds::{Kind, Unreadable, cluster, endpoints, inbound, listener, name, routes};

use super::asked::{AskedSubjects, IsNew};
use super::known::{KnownCluster, Routes};
use super::wishes::{Wish, Wishes};

/// The control plane's answers, and the subjects about which workers have asked.
#[derive(Debug)]
pub(super) struct Knowledge {
    /// Our own namespace, whose consumer routes apply to us.
    namespace: Box<str>,
    asked: AskedSubjects,
    clusters: BTreeMap<ClusterKey, KnownCluster>,
    /// The clusters that the control plane has removed, and that the mesh still has because newer routes wait for their
    /// backends. Each has the time since when it is kept; `None` until [`Knowledge::drop_overdue`] has seen it.
    kept: BTreeMap<ClusterKey, Option<Instant>>,
    /// Versions of the known resources, by kind and name. We send them on a new stream, so that the control plane need
    /// not send unchanged resources again.
    versions: [BTreeMap<String, String>; Kind::ALL.len()],
    wishes: Wishes,
    draft: Draft,
    /// Changes since the last call of [`Knowledge::settle`].
    touched_clusters: BTreeSet<ClusterKey>,
    touched_subjects: BTreeSet<Subject>,
}

/// A resource as received.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resource<'a> {
    pub(super) version: &'a str,
    pub(super) bytes: &'a [u8],
}

impl Knowledge {
    /// Creates an empty value for a proxy in `namespace`, with room for `subjects_max` subjects.
    pub(super) fn new(namespace: &str, subjects_max: usize) -> Self {
        Self {
            namespace: namespace.into(),
            asked: AskedSubjects::new(subjects_max),
            clusters: BTreeMap::new(),
            kept: BTreeMap::new(),
            versions: Default::default(),
            wishes: Wishes::default(),
            draft: Draft::new(namespace),
            touched_clusters: BTreeSet::new(),
            touched_subjects: BTreeSet::new(),
        }
    }

    /// Records a question about a subject. Returns `false` if the subject is new and there is no room for it.
    pub(super) fn ask(&mut self, subject: &Subject, now: Instant) -> bool {
        let asked = self.asked.ask(subject, now);
        if asked == Some(IsNew(true)) {
            self.wishes.note(Kind::Listener, subject.to_string(), Wish::Subscribe);
        }
        asked.is_some()
    }

    /// Number of subjects about which workers have asked, answered or not.
    pub(super) fn subjects(&self) -> usize {
        self.asked.len()
    }

    /// Records a worker's usage report, which arrived at `now`. It has the subjects in use, the subjects used since the
    /// last report, and the clusters of calls in flight.
    pub(super) fn take_usage(&mut self, usage: &Usage, now: Instant) {
        for (subject, at) in &usage.used {
            self.asked.used(subject, *at);
        }
        for subject in &usage.in_use {
            self.asked.used(subject, now);
        }
        for key in &usage.clusters {
            let Some(cluster) = self.clusters.get(key) else { continue };
            // A call in flight needs its cluster. A cluster is kept as long as a subject leads to it, so mark such a
            // subject as used.
            if !self.asked.one_is_used(cluster.subjects(), now) {
                for parent in cluster.parents.iter().filter_map(|parent| self.clusters.get(parent)) {
                    self.asked.one_is_used(parent.subjects(), now);
                }
            }
        }
    }

    /// Forgets the subjects that no call has used for at least `idle`, and returns their number. Keeps the subjects
    /// whose methods have objectives, however rare their calls are. When workers forget a Service, its metrics series
    /// end, and the next call begins a new series. Prometheus does not count the first value of a new series, so it
    /// would not count a rare call that misses the objective.
    pub(super) fn forget_idle(&mut self, now: Instant, idle: Duration) -> usize {
        let mut idle = self.asked.idle(now, idle);
        idle.retain(|subject| !self.has_objectives(subject));
        self.forget(&idle)
    }

    /// Whether the cluster of a subject, or a cluster to which its routes lead, has an objective.
    fn has_objectives(&self, subject: &Subject) -> bool {
        let lead = self.asked.get(subject).and_then(|asked| asked.lead.as_ref()?.as_ref());
        // Calls to a single endpoint count for no objective.
        let Some(Destination::Cluster(key)) = lead else { return false };
        let has_own = |key: &ClusterKey| self.mesh().cluster(key).is_some_and(|cluster| cluster.objectives.is_some());
        has_own(key) || self.clusters.get(key).is_some_and(|known| known.routes.destinations().iter().any(has_own))
    }

    /// Forgets up to `most` subjects that no call has used since `before`, the least recently used first; returns their
    /// number.
    pub(super) fn forget_least_recently_used(&mut self, most: usize, before: Instant) -> usize {
        self.forget(&self.asked.least_recently_used(most, |_, used| used < before))
    }

    /// Forgets up to `most` of the addresses that are assumed to be outside of the mesh, the least recently used first;
    /// returns their number. Call it only without a stream.
    pub(super) fn forget_assumed(&mut self, most: usize) -> usize {
        let mesh = self.mesh();
        let is_assumed = |subject: &Subject, _| match subject {
            Subject::Address(address) => !mesh.answers(subject) && mesh.unanswered_address(*address).is_none(),
            Subject::Service(_) | Subject::Inbound => false,
        };
        let assumed = self.asked.least_recently_used(most, is_assumed);
        let forgotten = self.forget(&assumed);
        // The next stream begins with all names that are needed then, so no earlier change matters. Otherwise each
        // forgotten address would leave a change here until then.
        self.wishes = Wishes::default();
        forgotten
    }

    /// Forgets up to `most` subjects, to make room at the control plane for names that it refuses. Returns their
    /// number.
    ///
    /// First forgets useless subjects. A subject is useless if it has no complete answer and needs a refused name: no
    /// call can use it, but its other names take room. Then forgets subjects that no call has used since `before`.
    /// Keeps a subject whose Listener is refused: it takes no room, and the earlier answers about it stay in force.
    pub(super) fn make_room(&mut self, most: usize, before: Instant, is_refused: impl Fn(Kind, &str) -> bool) -> usize {
        let leads_to_refused = |subject: &Subject| {
            let lead = self.asked.get(subject).and_then(|asked| asked.lead.as_ref()?.as_ref());
            let Some(Destination::Cluster(key) | Destination::Endpoint(key)) = lead else { return false };
            let name = key.to_string();
            [Kind::Cluster, Kind::Endpoints, Kind::Route].into_iter().any(|kind| is_refused(kind, &name))
        };
        let is_useless = |subject: &Subject, _| !self.is_answered(subject) && leads_to_refused(subject);
        let mut victims = self.asked.least_recently_used(most, is_useless);
        // Leave out useless subjects. They are victims already; if `most` did not suffice for all of them, no further
        // victims are needed.
        let is_unused = |subject: &Subject, used| {
            used < before && !is_useless(subject, used) && !is_refused(Kind::Listener, &subject.to_string())
        };
        let unused = self.asked.least_recently_used(most - victims.len(), is_unused);
        victims.extend(unused);
        self.forget(&victims)
    }

    fn forget(&mut self, subjects: &[Subject]) -> usize {
        for subject in subjects {
            let Some(asked) = self.asked.remove(subject) else { continue };
            self.touched_subjects.remove(subject);
            self.draft.forget(subject);
            self.unwant(Kind::Listener, subject.to_string());
            self.unlink(subject, asked.lead.flatten().as_ref());
        }
        self.settle();
        subjects.len()
    }

    /// Returns the names of all resources of a kind that are needed now.
    pub(super) fn wanted(&self, kind: Kind) -> BTreeSet<String> {
        let clusters = self.clusters.iter();
        match kind {
            Kind::Listener => self.asked.iter().map(Subject::to_string).collect(),
            Kind::Cluster | Kind::Endpoints => clusters.map(|(key, _)| key.to_string()).collect(),
            Kind::Route => clusters.filter(|(_, it)| !it.balanced.is_empty()).map(|(key, _)| key.to_string()).collect(),
        }
    }

    /// Whether the resource with this name is needed.
    pub(super) fn wants(&self, kind: Kind, name: &str) -> bool {
        match kind {
            Kind::Listener => self.subject(name).is_some_and(|subject| self.asked.get(&subject).is_some()),
            Kind::Cluster | Kind::Endpoints => {
                name::cluster_key(name).is_some_and(|key| self.clusters.contains_key(&key))
            }
            Kind::Route => {
                let cluster = name::cluster_key(name).and_then(|key| self.clusters.get(&key));
                cluster.is_some_and(|cluster| !cluster.balanced.is_empty())
            }
        }
    }

    /// Returns the changes of subscriptions of a kind that the control plane does not know yet, and forgets them: names
    /// to subscribe to, and names to unsubscribe from.
    pub(super) fn take_wishes(&mut self, kind: Kind) -> (Vec<String>, Vec<String>) {
        self.wishes.take(kind)
    }

    /// Subscribes again to a name that the control plane refused, if the resource is still needed.
    pub(super) fn want_again(&mut self, kind: Kind, name: String) {
        if self.wants(kind, &name) {
            self.wishes.note(kind, name, Wish::Subscribe);
        }
    }

    /// Applies a resource, or its absence if `resource` is `None`. Call [`Knowledge::settle`] afterwards.
    ///
    /// # Errors
    /// [`Unreadable`]; the previous knowledge stays, except an assumption ([`Knowledge::assume_outside`]).
    pub(super) fn take(&mut self, kind: Kind, name: &str, resource: Option<Resource<'_>>) -> Result<(), Unreadable> {
        if kind == Kind::Listener {
            self.note_response(name);
        }
        self.read(kind, name, resource.map(|resource| resource.bytes))?;
        if let Some(versions) = self.versions.get_mut(kind.index()) {
            match resource {
                Some(resource) => versions.insert(name.to_owned(), resource.version.to_owned()),
                None => versions.remove(name),
            };
        }
        Ok(())
    }

    /// Records that a response of the control plane has named a Listener, even if the response only refuses the name, or
    /// if the resource cannot be read. So the control plane can be reached, and an assumption about the address ends.
    pub(super) fn note_response(&mut self, name: &str) {
        let Some(subject) = self.subject(name) else { return };
        let Some(asked) = self.asked.get_mut(&subject) else { return };
        asked.has_response = true;
        if let Subject::Address(address) = subject {
            self.draft.set_assumed_outside(address, false);
        }
    }

    /// Assumes that an address is outside of the mesh until a response of the control plane names it. Returns whether the
    /// proxy assumes it. It does not in these cases:
    ///
    /// - A response has already named the address: then the address may be in the mesh.
    /// - A known cluster has the IP address: a call to a Pod's own address would leave in clear, although the proxy knows
    ///   the Pod.
    /// - No question about the address is open, so that no response would end the assumption.
    pub(super) fn assume_outside(&mut self, address: SocketAddr) -> bool {
        let asked = self.asked.get(&Subject::Address(address));
        let may_assume = asked.is_some_and(|asked| !asked.has_response)
            && !self.mesh().clusters().iter().any(|cluster| cluster.has_ip(address.ip()));
        if may_assume {
            self.draft.set_assumed_outside(address, true);
        }
        may_assume
    }

    /// Updates the mesh. Call it once for each response, so that all resources of the response take effect together.
    pub(super) fn settle(&mut self) {
        // When a route takes effect, removed clusters that only the previous route needed are touched again.
        while !self.touched_clusters.is_empty() {
            let touched = std::mem::take(&mut self.touched_clusters);
            let mut routed = touched.clone();
            for key in &touched {
                routed.extend(self.settle_cluster(key));
            }
            for key in &routed {
                self.settle_routes(key);
            }
        }
        for subject in std::mem::take(&mut self.touched_subjects) {
            let is_answered = self.is_answered(&subject);
            self.draft.set_answered(&subject, is_answered);
        }
    }

    /// Drops the removed clusters that the mesh has kept for `most`. The backends for which the newer routes wait may
    /// never arrive, for example because the control plane refuses their names. Returns when to call this again; `None`
    /// if no removed cluster is kept.
    pub(super) fn drop_overdue(&mut self, now: Instant, most: Duration) -> Option<Instant> {
        let is_overdue = |since: &Option<Instant>| since.is_some_and(|since| now - since >= most);
        let overdue: Vec<ClusterKey> =
            self.kept.iter().filter(|(_, since)| is_overdue(since)).map(|(key, _)| key.clone()).collect();
        for key in &overdue {
            let waited_s = most.as_secs();
            tracing::warn!(
                "calls that routes send to {key} fail now: the control plane removed {key}, and has not sent the \
                 backends of the newer routes for {waited_s} s; look for refused names in this log, or look at the \
                 control plane's log"
            );
            if let Some(known) = self.clusters.get_mut(key) {
                known.is_overdue = true;
                self.touched_clusters.insert(key.clone());
            }
        }
        if !overdue.is_empty() {
            self.settle();
        }
        let kept = self.kept.values_mut().map(|since| *since.get_or_insert(now));
        kept.min().map(|since| since + most)
    }

    /// Restarts the time for which removed clusters are kept: without a stream, no backend could arrive.
    pub(super) fn restart_kept(&mut self) {
        self.kept.values_mut().for_each(|since| *since = None);
    }

    /// The version of a resource; `None` if the resource is not known.
    pub(super) fn version(&self, kind: Kind, name: &str) -> Option<&str> {
        self.versions.get(kind.index())?.get(name).map(String::as_str)
    }

    /// The known part of the mesh.
    pub(super) fn mesh(&self) -> &Mesh {
        self.draft.mesh()
    }

    /// Returns the mesh, and its changes since the last call.
    pub(super) fn take_mesh(&mut self) -> (Arc<Mesh>, Changes) {
        self.draft.take()
    }

    /// Returns the subject of the Listener with this name. A subject can have several names: `None` if `name` is not
    /// the name that this proxy uses in its subscriptions.
    fn subject(&self, name: &str) -> Option<Subject> {
        listener_subject(name, &self.namespace).filter(|subject| subject.to_string() == name)
    }

    fn read(&mut self, kind: Kind, name: &str, resource: Option<&[u8]>) -> Result<(), Unreadable> {
        let key = || name::cluster_key(name).ok_or_else(|| Unreadable::new(name, "name", "names no cluster"));
        match kind {
            Kind::Listener if name == INBOUND => {
                // A control plane that supports policies has this resource for every workload, so its absence is an
                // error.
                let missing = || Unreadable::new(name, "removed_resources", "every workload has this one");
                let inbound = inbound::read(resource.ok_or_else(missing)?)?;
                self.draft.set_policies(inbound.policies);
                self.draft.set_http_ports(inbound.http_ports);
                self.draft.set_answered(&Subject::Inbound, true);
            }
            Kind::Listener => {
                let lead = resource.map(listener::read).transpose()?;
                let subject =
                    self.subject(name).ok_or_else(|| Unreadable::new(name, "name", "names nothing to call"))?;
                self.lead(subject, lead.as_ref().map(|Lead { destination, .. }| destination));
            }
            Kind::Cluster => {
                let key = key()?;
                let cluster = resource.map(cluster::read).transpose()?;
                self.change(key, |known| known.cluster = Some(cluster));
            }
            Kind::Endpoints => {
                let key = key()?;
                let endpoints = resource.map(endpoints::read).transpose()?;
                self.change(key, |known| known.endpoints = Some(endpoints));
            }
            Kind::Route => {
                let key = key()?;
                let table = resource.map(routes::read).transpose()?.and_then(|routes| routes.table).map(Arc::new);
                self.change_routes(&key, |routes| match table {
                    None => *routes = Routes { current: Some(None), next: None },
                    Some(table) => routes.next = Some(table),
                });
                self.touched_clusters.insert(key);
            }
        }
        Ok(())
    }

    /// Sets the destination of a subject.
    fn lead(&mut self, subject: Subject, destination: Option<&Destination>) {
        let Some(asked) = self.asked.get_mut(&subject) else { return };
        let before = asked.lead.replace(destination.cloned());
        if before.as_ref().is_some_and(|before| before.as_ref() == destination) {
            return;
        }
        if let Subject::Address(address) = &subject {
            let (key, is_balanced) = match destination {
                Some(Destination::Cluster(key)) => (Some(key), true),
                Some(Destination::Endpoint(key)) => (Some(key), false),
                None => (None, false),
            };
            self.draft.set_address(*address, key, is_balanced);
        }
        // Link the new destination before unlinking the old one. Otherwise a cluster that both destinations use would
        // be forgotten in between.
        match destination {
            Some(Destination::Cluster(key)) => self.want_cluster(key, |known| known.balanced.insert(subject.clone())),
            Some(Destination::Endpoint(key)) => self.want_cluster(key, |known| known.dialled.insert(subject.clone())),
            None => {}
        }
        self.unlink(&subject, before.flatten().as_ref());
        self.draft.look_again(&subject);
        self.touched_subjects.insert(subject);
    }

    /// Removes a subject's link to its destination.
    fn unlink(&mut self, subject: &Subject, destination: Option<&Destination>) {
        match destination {
            Some(Destination::Cluster(key)) => {
                let Some(known) = self.clusters.get_mut(key) else { return };
                known.balanced.remove(subject);
                if known.balanced.is_empty() {
                    self.forget_routes(key);
                }
                self.forget_if_unwanted(key);
            }
            Some(Destination::Endpoint(key)) => {
                let Some(known) = self.clusters.get_mut(key) else { return };
                known.dialled.remove(subject);
                self.forget_if_unwanted(key);
            }
            None => {}
        }
    }

    /// Calls `link`, which must add a subject or a route that leads to the cluster `key`. Subscribes to the cluster if
    /// it is new, and to its routes if `link` adds the first subject whose calls are balanced over the cluster.
    fn want_cluster(&mut self, key: &ClusterKey, link: impl FnOnce(&mut KnownCluster) -> bool) {
        let is_new = !self.clusters.contains_key(key);
        let known = self.clusters.entry(key.clone()).or_default();
        let had_routes = !known.balanced.is_empty();
        link(known);
        let has_routes = !known.balanced.is_empty();
        if is_new {
            self.wishes.note(Kind::Cluster, key.to_string(), Wish::Subscribe);
            self.wishes.note(Kind::Endpoints, key.to_string(), Wish::Subscribe);
        }
        if has_routes && !had_routes {
            self.wishes.note(Kind::Route, key.to_string(), Wish::Subscribe);
        }
    }

    fn unwant(&mut self, kind: Kind, name: String) {
        if let Some(versions) = self.versions.get_mut(kind.index()) {
            versions.remove(&name);
        }
        self.wishes.note(kind, name, Wish::Unsubscribe);
    }

    fn change(&mut self, key: ClusterKey, change: impl FnOnce(&mut KnownCluster)) {
        if let Some(known) = self.clusters.get_mut(&key) {
            change(known);
            known.is_overdue &= known.is_gone();
            self.touched_clusters.insert(key);
        }
    }

    /// Changes the routes of a cluster, and updates the links to the clusters to which the routes lead.
    fn change_routes(&mut self, key: &ClusterKey, change: impl FnOnce(&mut Routes)) {
        let Some(known) = self.clusters.get_mut(key) else { return };
        let before = known.routes.destinations();
        change(&mut known.routes);
        let after = known.routes.destinations();
        for backend in after.difference(&before) {
            self.want_cluster(backend, |known| known.parents.insert(key.clone()));
        }
        for backend in before.difference(&after) {
            if let Some(known) = self.clusters.get_mut(backend) {
                known.parents.remove(key);
                self.forget_if_unwanted(backend);
            }
        }
        // The previous routes may have kept some of their backends in the mesh.
        let is_gone = |backend: &ClusterKey| self.clusters.get(backend).is_some_and(KnownCluster::is_gone);
        let gone: Vec<ClusterKey> = before.into_iter().filter(is_gone).collect();
        self.touched_clusters.extend(gone);
    }

    /// Whether routes in force lead to a cluster, and newer routes that will replace them wait for their backends.
    fn has_waiting_parent(&self, key: &ClusterKey, known: &KnownCluster) -> bool {
        let mut parents = known.parents.iter().filter_map(|parent| self.clusters.get(parent));
        parents.any(|parent| parent.routes.is_waiting_with(key))
    }

    /// Forgets the routes of a cluster. Call this when the last subject whose calls were balanced over the cluster is
    /// unlinked.
    fn forget_routes(&mut self, key: &ClusterKey) {
        self.unwant(Kind::Route, key.to_string());
        self.change_routes(key, |routes| *routes = Routes::default());
        self.draft.set_routes(key, &self.namespace, None);
    }

    fn forget_if_unwanted(&mut self, key: &ClusterKey) {
        if self.clusters.get(key).is_some_and(KnownCluster::is_unwanted) {
            self.clusters.remove(key);
            self.touched_clusters.remove(key);
            self.kept.remove(key);
            self.draft.forget_cluster(key);
            self.unwant(Kind::Cluster, key.to_string());
            self.unwant(Kind::Endpoints, key.to_string());
        }
    }

    /// Puts the current knowledge of a cluster into the mesh; returns the clusters whose routes may have waited for it.
    fn settle_cluster(&mut self, key: &ClusterKey) -> Vec<ClusterKey> {
        let Some(known) = self.clusters.get(key) else { return Vec::new() };
        if known.is_gone() && !known.is_overdue && self.has_waiting_parent(key, known) {
            // The control plane removes a cluster once we have acknowledged the routes that no longer need it. But these
            // routes are not in force yet, and calls that follow the previous routes would fail without the cluster.
            if self.draft.mesh().cluster(key).is_some() {
                self.kept.entry(key.clone()).or_default();
            }
            return known.parents.iter().cloned().collect();
        }
        self.kept.remove(key);
        let cluster = known.joined();
        if self.draft.mesh().cluster(key).is_some() != cluster.is_some() {
            known.subjects().for_each(|subject| self.draft.look_again(subject));
            known.parents.iter().for_each(|parent| self.draft.renew_routes(parent));
        }
        self.draft.set_cluster(key, cluster);
        self.touched_subjects.extend(known.subjects().cloned());
        known.parents.iter().cloned().collect()
    }

    /// Puts the routes of a cluster into force if all their backends are known.
    fn settle_routes(&mut self, key: &ClusterKey) {
        let Some(known) = self.clusters.get(key) else { return };
        let is_known = |backend| self.clusters.get(backend).is_some_and(KnownCluster::is_known);
        if known.routes.next.as_ref().is_some_and(|table| table.destinations().all(is_known)) {
            self.touched_subjects.extend(known.subjects().cloned());
            self.change_routes(key, |routes| routes.current = Some(routes.next.take()));
        }
        let current = self.clusters.get(key).and_then(|known| known.routes.current.clone());
        self.draft.set_routes(key, &self.namespace, current.flatten());
    }

    fn is_answered(&self, subject: &Subject) -> bool {
        if *subject == Subject::Inbound {
            return self.draft.mesh().answers(subject);
        }
        let known = |key: &ClusterKey| self.clusters.get(key).filter(|known| known.is_known());
        match self.asked.get(subject).and_then(|asked| asked.lead.as_ref()) {
            None => false,
            Some(None) => true,
            // The endpoint may have left the cluster before the control plane says where the address leads now. Calls
            // that did not wait for this would go in clear, although the endpoint may have a proxy.
            Some(Some(Destination::Endpoint(key))) => known(key).is_some() && self.has_endpoint(subject),
            // Not all calls to the own address of an endpoint are balanced, so such an address needs its endpoint too.
            Some(Some(Destination::Cluster(key))) => {
                known(key).is_some_and(KnownCluster::has_routes)
                    && (!self.is_endpoints_own(subject, key) || self.has_endpoint(subject))
            }
        }
    }

    fn is_endpoints_own(&self, subject: &Subject, key: &ClusterKey) -> bool {
        let Subject::Address(address) = subject else { return false };
        self.draft.mesh().cluster(key).is_some_and(|cluster| !cluster.has_cluster_ip(address.ip()))
    }

    fn has_endpoint(&self, subject: &Subject) -> bool {
        matches!(subject, Subject::Address(address) if self.draft.mesh().endpoint_by_address(*address).is_some())
    }
}

#[cfg(test)]
#[path = "knowledge_tests.rs"]
mod tests;
