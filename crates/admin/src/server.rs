//! The admin endpoint: health, metrics and internal state, over HTTP/1.
//!
//! Any Pod of a cluster can reach the endpoint. Each connection carries one request, and ends after [`CONNECTION_MAX`]
//! unless it carries a stream. When [`CONNECTIONS_MAX`] connections are open, a new connection replaces the oldest
//! connection of the address that has the most connections. So the endpoint answers a kubelet's probe, however many
//! connections other clients open. Two kinds of requests get only the [`PUBLIC`] pages and the pages below [`PROBES`]:
//! requests from other machines, and requests whose `Host` is the name of a website.
//!
//! [`serve_behind_proxy`] serves private pages to callers that the workload's proxy allows. A caller that reaches the
//! port without going through the proxy gets no page.

use std::cell::Cell;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use hyper::body::Incoming;
use hyper::header::{HOST, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use leno_accept::{Arrival, Listener, RoomSize};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::task::spawn_local;
use tokio::time::timeout;

use crate::answer::{Answer, for_callers_with_proxy, for_other_host, for_this_machine};
use crate::exposition::Exposition;

/// Limit on the number of open connections.
pub const CONNECTIONS_MAX: usize = 128;

/// Maximum time from accepting a connection to the end of its response.
const CONNECTION_MAX: Duration = Duration::from_secs(10);

/// Additional time, after [`CONNECTION_MAX`], for a response that is a stream of lines. Only clients on this machine
/// get such a response.
const STREAM_MAX: Duration = Duration::from_secs(60 * 60);

/// Maximum time from accepting a connection to the end of the request's header. Kubelets and Prometheus send the header
/// at once.
const HEADER_MAX: Duration = Duration::from_secs(1);

/// Replaces [`HEADER_MAX`] for clients on this machine. `kubectl port-forward` is such a client, and the user may be
/// far away: it connects to the endpoint long before the user's request arrives.
const LOCAL_HEADER_MAX: Duration = Duration::from_secs(5);

/// Maximum size of a request header, in bytes; hyper allows no smaller limit.
const HEADER_MAX_BYTES: usize = 8_192;

/// The pages for clients on other machines.
const PUBLIC: [&str; 3] = ["/live", "/ready", METRICS];

/// The paths below this one are public too: a kubelet requests these pages, to probe an application through its proxy.
const PROBES: &str = "/probe/";

/// The path of the metrics, the page that takes the most time to produce.
const METRICS: &str = "/metrics";

/// The IP address at which a client has reached the admin endpoint. Each request has it among its extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReachedAt(pub IpAddr);

/// Time for which all clients on other machines get the same copy of the metrics. So a flood of scrapes costs at most
/// one scrape per second in each format.
const SCRAPE_AGE_MAX: Duration = Duration::from_secs(1);

/// Decides which callers get the private pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    /// Callers on loopback. Other callers get the [`PUBLIC`] pages and the pages below [`PROBES`].
    Loopback,
    /// Callers whose source address equals the destination address: programs on this machine. One of them is the proxy,
    /// which relays the calls of remote callers. A remote machine cannot forge this, because Linux drops packets from
    /// the network whose source is an address of this machine. Other callers get no page.
    OwnAddress,
}

/// Serves the program's pages, and never returns. Must run within a `LocalSet`.
pub async fn serve<P>(listener: TcpListener, pages: P) -> Infallible
where
    P: AsyncFn(Request<Incoming>) -> Answer + 'static,
{
    serve_to("admin", listener, pages, Access::Loopback).await
}

