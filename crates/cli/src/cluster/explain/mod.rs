//! `leno explain`: shows what would happen to a call. The proxies' own code decides: the caller's proxy reports where
//! the call would go, and the proxies of the chosen endpoints report whether they would accept it.

mod ask;
mod destination;
mod directory;
mod pod_name;
mod story;
mod words;

use std::collections::BTreeSet;
use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use leno_model::explain::{CallQuestion, CallSide};
use leno_model::policy::DefaultInboundPolicy;
use leno_relay::explain::answer::{BackendChoice, CallAnswer, Outcome};
use serde::Serialize;

use super::block_on;
use super::connect::{ClusterError, Connect};
use super::select::Selection;
use super::table::{Output, show};
use words::{CalledMethod, Field, From};

/// The exit code for a call that a proxy would deny, fail or redirect. Also the exit code if the outcome is unknown,
/// because a proxy could not be asked or does not yet have the configuration for this call.
const NOT_SENT: u8 = 3;

/// Options of `leno explain`.
#[derive(Args)]
pub(crate) struct Options {
    /// A gRPC method, as shop.v1.Cart/Get, or a method and a path of HTTP, as 'GET /items'
    #[arg(value_name = "METHOD")]
    method: CalledMethod,
    /// A Service and its port as clients name it: cart:80, cart.shop:80 or cart.shop.svc.cluster.local:80. In a cluster,
    /// the name of a single Pod works too, as db-0.db.shop:5432, and an address and a port: 10.0.0.7:80. There, the port may
    /// be left out if the Service has only one
    #[arg(value_name = "SERVICE")]
    service: String,
    /// A header field of the call, as x-canary:yes; may be repeated
    #[arg(short = 'H', long = "header", value_name = "NAME:VALUE")]
    headers: Vec<Field>,
    /// The caller, for example shop/web or spiffe://cluster.local/ns/shop/sa/web; none for a caller without an identity; default:
    /// the identity of the caller's proxy. Unless --via is given, a proxy of this caller is asked if there is one
    #[arg(long, value_name = "IDENTITY")]
    from: Option<From>,
    /// The caller's address, for policies with networks; default: the Pod's, or 127.0.0.1 without a cluster
    #[arg(long, value_name = "IP")]
    from_address: Option<IpAddr>,
    /// The workload that calls, as deploy/web; default: any workload of the namespace with a proxy
    #[arg(long, value_name = "KIND/NAME")]
    via: Option<Selection>,
    /// Namespace of the caller; default: the kubeconfig's. With --config, the namespace of --from
    #[arg(long, short, value_name = "NAME")]
    namespace: Option<String>,
    /// Proxies to ask instead of a cluster: admin addresses that this machine can reach, first of the caller's proxy,
    /// then of the servers' proxies
    #[arg(long, value_name = "ADDR,...", value_delimiter = ',', conflicts_with_all = ["via", "namespace", "context"])]
    admin: Vec<SocketAddr>,
    /// Directory of manifests, instead of running proxies
    #[arg(long, value_name = "DIR", conflicts_with_all = ["via", "admin", "namespace", "context"])]
    config: Option<PathBuf>,
    /// With --config: the default inbound policy of the called workload's proxy
    #[arg(long, value_name = "POLICY", default_value_t, requires = "config")]
    default_inbound_policy: DefaultInboundPolicy,
    /// Output format: a text that explains the call, or all data
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value_t)]
    output: Output,
    #[command(flatten)]
    connect: Connect,
}

/// The explanation of a call.
#[derive(Debug, Serialize)]
struct Explained {
    question: CallQuestion,
    /// Where `answer` comes from: the Pod or the admin address of the caller's proxy, or a directory of manifests.
    asked: String,
    /// The service accounts that the user could choose as the caller instead, for example `shop/cart`: the service
    /// accounts of the other Pods in the namespace that have a proxy. Empty if the user chose the caller.
    other_callers: BTreeSet<String>,
    answer: CallAnswer,
    /// The answers of the proxies of the chosen endpoints: one for each backend with a chosen endpoint, in the order of
    /// the backends. Empty if the caller's proxy does not send the call.
    servers: Vec<Server>,
}

