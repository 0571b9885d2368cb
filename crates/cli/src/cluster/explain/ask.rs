//! Asks running proxies to explain a call. Reaches them through the API server's port-forward in a cluster, and at
//! their admin addresses on this machine.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use leno_lab::http::{self, Answer};
use leno_model::explain::CallQuestion;
use leno_relay::explain::answer::{BackendChoice, CallAnswer, EndpointChoice};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::destination::Destination;
use super::story::in_pod;
use super::words::From;
use super::{Explained, Options, Server, is_on_its_way, trust_domain_of};
use crate::cluster::connect::{Cluster, ClusterError};
use crate::cluster::forward::{self, Forwarded};
use crate::cluster::pods;
use crate::cluster::select::{Kind, Scope, Selection};

/// Path of the admin page that explains a call.
const PAGE: &str = "/explain";
/// Maximum time for a proxy on this machine to answer. The proxy itself may wait up to 2 s for the control plane.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Asks the caller's proxy at the admin address `callers`, and then the servers' proxies at the addresses `others`.
pub(super) async fn explain_at(
    options: &Options,
    callers: SocketAddr,
    others: &[SocketAddr],
) -> Result<Explained, ClusterError> {
    let question = options.outbound(&options.service, None)?;
    let answer = ask_address(callers, &question).await?;
    let mut servers = Vec::new();
    let backends = answer.outbound.iter().flat_map(|outbound| &outbound.backends).filter(|_| is_on_its_way(&answer));
    for backend in backends {
        let Some(choice) = &backend.choice else { continue };
        let own = choice.server.as_ref().and(answer.own.as_deref());
        let trust_domain = trust_domain_of(answer.own.as_deref());
        let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let question = options.inbound(choice.address.port(), own, trust_domain, local)?;
        let mut server = Server::new(backend.to.clone(), choice.address.to_string());
        for &other in others {
            let asked = ask_address(other, &question).await?;
            // Take the first answer if the identity of the endpoint is unknown: nothing shows which of the addresses
            // belongs to the endpoint's proxy.
            if choice.server.is_none() || asked.own == choice.server {
                server.answer = Some(asked);
                break;
            }
        }
        if server.answer.is_none() {
            let fix = "its policies were not asked: add the admin address of its proxy to --admin";
            server.note = Some(fix.to_owned());
        }
        servers.push(server);
    }
    Ok(Explained { question, asked: callers.to_string(), other_callers: BTreeSet::new(), answer, servers })
}

/// Asks the proxy of the calling workload, and then the proxies of the endpoints that the caller's proxy would choose.
pub(super) async fn explain_in_cluster(options: &Options) -> Result<Explained, ClusterError> {
    let cluster = options.connect.cluster().await?;
    let of_caller = options.from.as_ref().filter(|_| options.via.is_none()).and_then(From::namespace);
    let namespace = options.namespace.clone().or(of_caller).unwrap_or_else(|| cluster.namespace.clone());
    let Caller { pod, asked, others: other_callers } = caller(options, &cluster, &namespace).await?;
    let destination = Destination::find(&cluster, &options.service, &namespace).await?;
    let mut question = options.outbound(&destination.authority, destination.address)?;
    let mut answer = ask_pod(&cluster, &pod, &question).await?;
    // The clients of a headless Service dial the own address of an endpoint, so ask again about such an address.
    if let Some(endpoint) = first_endpoint(&answer).filter(|_| destination.is_headless) {
        question = options.outbound(&destination.authority, Some(endpoint))?;
        answer = ask_pod(&cluster, &pod, &question).await?;
    }
    let address = pod_address(&pod).unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let mut servers = Vec::new();
    let backends = answer.outbound.iter().flat_map(|outbound| &outbound.backends).filter(|_| is_on_its_way(&answer));
    for backend in backends {
        servers.extend(server(options, &cluster, &answer, backend, address).await);
    }
    Ok(Explained { question, asked, other_callers, answer, servers })
}

