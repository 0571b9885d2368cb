//! Simulated proxies: each has a connection over mutual TLS and a stream of incremental xDS. All share one thread.
//!
//! A simulated proxy sends the same requests as a leno-proxy with redirected connections. It first requests its inbound
//! policies and the dialed addresses, then the clusters, endpoints and routes of its Services. It acknowledges each
//! response, but does not apply its content. The lab decodes each version of a Service's endpoints once for all
//! proxies, to find the change that the version encodes.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse, Resource};
use leno_xds::facts::node_metadata;
use leno_xds::name::INBOUND;
use leno_xds::{Kind, endpoints};
use prost::Message;
use rustls::ClientConfig;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;

use super::arrivals::Arrival;
use super::grpc::{Server, open};
use super::plan::{NAMESPACE, PORT, Plan, cluster, serial_of, service_of};
use crate::error::{Error, Result, io};
use crate::load::CONNECTING_AT_A_TIME;

const PATH: &str = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";

/// The data that all simulated proxies share: the planned mesh, the xDS server, and the certificate.
pub(super) struct World {
    pub(super) plan: Plan,
    /// Cluster IP of each Service.
    pub(super) cluster_ips: Vec<Ipv4Addr>,
    pub(super) xds: Server,
    /// The certificate that all proxies share.
    pub(super) tls: Arc<ClientConfig>,
}

/// The running proxies. Dropping this value ends all of them.
pub(super) struct Proxies {
    shared: Arc<Shared>,
    /// The signal to stop: dropping the sender ends the proxies.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    world: World,
    connecting: Semaphore,
    ready: AtomicU32,
    arrivals: Mutex<Vec<Arrival>>,
    /// For each Service: the version of its endpoints that was received last, and the change that these endpoints
    /// encode.
    versions: Mutex<HashMap<u32, (String, Option<u32>)>>,
    /// The error of the first proxy that failed.
    failure: Mutex<Option<String>>,
}

impl Proxies {
    /// Starts the planned number of proxies, which connect a few at a time.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub(super) fn start(world: World) -> Result<Self> {
        let shared = Arc::new(Shared {
            world,
            connecting: Semaphore::new(CONNECTING_AT_A_TIME),
            ready: AtomicU32::new(0),
            arrivals: Mutex::default(),
            versions: Mutex::default(),
            failure: Mutex::default(),
        });
        let (stop, stopped) = oneshot::channel();
        let (started, result) = mpsc::channel();
        let own = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            match runtime.map_err(io("starting the simulated proxies")) {
                Ok(runtime) => {
                    started.send(Ok(())).ok();
                    runtime.block_on(run_all(&own, stopped));
                }
                Err(error) => drop(started.send(Err(error))),
            }
        });
        let proxies = Self { shared, stop: Some(stop), thread: Some(thread) };
        result.recv().map_err(|_| failed("its thread has ended".to_owned()))??;
        Ok(proxies)
    }

    /// Number of proxies that have received all resources that they requested.
    ///
    /// # Errors
    /// If a proxy has lost its stream, because the figures would be useless.
    pub(super) fn ready(&self) -> Result<u32> {
        match lock(&self.shared.failure).as_ref() {
            Some(why) => Err(failed(why.clone())),
            None => Ok(self.shared.ready.load(Ordering::Relaxed)),
        }
    }

    /// Number of arrivals since the last [`Proxies::take_arrivals`]. An arrival is one change at one proxy.
    pub(super) fn arrived(&self) -> usize {
        lock(&self.shared.arrivals).len()
    }

    /// Returns the arrivals since the last call of this function.
    pub(super) fn take_arrivals(&self) -> Vec<Arrival> {
        std::mem::take(&mut *lock(&self.shared.arrivals))
    }
}

impl Drop for Proxies {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // Ignore the error: if the thread panicked, the panic's message was printed already.
            thread.join().ok();
        }
    }
}

async fn run_all(shared: &Arc<Shared>, stopped: oneshot::Receiver<()>) {
    let mut proxies = JoinSet::new();
    for number in 0..shared.world.plan.proxies {
        let shared = Arc::clone(shared);
        proxies.spawn(async move {
            if let Err(why) = run_one(number, &shared).await {
                lock(&shared.failure).get_or_insert_with(|| format!("proxy {number}: {why}"));
            }
        });
    }
    // Ignore the error: the sender never sends, and the wait ends with an error when the sender is dropped.
    stopped.await.ok();
}