/// Serves pages to callers that this machine's proxy allows, and to callers on this machine. `name` names the listener
/// in the log. Never returns; must run within a `LocalSet`.
pub async fn serve_behind_proxy<P>(name: &'static str, listener: TcpListener, pages: P) -> Infallible
where
    P: AsyncFn(Request<Incoming>) -> Answer + 'static,
{
    serve_to(name, listener, pages, Access::OwnAddress).await
}

async fn serve_to<P>(name: &'static str, listener: TcpListener, pages: P, access: Access) -> Infallible
where
    P: AsyncFn(Request<Incoming>) -> Answer + 'static,
{
    let server = Rc::new(Server { pages, access, scrape: Mutex::default() });
    // Leave every connection marked as silent, so that a new connection may replace any of them. A connection carries
    // only one request, so the oldest connection of an address is the slowest.
    let mut listener = Listener::new(name, listener, RoomSize::of_strangers(CONNECTIONS_MAX));
    loop {
        let Arrival { stream, address, mut place } = listener.accept().await;
        let server = server.clone();
        spawn_local(async move {
            let is_stream = Cell::new(false);
            let answering = async {
                let mut answering = pin!(server.answer_connection(stream, address, &is_stream));
                if timeout(CONNECTION_MAX, &mut answering).await.is_err() && is_stream.get() {
                    let _ = timeout(STREAM_MAX, answering).await;
                }
            };
            // Ignore the result: a peer that takes too long, or whose connection is replaced, sees its connection
            // close.
            let _ = place.hold(answering).await;
        });
    }
}

/// The latest response to a scrape, and when it was written.
type Written = Option<(Instant, Answer)>;

#[derive(Default)]
struct Scrapes {
    text: Written,
    open_metrics: Written,
}

struct Server<P> {
    pages: P,
    access: Access,
    /// The latest metrics for clients on other machines, in each format. The lock allows one scrape at a time, so that
    /// a probe waits for at most one scrape.
    scrape: Mutex<Scrapes>,
}

impl<P: AsyncFn(Request<Incoming>) -> Answer> Server<P> {
    /// Answers the request of a connection. Sets `is_stream` if the response is a stream of lines.
    async fn answer_connection(&self, stream: TcpStream, address: SocketAddr, is_stream: &Cell<bool>) {
        let own = stream.local_addr().ok().map(|own| own.ip().to_canonical());
        let is_local = self.access.is_local(own, address.ip().to_canonical());
        let service = service_fn(move |mut request: Request<Incoming>| async move {
            if let Some(own) = own {
                request.extensions_mut().insert(ReachedAt(own));
            }
            let answer = self.answer(request, is_local).await;
            is_stream.set(answer.body().is_stream());
            Ok::<_, Infallible>(answer)
        });
        let served = http1::Builder::new()
            .timer(TokioTimer::new())
            .keep_alive(false)
            .header_read_timeout(if is_local { LOCAL_HEADER_MAX } else { HEADER_MAX })
            .max_buf_size(HEADER_MAX_BYTES)
            .serve_connection(TokioIo::new(stream), service)
            .await;
        if let Err(error) = served {
            tracing::debug!(%address, %error, "admin: a connection failed");
        }
    }

    async fn answer(&self, request: Request<Incoming>, is_local: bool) -> Answer {
        let path = request.uri().path();
        let is_public = self.access == Access::Loopback && (PUBLIC.contains(&path) || path.starts_with(PROBES));
        if !is_public {
            if !is_local {
                return self.access.refuse(path);
            }
            // Reject DNS rebinding: a website whose name resolves to loopback may send requests through the user's
            // browser.
            if request.headers().get_all(HOST).iter().any(|host| !is_own_host(host)) {
                return for_other_host();
            }
        }
        match path {
            METRICS if is_public => self.scrape(request, is_local).await,
            _ => (self.pages)(request).await,
        }
    }

    async fn scrape(&self, request: Request<Incoming>, is_local: bool) -> Answer {
        let mut scrapes = self.scrape.lock().await;
        // Treat HEAD like GET: it costs as much, because hyper removes the content only after the page is produced.
        if is_local || !matches!(*request.method(), Method::GET | Method::HEAD) {
            return (self.pages)(request).await;
        }
        let latest = match Exposition::asked_for(request.headers()) {
            Exposition::Text => &mut scrapes.text,
            Exposition::OpenMetrics => &mut scrapes.open_metrics,
        };
        match latest {
            Some((written, answer)) if written.elapsed() < SCRAPE_AGE_MAX => copy(answer),
            _ => copy(&latest.insert((Instant::now(), (self.pages)(request).await)).1),
        }
    }
}

impl Access {
    /// Rejects a request for a private page.
    fn refuse(self, path: &str) -> Answer {
        match self {
            Self::Loopback => for_this_machine(path),
            Self::OwnAddress => for_callers_with_proxy(),
        }
    }

    /// Returns whether a client is on this machine. For [`Access::Loopback`], the client's address must be loopback;
    /// for [`Access::OwnAddress`], it must equal `own`, the connection's local address.
    fn is_local(self, own: Option<IpAddr>, client: IpAddr) -> bool {
        match self {
            Self::Loopback => client.is_loopback(),
            Self::OwnAddress => own == Some(client),
        }
    }
}

/// Whether a `Host` header cannot be the name of a website: it is an IP address, or a name without a dot such as
/// `localhost`.
fn is_own_host(host: &HeaderValue) -> bool {
    let Ok(host) = host.to_str() else { return false };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let literal = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    !name.contains('.') && !name.contains(':') || literal.parse::<IpAddr>().is_ok()
}

fn copy(answer: &Answer) -> Answer {
    let mut copy = Response::new(answer.body().copy());
    *copy.status_mut() = answer.status();
    copy.headers_mut().clone_from(answer.headers());
    copy
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
