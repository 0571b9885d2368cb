//! The resources of one mesh. Each resource is encoded when a client first requests it, and kept for later clients
//! ([`Kept`]).

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use envoy_types::pb::google::protobuf::Any;
use leno_model::mesh::{Cluster, Mesh};
use leno_model::policy::AuthorizationPolicy;
use leno_model::spiffe::TrustDomain;
use leno_xds::limits::RESOURCE_MAX_BYTES;
use leno_xds::{Dialect, Kind, View, cluster, endpoints, inbound, listener, routes};
use prost::Message;

use super::changes::Changes;
use super::departed::Departed;
use super::kept::{Kept, Place};
use super::limits::WHOLE_ROUTES_PAUSE;
use super::metrics::Metrics;
use super::subject::Subject;
use super::version::Version;

/// An encoded resource, ready to be sent.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) version: Version,
    pub(crate) any: Any,
}

/// The answer to a request for a resource.
#[derive(Debug)]
pub(crate) enum Found {
    /// The resource or, if the resource is too large to be sent, its last version that was not too large.
    Resource(Arc<Written>),
    /// The resource is too large to be sent, and no earlier version of it is kept.
    TooLarge,
    Missing,
}

/// The client properties on which a resource's content depends, in addition to the resource's name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Audience {
    /// The xDS dialect that the client understands.
    pub(crate) dialect: Dialect,
    /// Whether the client has a certificate of the mesh.
    pub(crate) mutual_tls: bool,
    /// The client's namespace; the consumer routes in it apply to the client.
    pub(crate) namespace: Arc<str>,
    /// The cluster's DNS domain, the same for all clients.
    pub(crate) cluster_domain: Arc<str>,
    /// The service account in the client's certificate; policies that select it apply. `None` without a certificate.
    pub(crate) service_account: Option<Arc<str>>,
    /// The address from which a client with a certificate connects. It is the address of the client's Pod, unless a NAT
    /// is in between.
    pub(crate) pod: Option<IpAddr>,
}

/// The properties of clients (the readers of a resource) on which the resource's content depends. Readers with equal
/// properties share the resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Readers {
    pub(super) audience: Audience,
    /// The Pod's ports that Services declare to speak HTTP; only for `inbound`. Pods with the same ports share one
    /// resource.
    pub(super) http_ports: Box<[u16]>,
}

#[derive(Debug)]
pub(crate) struct Catalog {
    mesh: Arc<Mesh>,
    departed: Departed,
    trust_domain: TrustDomain,
    /// The number of the mesh, in the order in which meshes were served.
    number: u64,
    /// The time from which clients that have earlier routes of the whole mesh get the current ones; `None` if these
    /// routes have never changed.
    whole_routes_at: Option<Instant>,
    metrics: Arc<Metrics>,
    /// Shared by the catalogs of all meshes.
    stock: Arc<Mutex<Stock>>,
}

/// The resources that are kept for the latest mesh.
#[derive(Debug)]
struct Stock {
    /// The number of the latest mesh. A stream that still uses an older catalog encodes its resources anew, and keeps
    /// none of them.
    mesh: u64,
    /// The kept resources. A resource is kept only if the client used the canonical name of the resource's subject.
    kept: Kept,
}

impl Catalog {
    /// `trust_domain` is the trust domain of the mesh's workloads. At most `max_bytes` of encoded resources are kept.
    pub(crate) fn new(mesh: Arc<Mesh>, trust_domain: TrustDomain, max_bytes: usize, metrics: Arc<Metrics>) -> Self {
        let stock = Stock { mesh: 0, kept: Kept::new(max_bytes) };
        let departed = Departed::default();
        let stock = Arc::new(Mutex::new(stock));
        Self { mesh, departed, trust_domain, number: 0, whole_routes_at: None, metrics, stock }
    }

