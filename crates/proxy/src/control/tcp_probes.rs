//! The admin pages `/probe/tcp/PORT`, which the kubelet requests in place of the application's TCP probes. For a
//! request, the proxy connects to the application's port and answers whether the application accepts the connection.
//!
//! Any Pod of the cluster can request these pages. So the proxy connects only to ports that the Pod's own probes name,
//! opens one connection to a port at a time, and closes each connection at once. Requests within [`RESULT_AGE_MAX`] get
//! the same result: a flood of requests costs the application at most two connections per second, port and address.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};
use leno_admin::ReachedAt;
use leno_admin::answer::{Answer, text, wrong_method};
use leno_model::tcp_probe::{PATH, TcpProbe};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::task::spawn_local;
use tokio::time::timeout;

/// Difference between the kubelet's timeout and ours: the answer must reach the kubelet within the kubelet's timeout,
/// because only the answer says why the probe failed.
const ANSWER_MARGIN: Duration = Duration::from_millis(200);

/// Time for which further requests get the same result. It is shorter than the shortest interval of a kubelet's probes,
/// one second, so each probe of a kubelet gets a result of its own.
const RESULT_AGE_MAX: Duration = Duration::from_millis(500);

/// Maximum number of addresses with a result, for each port. A kubelet uses one or two addresses of the Pod. A program
/// in the Pod can use any loopback address.
const ADDRESSES_MAX: usize = 8;

/// The TCP probes of the application, by port.
pub(super) struct TcpProbes(BTreeMap<u16, Port>);

#[derive(Default)]
struct Port {
    /// Longest time to establish a connection.
    connect_max: Duration,
    /// The recent results. The lock allows one connection at a time.
    latest: Arc<Mutex<Results>>,
}

/// The latest result for each address of the Pod.
type Results = BTreeMap<IpAddr, Probed>;

struct Probed {
    at: Instant,
    /// Why the application did not accept the connection.
    result: Result<(), String>,
}

impl Probed {
    fn is_recent(&self) -> bool {
        self.at.elapsed() < RESULT_AGE_MAX
    }
}

impl TcpProbes {
    /// Takes the first [`TcpProbe::MAX`] probes. If several probes name the same port, the longest timeout applies.
    pub(super) fn new(probes: Vec<TcpProbe>) -> Self {
        let mut ports: BTreeMap<u16, Port> = BTreeMap::new();
        for probe in probes.into_iter().take(TcpProbe::MAX) {
            let port = ports.entry(probe.port).or_default();
            port.connect_max = port.connect_max.max(probe.timeout().saturating_sub(ANSWER_MARGIN));
        }
        Self(ports)
    }

    /// Answers a request for the page of a TCP probe; `None` if the request is for another page.
    pub(super) async fn answer(&self, request: &Request<Incoming>) -> Option<Answer> {
        let number = request.uri().path().strip_prefix(PATH)?;
        let found = number.parse::<u16>().ok().and_then(|number| self.0.get_key_value(&number));
        let Some((number, port)) = found else {
            let why = "no TCP probe of this Pod names the port (--tcp-probe); create the Pod again after a change\n";
            return Some(text(StatusCode::NOT_FOUND, why));
        };
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return Some(wrong_method("GET, HEAD"));
        }
        // The kubelet reaches the endpoint at the Pod's address. Callers of the application use this address too, and
        // the relay connects to it for an inbound call.
        let ReachedAt(ip) = *request.extensions().get::<ReachedAt>()?;
        Some(match port.probe(SocketAddr::new(ip, *number)).await {
            Ok(()) => text(StatusCode::OK, "the application accepts connections\n"),
            Err(why) => text(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
        })
    }
}

impl Port {
    /// Connects to the application, unless the latest result is recent.
    ///
    /// # Errors
    /// The reason why the application did not accept the connection.
    async fn probe(&self, address: SocketAddr) -> Result<(), String> {
        let mut latest = self.latest.clone().lock_owned().await;
        if let Some(probed) = latest.get(&address.ip()).filter(|probed| probed.is_recent()) {
            return probed.result.clone();
        }
        let connect_max = self.connect_max;
        // If the requester closes its connection, this function never continues. The task still records the result, so
        // that the next request opens no further connection.
        let probing = spawn_local(async move {
            let result = connect(address, connect_max).await;
            record(&mut latest, address.ip(), result.clone());
            result
        });
        probing.await.unwrap_or_else(|error| Err(format!("the proxy could not finish the probe: {error}")))
    }
}

async fn connect(address: SocketAddr, connect_max: Duration) -> Result<(), String> {
    match timeout(connect_max, TcpStream::connect(address)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(format!("the application does not accept connections at {address}: {error}")),
        Err(_) => {
            let waited_ms = connect_max.as_millis();
            Err(format!("the application accepted no connection at {address} within {waited_ms} ms"))
        }
    }
}

/// Records a result, and drops the results that are not recent. If there are still too many, drops the oldest result.
fn record(latest: &mut Results, ip: IpAddr, result: Result<(), String>) {
    latest.retain(|_, probed| probed.is_recent());
    if latest.len() >= ADDRESSES_MAX
        && let Some(oldest) = latest.iter().min_by_key(|(_, probed)| probed.at).map(|(ip, _)| *ip)
    {
        latest.remove(&oldest);
    }
    latest.insert(ip, Probed { at: Instant::now(), result });
}

#[cfg(test)]
#[path = "tcp_probes_tests.rs"]
mod tests;