/// Returns the address of the first ready endpoint that an answer names.
fn first_endpoint(answer: &CallAnswer) -> Option<SocketAddr> {
    let mut backends = answer.outbound.iter().flat_map(|outbound| &outbound.backends);
    backends.find_map(|backend| Some(backend.endpoints.first()?.address))
}

/// The caller of the explained call, if it is in a cluster.
struct Caller {
    /// The Pod whose proxy explains where the call goes.
    pod: Pod,
    /// See [`Explained::asked`].
    asked: String,
    /// See [`Explained::other_callers`].
    others: BTreeSet<String>,
}

/// Finds the Pods in a namespace that have a running proxy, and chooses one of them as the caller.
async fn caller(options: &Options, cluster: &Cluster, namespace: &str) -> Result<Caller, ClusterError> {
    let all = Selection { kind: Kind::Workloads, name: None };
    let selection = options.via.as_ref().unwrap_or(&all);
    let groups = selection.groups(cluster, &Scope::of(Some(namespace.to_owned()))).await?;
    let has_proxy = |pod: &Pod| pods::is_meshed(pod) && pods::has_proxy_started(pod);
    let found: Vec<Pod> = groups.into_iter().flat_map(|group| group.pods).filter(has_proxy).collect();
    choose(&found, options.via.is_some(), options.from.as_ref()).ok_or_else(|| {
        let what = format!("no Pod with a running proxy was found to ask in namespace {namespace}");
        ClusterError::new(what, "choose the caller's namespace with -n, and its workload with --via deploy/NAME")
    })
}

