//! The resources of one mesh, written when they are first asked for and kept for whoever asks next.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use envoy_types::pb::google::protobuf::Any;
use leno_model::mesh::{Cluster, Mesh};
use leno_model::policy::AuthorizationPolicy;
use leno_model::spiffe::TrustDomain;
use leno_wire::limits::RESOURCE_MAX_BYTES;
use leno_wire::{Dialect, Kind, View, cluster, endpoints, inbound, listener, routes};
use prost::Message;

use super::changes::Changes;
use super::subject::Subject;

/// A resource as it is sent.
#[derive(Debug)]
pub(crate) struct Written {
    /// Of its bytes: equal resources have equal versions, whoever wrote them.
    pub(crate) version: Version,
    /// The resource.
    pub(crate) any: Any,
}

/// A resource's version: a digest of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Version(pub(crate) u64);

/// Whom resources are for: what a resource's content depends on beside its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Audience {
    /// What the client understands.
    pub(crate) dialect: Dialect,
    /// Whether it has certificates of the mesh.
    pub(crate) mutual_tls: bool,
    /// The namespace that it is in: consumer routes there are for it.
    pub(crate) namespace: Arc<str>,
    /// Whom it runs as, if its certificate says so: policies are for it.
    pub(crate) service_account: Option<Arc<str>>,
}

/// The resources of one mesh.
#[derive(Debug)]
pub(crate) struct Catalog {
    mesh: Arc<Mesh>,
    trust_domain: TrustDomain,
    /// Under the names that are used where nobody has asked for another.
    written: Mutex<Resources>,
}

type Resources = HashMap<(Kind, Subject), HashMap<Audience, Arc<Written>>>;

impl Catalog {
    /// The resources of a mesh, whose workloads are of a trust domain.
    pub(crate) fn new(mesh: Arc<Mesh>, trust_domain: TrustDomain) -> Self {
        Self { mesh, trust_domain, written: Mutex::default() }
    }

    /// The resources of the mesh that comes next, which takes over what did not change as it was written: whoever still
    /// looks here writes it again.
    pub(crate) fn next(&self, mesh: Arc<Mesh>) -> (Self, Changes) {
        let changes = Changes::between(&self.mesh, &mesh);
        let mut written = std::mem::take(&mut *self.lock());
        for kind in Kind::ALL {
            for subject in changes.of(kind) {
                written.remove(&(kind, subject.clone()));
            }
        }
        (Self { mesh, trust_domain: self.trust_domain.clone(), written: Mutex::new(written) }, changes)
    }

    /// The resource of that name, for a client; `None` if there is none.
    pub(crate) fn get(&self, kind: Kind, name: &str, audience: &Audience) -> Option<Arc<Written>> {
        let subject = Subject::of(kind, name, &audience.namespace)?;
        if let Some(pod) = self.pod(&subject) {
            return Self::written(kind, name, self.write_pod(kind, name, &pod, audience)?).map(Arc::new);
        }
        if subject.to_string() != name {
            return self.write(kind, name, &subject, audience).map(Arc::new);
        }
        let audience = audience.of(kind, &subject);
        let place = (kind, subject);
        if let Some(written) = self.lock().get(&place).and_then(|written| written.get(&audience)) {
            return Some(written.clone());
        }
        // Two that ask at once both write it, which is the same.
        let written = Arc::new(self.write(kind, name, &place.1, &audience)?);
        self.lock().entry(place).or_default().insert(audience, written.clone());
        Some(written)
    }

    /// Forgets what was written about a subject: whoever asks next has it written again.
    pub(crate) fn forget(&self, subject: &Subject) {
        let mut written = self.lock();
        for kind in Kind::ALL {
            written.remove(&(kind, subject.clone()));
        }
        if written.len() < written.capacity() / 4 {
            written.shrink_to_fit();
        }
    }

    /// Whether anything is kept as it was written about a subject.
    #[cfg(test)]
    pub(crate) fn has_written(&self, subject: &Subject) -> bool {
        Kind::ALL.into_iter().any(|kind| self.lock().contains_key(&(kind, subject.clone())))
    }

    /// The names of all resources that a client gets which asks for all.
    pub(crate) fn all(&self, kind: Kind) -> Vec<String> {
        let clusters = self.mesh.clusters().iter();
        match kind {
            Kind::Cluster => clusters.map(|cluster| cluster.key.to_string()).collect(),
            Kind::Listener => self.mesh.addresses().map(|(address, _)| address.to_string()).collect(),
            Kind::Endpoints | Kind::Route => Vec::new(),
        }
    }

    /// Whether a client that asks for all gets the resource of that name.
    pub(crate) fn is_among_all(&self, kind: Kind, name: &str) -> bool {
        match kind {
            Kind::Cluster => true,
            Kind::Listener => name.parse().is_ok_and(|address| self.mesh.cluster_by_address(address).is_some()),
            Kind::Endpoints | Kind::Route => false,
        }
    }