    /// Makes the catalog of the next mesh. The unchanged resources stay kept.
    pub(crate) fn next(&self, mesh: Arc<Mesh>) -> (Self, Changes) {
        let changes = Changes::between(&self.mesh, &mesh);
        let number = self.number + 1;
        let mut stock = self.lock();
        stock.mesh = number;
        for kind in Kind::ALL {
            for subject in changes.of(kind) {
                let place = (kind, subject.clone());
                if is_there(&mesh, subject) { stock.kept.outdate(&place) } else { stock.kept.remove_all(&place) }
            }
        }
        drop(stock);
        let departed = self.departed.next(&changes, &self.mesh, &mesh);
        let whole_routes_at = match changes.of(Kind::Route).contains(&Subject::Mesh) {
            true => Some(next_whole_routes(self.whole_routes_at, Instant::now())),
            false => self.whole_routes_at,
        };
        let (trust_domain, metrics) = (self.trust_domain.clone(), self.metrics.clone());
        (Self { mesh, departed, trust_domain, number, whole_routes_at, metrics, stock: self.stock.clone() }, changes)
    }

    pub(crate) fn mesh(&self) -> &Mesh {
        &self.mesh
    }

    /// The time from which clients that have earlier routes of the whole mesh get the current ones. It is the same for
    /// all clients, so that the clients of one namespace share the encoded resource.
    pub(super) fn whole_routes_at(&self) -> Option<Instant> {
        self.whole_routes_at
    }

    /// Finds the resource with this name for a client.
    pub(crate) fn get(&self, kind: Kind, name: &str, audience: &Audience) -> Found {
        let Some(subject) = Subject::of(kind, name, &audience.namespace, &audience.cluster_domain) else {
            return Found::Missing;
        };
        if let Some(pod) = self.pod(&subject) {
            return self.unkept(kind, self.write_pod(kind, name, &pod, audience));
        }
        let readers = self.readers(kind, &subject, audience);
        if subject.to_string() != name {
            return self.unkept(kind, self.write(kind, name, &subject, &readers));
        }
        let place = (kind, subject);
        if let Some(mut stock) = self.stock()
            && let Some(found) = stock.kept.get(&place, &readers)
        {
            return found;
        }
        // If two clients request a resource at the same time, both requests may encode it. The results are equal.
        let value = self.write(kind, name, &place.1, &readers);
        let size = value.as_ref().map_or(0, Vec::len);
        let found = self.unkept(kind, value);
        match &found {
            Found::Resource(written) => {
                if let Some(mut stock) = self.stock() {
                    stock.kept.keep(place, readers, written.clone());
                }
                found
            }
            Found::TooLarge => self.last(&place, &readers, size),
            Found::Missing => {
                if let Some(mut stock) = self.stock() {
                    stock.kept.remove(&place, &readers);
                }
                found
            }
        }
    }

    /// Returns the Cluster with this name as it was before the mesh lost it; `None` if it is not kept.
    pub(super) fn departed(&self, name: &str, audience: &Audience) -> Option<Arc<Written>> {
        let Audience { namespace, cluster_domain, .. } = audience;
        let Subject::Cluster(key) = Subject::of(Kind::Cluster, name, namespace, cluster_domain)? else { return None };
        let value = cluster::write(self.departed.find(&key)?, self.view(audience)).encode_to_vec();
        match self.unkept(Kind::Cluster, Some(value)) {
            Found::Resource(written) => Some(written),
            Found::TooLarge | Found::Missing => None,
        }
    }

    /// Drops the encoded resources of a subject without subscribers.
    pub(crate) fn forget(&self, subject: &Subject) {
        self.lock().kept.forget(subject);
    }

    /// Returns in how many forms this resource is kept. Clients with equal `Readers` properties share one form.
    #[cfg(test)]
    pub(crate) fn forms(&self, kind: Kind, subject: &Subject) -> usize {
        self.lock().kept.forms(&(kind, subject.clone()))
    }

    /// Whether any encoded resource of a subject is kept.
    #[cfg(test)]
    pub(crate) fn has_written(&self, subject: &Subject) -> bool {
        Kind::ALL.into_iter().any(|kind| self.forms(kind, subject) > 0)
    }

    /// The names of all resources of a kind, for clients that subscribe to all resources.
    pub(crate) fn all(&self, kind: Kind) -> Vec<String> {
        let clusters = self.mesh.clusters().iter();
        match kind {
            Kind::Cluster => clusters.map(|cluster| cluster.key.to_string()).collect(),
            Kind::Listener => self.mesh.addresses().map(|(address, _)| address.to_string()).collect(),
            Kind::Endpoints | Kind::Route => Vec::new(),
        }
    }

