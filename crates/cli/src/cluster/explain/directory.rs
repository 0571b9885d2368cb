//! Explains a call with the configuration in a directory of manifests. For each proxy that the call would pass, creates
//! a relay in memory, which explains the call but relays nothing.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use leno_config::{Configuration, Directory};
use leno_model::explain::{BadQuestion, CallQuestion};
use leno_model::spiffe::SpiffeId;
use leno_relay::access_log::AccessLog;
use leno_relay::explain::answer::{BackendChoice, CallAnswer, EndpointChoice};
use leno_relay::limits::Limits;
use leno_relay::metrics::WorkerMetrics;
use leno_relay::{Config, Relay, Settings};

use super::{Explained, Options, Server, is_on_its_way, trust_domain_of};
use crate::cluster::connect::ClusterError;
use crate::cluster::printable::line;

/// Memory budget of the relay, in bytes. Any value is enough, because this relay relays no call.
const BUDGET_BYTES: usize = 1 << 20;

pub(super) fn explain(options: &Options, path: &Path) -> Result<Explained, ClusterError> {
    let directory = Directory::open(path).map_err(|error| {
        let what = format!("the directory {} cannot be read: {error}", path.display());
        ClusterError::new(what, "name a directory of manifests with --config")
    })?;
    let configuration = directory.configuration();
    // Report mistakes in the manifests, but continue: a mistake may be the reason for the answer.
    configuration.problems.iter().for_each(|problem| eprintln!("leno: {}", line(&problem.to_string())));
    let from = options.from.as_ref().and_then(|from| from.identity("cluster.local"));
    let own: Option<SpiffeId> = from.as_deref().map(parse).transpose()?;
    let question = options.outbound(&options.service, None)?;
    let answer = ask(options, &configuration, own, &question)?;
    let backends = answer.outbound.iter().flat_map(|outbound| &outbound.backends);
    let servers: Result<Vec<_>, _> = match is_on_its_way(&answer) {
        true => backends.filter_map(|backend| server(options, &configuration, from.as_deref(), backend)).collect(),
        false => Ok(Vec::new()),
    };
    Ok(Explained {
        question,
        asked: path.display().to_string(),
        other_callers: BTreeSet::new(),
        servers: servers?,
        answer,
    })
}

/// Explains what would happen at a backend: asks a relay with the identity of the chosen endpoint's proxy. `None` if no
/// endpoint was chosen.
fn server(
    options: &Options,
    configuration: &Configuration,
    from: Option<&str>,
    backend: &BackendChoice,
) -> Option<Result<Server, ClusterError>> {
    let choice = backend.choice.as_ref()?;
    let server = Server::new(backend.to.clone(), choice.address.to_string());
    Some(ask_server(options, configuration, from, choice).map(|asked| match asked {
        Some(answer) => Server { answer: Some(answer), ..server },
        None => {
            let note = "it has no proxy (annotation leno.dev/identity), so no policy is enforced there";
            Server { note: Some(note.to_owned()), ..server }
        }
    }))
}

/// Asks a relay with the identity of an endpoint's proxy. `None` if the endpoint has no proxy.
fn ask_server(
    options: &Options,
    configuration: &Configuration,
    from: Option<&str>,
    choice: &EndpointChoice,
) -> Result<Option<CallAnswer>, ClusterError> {
    let found = configuration.mesh.endpoint_by_address(choice.address);
    let Some(proxy) = found.and_then(|(_, endpoint)| endpoint.proxy.as_ref()) else { return Ok(None) };
    let trust_domain = trust_domain_of(from);
    let workload = &proxy.identity;
    let own = format!("spiffe://{trust_domain}/ns/{}/sa/{}", workload.namespace, workload.service_account);
    let question = options.inbound(choice.address.port(), from, trust_domain, IpAddr::V4(Ipv4Addr::LOCALHOST))?;
    ask(options, configuration, Some(parse(&own)?), &question).map(Some)
}

/// Creates a relay with the identity `own`, and asks the relay to explain the call.
fn ask(
    options: &Options,
    configuration: &Configuration,
    own: Option<SpiffeId>,
    question: &CallQuestion,
) -> Result<CallAnswer, ClusterError> {
    let config = Config {
        index: 0,
        workers: 1,
        own,
        listening: Vec::new(),
        discovers: false,
        settings: Settings { default_policy: options.default_inbound_policy, ..Settings::default() },
        access_log: AccessLog::off(),
        limits: Arc::new(Limits::default()),
        memory_budget_bytes: BUDGET_BYTES,
        metrics: WorkerMetrics::new(),
        tracing: None,
        spent_chains: Arc::default(),
        seed: 1,
    };
    let mut relay = Relay::new(config, configuration.mesh.clone(), Instant::now());
    relay
        .explain_call(question)
        .map_err(|why: BadQuestion| ClusterError::new("the call cannot be explained", why.to_string()))
}

fn parse(id: &str) -> Result<SpiffeId, ClusterError> {
    id.parse().map_err(|_| {
        ClusterError::new(
            format!("{id:?} is not an identity"),
            "write spiffe://<trust-domain>/ns/<namespace>/sa/<service-account>, or shop/web",
        )
    })
}