    fn write(&self, kind: Kind, name: &str, subject: &Subject, audience: &Audience) -> Option<Written> {
        let view = self.view(audience);
        let value = match (kind, subject) {
            (Kind::Cluster, Subject::Cluster(key)) => cluster::write(self.mesh.cluster(key)?, view).encode_to_vec(),
            (Kind::Endpoints, Subject::Cluster(key)) => endpoints::write(self.mesh.cluster(key)?, view).encode_to_vec(),
            (Kind::Cluster, Subject::Nowhere) => cluster::write_nowhere().encode_to_vec(),
            (Kind::Endpoints, Subject::Nowhere) => endpoints::write_nowhere().encode_to_vec(),
            (Kind::Listener, Subject::Cluster(key)) => {
                let cluster = self.mesh.cluster(key)?;
                listener::write(name, None, cluster, None).encode_to_vec()
            }
            (Kind::Listener, Subject::Address(address)) => match self.mesh.cluster_by_address(*address) {
                Some(cluster) => {
                    let table = self.mesh.routes(&cluster.key, &audience.namespace);
                    listener::write(name, Some(*address), cluster, table.map(Arc::as_ref)).encode_to_vec()
                }
                None => listener::write_endpoint(name, &self.mesh.endpoint_by_address(*address)?.0.key).encode_to_vec(),
            },
            (_, Subject::Host(_)) => return None,
            (Kind::Listener, Subject::Inbound(namespace)) => self.write_inbound(namespace, audience),
            (Kind::Route, Subject::Cluster(key)) => {
                let cluster: &Cluster = self.mesh.cluster(key)?;
                let table = self.mesh.routes(key, &audience.namespace);
                routes::write(&cluster.key, table.map(Arc::as_ref), audience.dialect).encode_to_vec()
            }
            (Kind::Route, Subject::Mesh) => {
                routes::write_mesh(&self.mesh, &audience.namespace, audience.dialect).encode_to_vec()
            }
            (Kind::Cluster | Kind::Endpoints, Subject::Address(_) | Subject::Mesh | Subject::Inbound(_))
            | (Kind::Listener, Subject::Mesh | Subject::Nowhere)
            | (Kind::Route, Subject::Address(_) | Subject::Nowhere | Subject::Inbound(_)) => return None,
        };
        Self::written(kind, name, value)
    }

    /// The cluster of a Pod, if the subject is its address or that cluster and nothing else. It is made anew for whoever
    /// asks: what a Pod's address leads to changes with the Pod, at ports that nobody knows.
    fn pod(&self, subject: &Subject) -> Option<Cluster> {
        match subject {
            Subject::Cluster(key) => self.mesh.pod_cluster(key),
            Subject::Address(address) => {
                let is_known = self.mesh.cluster_by_address(*address).is_some()
                    || self.mesh.endpoint_by_address(*address).is_some();
                if is_known { None } else { self.mesh.pod_by_address(*address) }
            }
            Subject::Host(_) | Subject::Mesh | Subject::Inbound(_) | Subject::Nowhere => None,
        }
    }

    fn write_pod(&self, kind: Kind, name: &str, pod: &Cluster, audience: &Audience) -> Option<Vec<u8>> {
        match kind {
            Kind::Cluster => Some(cluster::write(pod, self.view(audience)).encode_to_vec()),
            Kind::Endpoints => Some(endpoints::write(pod, self.view(audience)).encode_to_vec()),
            Kind::Listener => Some(listener::write_endpoint(name, &pod.key).encode_to_vec()),
            Kind::Route => None,
        }
    }

    fn view(&self, audience: &Audience) -> View<'_> {
        View { dialect: audience.dialect, mutual_tls: audience.mutual_tls.then_some(&self.trust_domain) }
    }

    fn written(kind: Kind, name: &str, value: Vec<u8>) -> Option<Written> {
        // What no client could read is not sent at all: it keeps what it has.
        if value.len() > RESOURCE_MAX_BYTES {
            let (kind, size) = (kind.name(), value.len());
            tracing::warn!(
                kind,
                name,
                size,
                "xds: too large to be sent; write fewer routes or policies, or smaller ones"
            );
            return None;
        }
        let mut hasher = DefaultHasher::new();
        hasher.write(&value);
        let version = Version(hasher.finish());
        Some(Written { version, any: Any { type_url: kind.type_url().to_owned(), value } })
    }

    /// The policies that select the client.
    fn write_inbound(&self, namespace: &str, audience: &Audience) -> Vec<u8> {
        let selects = |policy: &&AuthorizationPolicy| {
            audience.service_account.as_deref().is_none_or(|account| policy.selects_account(account))
        };
        let policies = self.mesh.policies_of(namespace).map(Arc::as_ref).filter(selects);
        inbound::write(policies, &self.trust_domain).encode_to_vec()
    }

    fn lock(&self) -> MutexGuard<'_, Resources> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Audience {
    /// As much of it as resources of a kind about the subject depend on: what is the same for all service accounts, or for all
    /// namespaces, is written once.
    fn of(&self, kind: Kind, subject: &Subject) -> Self {
        let is_inbound = matches!(subject, Subject::Inbound(_));
        let service_account = self.service_account.clone().filter(|_| is_inbound);
        // Routes of the client's namespace count; the Listener of an address shows those of connections.
        let has_routes = matches!((kind, subject), (Kind::Route, _) | (Kind::Listener, Subject::Address(_)));
        let namespace = if has_routes || is_inbound { self.namespace.clone() } else { Arc::default() };
        Self { service_account, namespace, ..self.clone() }
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Version {
    /// Reads what a client says it has.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        u64::from_str_radix(text, 16).ok().map(Self)
    }
}