    /// Returns whether a client that subscribes to all resources gets the resource with this name.
    pub(crate) fn is_among_all(&self, kind: Kind, name: &str) -> bool {
        match kind {
            Kind::Cluster => true,
            Kind::Listener => name.parse().is_ok_and(|address| self.mesh.cluster_by_address(address).is_some()),
            Kind::Endpoints | Kind::Route => false,
        }
    }

    fn readers(&self, kind: Kind, subject: &Subject, audience: &Audience) -> Readers {
        let http_ports = match (subject, audience.pod) {
            (Subject::Inbound(namespace), Some(pod)) => self.mesh.http_ports_of(pod, namespace),
            _ => Vec::new(),
        };
        Readers { audience: audience.of(kind, subject), http_ports: http_ports.into() }
    }

    fn write(&self, kind: Kind, name: &str, subject: &Subject, readers: &Readers) -> Option<Vec<u8>> {
        let audience = &readers.audience;
        let view = self.view(audience);
        Some(match (kind, subject) {
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
            (_, Subject::Ports(_)) => return None,
            (Kind::Listener, Subject::Inbound(namespace)) => self.write_inbound(namespace, readers),
            (Kind::Route, Subject::Cluster(key)) => {
                let cluster: &Cluster = self.mesh.cluster(key)?;
                let table = self.mesh.routes(key, &audience.namespace);
                routes::write(&cluster.key, table.map(Arc::as_ref), audience.dialect).encode_to_vec()
            }
            (Kind::Route, Subject::Mesh) => {
                routes::write_mesh(&self.mesh, &audience.namespace, &audience.cluster_domain, audience.dialect)
                    .encode_to_vec()
            }
            (Kind::Cluster | Kind::Endpoints, Subject::Address(_) | Subject::Mesh | Subject::Inbound(_))
            | (Kind::Listener, Subject::Mesh | Subject::Nowhere)
            | (Kind::Route, Subject::Address(_) | Subject::Nowhere | Subject::Inbound(_)) => return None,
        })
    }