impl Explained {
    /// The backends that may get the call, each with the answer of its endpoint's proxy. `None` without a chosen
    /// endpoint.
    fn ends(&self) -> impl Iterator<Item = (&BackendChoice, Option<&Server>)> {
        let mut servers = self.servers.iter();
        let backends = self.answer.outbound.iter().flat_map(|outbound| &outbound.backends);
        backends.map(move |backend| (backend, backend.choice.as_ref().and_then(|_| servers.next())))
    }
}

/// The answer of an endpoint's proxy, or why there is none.
#[derive(Debug, Serialize)]
struct Server {
    /// The Service, in the form `cart.shop:80`.
    backend: String,
    /// The endpoint's address, and the name of its Pod if the endpoint is a Pod.
    endpoint: String,
    /// `None` if no proxy could be asked.
    answer: Option<CallAnswer>,
    /// The reason why no proxy was asked, or why the proxy gave no answer.
    note: Option<String>,
    /// Whether the endpoint's proxy should have answered but did not. The outcome of the call is then unknown, because
    /// this proxy may deny it.
    is_unknown: bool,
}

impl Server {
    /// An endpoint whose proxy has not been asked.
    fn new(backend: String, endpoint: String) -> Self {
        Self { backend, endpoint, answer: None, note: None, is_unknown: false }
    }
}

impl Options {
    pub(crate) fn run(&self) -> Result<ExitCode, Box<dyn Error>> {
        let explained = block_on(self.explain())??;
        show(self.output, &explained, story::text)?;
        let is_sent = story::is_sent(&explained);
        Ok(if is_sent { ExitCode::SUCCESS } else { ExitCode::from(NOT_SENT) })
    }

    async fn explain(&self) -> Result<Explained, ClusterError> {
        match (&self.config, self.admin.split_first()) {
            (Some(directory), _) => directory::explain(self, directory),
            (None, Some((callers, servers))) => ask::explain_at(self, *callers, servers).await,
            (None, None) => ask::explain_in_cluster(self).await,
        }
    }

    /// The question to the caller's proxy.
    fn outbound(&self, authority: &str, address: Option<SocketAddr>) -> Result<CallQuestion, ClusterError> {
        self.question(CallSide::Outbound { authority: authority.to_owned(), address })
    }

    /// The question to a server's proxy. If the user named the caller (`--from`) without a trust domain, `trust_domain`
    /// is added to the caller's identity.
    fn inbound(
        &self,
        port: u16,
        own: Option<&str>,
        trust_domain: &str,
        address: IpAddr,
    ) -> Result<CallQuestion, ClusterError> {
        let identity = match &self.from {
            Some(from) => from.identity(trust_domain),
            None => own.map(str::to_owned),
        };
        self.question(CallSide::Inbound { port, identity, address: self.from_address.unwrap_or(address) })
    }

    fn question(&self, side: CallSide) -> Result<CallQuestion, ClusterError> {
        let (method, path, grpc) = self.method.head();
        let mut headers: Vec<(String, String)> = Vec::new();
        if grpc {
            headers.push(("content-type".to_owned(), "application/grpc".to_owned()));
        }
        headers.extend(self.headers.iter().map(|field| (field.name.clone(), field.value.clone())));
        let question = CallQuestion { side, method, path, headers };
        question.check().map_err(|why| ClusterError::new("the call cannot be explained", why.to_string()))?;
        Ok(question)
    }
}

/// Returns the trust domain of an identity, or `cluster.local` if there is no identity.
fn trust_domain_of(own: Option<&str>) -> &str {
    let domain = own.and_then(|id| id.strip_prefix("spiffe://")).and_then(|rest| rest.split('/').next());
    domain.unwrap_or("cluster.local")
}

/// Whether a proxy would forward the call.
fn is_on_its_way(answer: &CallAnswer) -> bool {
    answer.outcome == Outcome::Sent
}