/// Chooses the first Pod with the service account of `from`, or the first Pod if no Pod has this service account.
/// `None` if `found` is empty.
fn choose(found: &[Pod], has_via: bool, from: Option<&From>) -> Option<Caller> {
    let account = |pod: &Pod| format!("{}/{}", pod.namespace().unwrap_or_default(), pods::service_account(pod));
    let wanted = from.and_then(From::account);
    let named = found.iter().find(|pod| wanted.as_ref() == Some(&account(pod)));
    let pod = named.or(found.first())?.clone();
    let mut asked = format!("Pod {}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
    if named.is_none() && wanted.is_some() {
        asked += " (no Pod here has the caller's service account)";
    }
    let own = account(&pod);
    let others = found.iter().map(account).filter(|other| *other != own && !has_via && from.is_none()).collect();
    Some(Caller { pod, asked, others })
}

/// Asks the proxy of a backend's chosen endpoint. If the proxy gives no answer, the note says why. Returns `None` if no
/// endpoint was chosen.
async fn server(
    options: &Options,
    cluster: &Cluster,
    callers: &CallAnswer,
    backend: &BackendChoice,
    address: IpAddr,
) -> Option<Server> {
    let choice = backend.choice.as_ref()?;
    let endpoint = format!("{}{}", choice.address, in_pod(choice.pod.as_deref()));
    let server = Server::new(backend.to.clone(), endpoint);
    Some(match ask_server(options, cluster, callers, backend, choice, address).await {
        Ok(answer) => Server { answer: Some(answer), ..server },
        Err(NoAnswer::NotAsked(note)) => Server { note: Some(note.to_owned()), ..server },
        Err(NoAnswer::Failed(note)) => Server { note: Some(note), is_unknown: true, ..server },
    })
}

/// The reason why there is no answer from an endpoint's proxy, as a note for the user.
enum NoAnswer {
    /// The endpoint has no proxy, or it is not a Pod, so that the tool cannot find its proxy.
    NotAsked(&'static str),
    /// The proxy did not answer, its Pod no longer exists, or the user has no rights in its namespace.
    Failed(String),
}

/// Asks the proxy of an endpoint.
async fn ask_server(
    options: &Options,
    cluster: &Cluster,
    callers: &CallAnswer,
    backend: &BackendChoice,
    choice: &EndpointChoice,
    address: IpAddr,
) -> Result<CallAnswer, NoAnswer> {
    if choice.server.is_none() {
        return Err(NoAnswer::NotAsked("it has no proxy, so no policy is enforced there"));
    }
    let (Some(pod), Some(namespace)) = (&choice.pod, namespace(callers, backend)) else {
        return Err(NoAnswer::NotAsked("it is no Pod, so its proxy was not asked"));
    };
    let asking = async {
        let Some(pod) = cluster.get::<Pod>(cluster.within(namespace), pod).await? else { return Ok(None) };
        let own = callers.own.as_deref();
        let question = options.inbound(choice.address.port(), own, trust_domain_of(own), address)?;
        ask_pod(cluster, &pod, &question).await.map(Some)
    };
    let asked: Result<Option<CallAnswer>, ClusterError> = asking.await;
    asked
        .map_err(|error| NoAnswer::Failed(format!("its policies are unknown: {error}")))?
        .ok_or_else(|| NoAnswer::Failed("its Pod has gone; ask again".to_owned()))
}

/// Returns the namespace of a backend's endpoints; `None` if the backend is an address without a Service.
fn namespace<'a>(callers: &'a CallAnswer, backend: &'a BackendChoice) -> Option<&'a str> {
    let service = match &callers.outbound {
        // The backend is the address that the client dials, which has no namespace.
        Some(outbound) if !outbound.is_service => outbound.endpoint_of.as_deref()?,
        Some(_) | None => &backend.to,
    };
    let (host, _) = service.split_once(':')?;
    Some(host.split_once('.')?.1)
}

fn pod_address(pod: &Pod) -> Option<IpAddr> {
    pod.status.as_ref()?.pod_ip.as_ref()?.parse().ok()
}

async fn ask_pod(cluster: &Cluster, pod: &Pod, question: &CallQuestion) -> Result<CallAnswer, ClusterError> {
    let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
    let json = write(question)?;
    let ask = async |stream: &mut Forwarded| {
        http::post(stream, PAGE, json).await.map_err(|unreadable| unreadable.to_string())
    };
    let answer = forward::converse(cluster, &namespace, &name, pods::admin_port(pod), ask).await?;
    read(&format!("the proxy of Pod {namespace}/{name}"), &answer)
}

async fn ask_address(address: SocketAddr, question: &CallQuestion) -> Result<CallAnswer, ClusterError> {
    let json = write(question)?;
    let ask = async {
        let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
        http::post(stream, PAGE, json).await.map_err(|unreadable| unreadable.to_string())
    };
    let late = || Err(format!("nothing within {} s", ANSWER_MAX.as_secs()));
    let answer = timeout(ANSWER_MAX, ask).await.unwrap_or_else(|_| late());
    let answer = answer.map_err(|why| {
        let what = format!("the admin address {address} gave no answer to {PAGE}: {why}");
        ClusterError::new(what, "check that a proxy runs with --admin at this address, and which version it has")
    })?;
    read(&format!("the proxy at {address}"), &answer)
}

fn write(question: &CallQuestion) -> Result<String, ClusterError> {
    serde_json::to_string(question).map_err(|error| ClusterError::new(error.to_string(), "report this fault"))
}

fn read(proxy: &str, answer: &Answer) -> Result<CallAnswer, ClusterError> {
    let fix = "do as it says, or see whether the proxy has another version: leno version";
    if answer.status != 200 {
        let what = format!("{proxy} answered {} to {PAGE}: {}", answer.status, answer.body.trim());
        return Err(ClusterError::new(what, fix));
    }
    let unreadable = |error| ClusterError::new(format!("{proxy} gave an answer that is not understood: {error}"), fix);
    serde_json::from_str(&answer.body).map_err(unreadable)
}

#[cfg(test)]
#[path = "ask_tests.rs"]
mod tests;