    /// Makes the cluster of a Pod if the subject is such a cluster, or a Pod's address that no Service or endpoint has.
    /// The cluster is made for each request and not kept: it changes with the Pod, and a client may name any port.
    fn pod(&self, subject: &Subject) -> Option<Cluster> {
        match subject {
            Subject::Cluster(key) => self.mesh.pod_cluster(key),
            Subject::Address(address) => {
                if is_there(&self.mesh, subject) {
                    None
                } else {
                    self.mesh.pod_by_address(*address)
                }
            }
            Subject::Mesh | Subject::Inbound(_) | Subject::Ports(_) | Subject::Nowhere => None,
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

    /// Makes the answer from a resource's encoded bytes; `None` if the resource does not exist. Nothing is kept.
    fn unkept(&self, kind: Kind, value: Option<Vec<u8>>) -> Found {
        let Some(value) = value else { return Found::Missing };
        self.metrics.written(kind);
        if value.len() > RESOURCE_MAX_BYTES {
            self.metrics.too_large(kind);
            return Found::TooLarge;
        }
        let any = Any { type_url: kind.type_url().to_owned(), value };
        Found::Resource(Arc::new(Written { version: Version::of(&any.value), any }))
    }

    /// Handles a resource whose current version is too large to be sent: returns its last version that was not too
    /// large, if that is kept. Logs the first time that this happens to the resource.
    fn last(&self, place: &Place, readers: &Readers, size: usize) -> Found {
        let mut stock = self.lock();
        let last = stock.kept.last(place, readers);
        let is_news = stock.mesh == self.number && stock.kept.mark_too_large(place.clone(), readers.clone());
        drop(stock);
        if is_news {
            let (kind, subject) = place;
            let Audience { namespace, service_account, .. } = &readers.audience;
            tracing::warn!(
                kind = kind.name(),
                name = %subject,
                namespace = Some(&**namespace).filter(|namespace| !namespace.is_empty()),
                service_account = service_account.as_deref(),
                size,
                limit = RESOURCE_MAX_BYTES,
                "xds: a resource is too large to be sent, so clients keep its last version; {}",
                remedy(*kind, subject)
            );
        }
        last.map_or(Found::TooLarge, Found::Resource)
    }

    /// Encodes the resource `inbound`: the policies that select the client's workload, and the Pod's HTTP ports.
    fn write_inbound(&self, namespace: &str, readers: &Readers) -> Vec<u8> {
        let selects = |policy: &&AuthorizationPolicy| {
            readers.audience.service_account.as_deref().is_none_or(|account| policy.selects_account(account))
        };
        let policies = self.mesh.policies_of(namespace).map(Arc::as_ref).filter(selects);
        inbound::write(policies, &readers.http_ports, &self.trust_domain).encode_to_vec()
    }

    /// The kept resources, if this is the catalog of the latest mesh.
    fn stock(&self) -> Option<MutexGuard<'_, Stock>> {
        Some(self.lock()).filter(|stock| stock.mesh == self.number)
    }

    fn lock(&self) -> MutexGuard<'_, Stock> {
        self.stock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the time from which clients get the routes of the whole mesh that changed at `now`. `latest` is this time
/// for the change before.
fn next_whole_routes(latest: Option<Instant>, now: Instant) -> Instant {
    match latest {
        None => now,
        // Clients have not got the change before yet: they get both at once.
        Some(at) if now <= at => at,
        Some(at) => now.max(at + WHOLE_ROUTES_PAUSE),
    }
}

/// Whether a subject may have resources. Only a cluster or an address that the mesh lacks has none.
fn is_there(mesh: &Mesh, subject: &Subject) -> bool {
    match subject {
        Subject::Cluster(key) => mesh.cluster(key).is_some(),
        Subject::Address(address) => {
            mesh.cluster_by_address(*address).is_some() || mesh.endpoint_by_address(*address).is_some()
        }
        Subject::Mesh | Subject::Inbound(_) | Subject::Ports(_) | Subject::Nowhere => true,
    }
}

/// Returns a remedy for a resource that is too large, for the log.
fn remedy(kind: Kind, subject: &Subject) -> &'static str {
    match (kind, subject) {
        (Kind::Cluster, _) => "let the Service's Pods use fewer service accounts",
        (Kind::Endpoints, _) => "divide the Service's Pods among several Services",
        (Kind::Listener, Subject::Inbound(_)) => "write fewer or shorter AuthorizationPolicies for the workload",
        (Kind::Listener, _) => "write fewer or shorter TCPRoutes and TLSRoutes for the Service",
        (Kind::Route, Subject::Mesh) => "write fewer or shorter routes, or let clients subscribe to single Services",
        (Kind::Route, _) => "write fewer or shorter routes for the Service",
    }
}

impl Audience {
    /// Returns the subjects whose changes may change the resource with this name for this client.
    pub(crate) fn subjects(&self, kind: Kind, name: &str) -> impl Iterator<Item = Subject> + use<> {
        let subject = Subject::of(kind, name, &self.namespace, &self.cluster_domain);
        let ports = self.pod.filter(|_| matches!(subject, Some(Subject::Inbound(_)))).map(Subject::Ports);
        subject.into_iter().chain(ports)
    }

    /// Returns the part of the audience that a resource of this kind and subject depends on. So a resource that is the
    /// same for all service accounts or all namespaces is encoded once.
    fn of(&self, kind: Kind, subject: &Subject) -> Self {
        let is_inbound = matches!(subject, Subject::Inbound(_));
        let service_account = self.service_account.clone().filter(|_| is_inbound);
        // Two kinds of resources depend on the client's namespace: Routes, and the Listeners of addresses, because they
        // contain the TCP and TLS routes.
        let has_routes = matches!((kind, subject), (Kind::Route, _) | (Kind::Listener, Subject::Address(_)));
        let namespace = if has_routes || is_inbound { self.namespace.clone() } else { Arc::default() };
        // Only Clusters and endpoints describe how a client connects.
        let mutual_tls = self.mutual_tls && matches!(kind, Kind::Cluster | Kind::Endpoints);
        Self { service_account, namespace, mutual_tls, pod: None, ..self.clone() }
    }
}