/// Runs one proxy until its stream ends.
async fn run_one(number: u32, shared: &Shared) -> std::result::Result<(), String> {
    let World { plan, cluster_ips, xds, tls } = &shared.world;
    let services = plan.subscriptions_of(number);
    let address =
        |&service: &u32| cluster_ips.get(service as usize).map(|&ip| SocketAddr::new(ip.into(), PORT).to_string());
    let dialled = services.iter().filter_map(address).chain([INBOUND.to_owned()]).collect();
    let clusters: Vec<String> = services.iter().copied().map(cluster).collect();
    let mut missing = 4 * services.len() + 1;

    // The permit to connect, held until this proxy has received all its resources.
    let mut connecting = Some(shared.connecting.acquire().await.map_err(|error| error.to_string())?);
    let first = DeltaDiscoveryRequest { node: Some(node(number)), ..subscribe(Kind::Listener, dialled) };
    let mut stream = open(xds, Arc::clone(tls), PATH, &first).await?;
    let mut is_told_listeners = false;
    loop {
        let message = stream.next().await?;
        let at = Instant::now();
        let response = DeltaDiscoveryResponse::decode(message).map_err(|error| error.to_string())?;
        stream.send(&acknowledge(&response))?;
        if let Some(name) = response.removed_resources.first() {
            return Err(format!("the control plane says that there is no {name}"));
        }
        match Kind::from_type_url(&response.type_url) {
            Some(Kind::Listener) if !is_told_listeners => {
                is_told_listeners = true;
                for kind in [Kind::Cluster, Kind::Endpoints, Kind::Route] {
                    stream.send(&subscribe(kind, clusters.clone()))?;
                }
            }
            Some(Kind::Endpoints) => {
                for resource in &response.resources {
                    shared.take(number, resource, at)?;
                }
            }
            _ => {}
        }
        if missing > 0 {
            missing = missing.saturating_sub(response.resources.len());
            if missing == 0 {
                shared.ready.fetch_add(1, Ordering::Relaxed);
                drop(connecting.take());
            }
        }
    }
}

impl Shared {
    /// Records the arrival of a Service's endpoints, if they encode a change.
    fn take(&self, proxy: u32, resource: &Resource, at: Instant) -> std::result::Result<(), String> {
        let Some(service) = service_of(&resource.name) else {
            return Err(format!("unrequested endpoints of {}", resource.name.escape_debug()));
        };
        if let Some(serial) = self.serial(service, resource)? {
            lock(&self.arrivals).push(Arrival { proxy, service, serial, at });
        }
        Ok(())
    }

    fn serial(&self, service: u32, resource: &Resource) -> std::result::Result<Option<u32>, String> {
        let mut versions = lock(&self.versions);
        if let Some((version, serial)) = versions.get(&service)
            && *version == resource.version
        {
            return Ok(*serial);
        }
        let bytes = resource.resource.as_ref().map_or(&[][..], |any| &any.value);
        let endpoints = endpoints::read(bytes).map_err(|unreadable| unreadable.to_string())?;
        let addresses = endpoints.ready.iter().filter_map(|endpoint| match endpoint.address {
            SocketAddr::V4(address) => serial_of(*address.ip()),
            SocketAddr::V6(_) => None,
        });
        let serial = addresses.max();
        versions.insert(service, (resource.version.clone(), serial));
        Ok(serial)
    }
}

/// The node of a proxy, with an id and metadata as leno-proxy sends them.
fn node(number: u32) -> Node {
    Node {
        id: format!("proxy-{number}"),
        user_agent_name: "leno-proxy".to_owned(),
        metadata: Some(node_metadata(NAMESPACE)),
        ..Default::default()
    }
}

fn subscribe(kind: Kind, names: Vec<String>) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        type_url: kind.type_url().to_owned(),
        resource_names_subscribe: names,
        ..Default::default()
    }
}

fn acknowledge(response: &DeltaDiscoveryResponse) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        type_url: response.type_url.clone(),
        response_nonce: response.nonce.clone(),
        ..Default::default()
    }
}

fn failed(why: String) -> Error {
    Error::Cluster { what: "a simulated proxy lost the control plane".to_owned(), why }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
