//! The command line.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use clap::error::ErrorKind;
use leno_admin::logging::{LogFilter, LogFormat};
use leno_model::policy::{DefaultInboundPolicy, Network, Probe};
use leno_model::protocol::PortRanges;
use leno_model::proxy;
use leno_model::settings::parse_duration;
use leno_model::tcp_probe::TcpProbe;
use leno_relay::limits::Limits;
use leno_relay::{Door, ForwardedFor};

use crate::identity_args::{IdentityArgs, parse_control};
use crate::trace_args::TraceArgs;
use crate::worker::MAX_LISTENERS;

/// The default address of the admin endpoint.
pub(crate) const ADMIN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), proxy::ADMIN_PORT);

/// Leno's data plane: accepts gRPC connections and sends each call to the best endpoint.
#[derive(Debug, Parser)]
#[command(name = "leno-proxy", version, max_term_width = 100)]
pub(crate) struct Args {
    /// Directory of Kubernetes manifests (Service, EndpointSlice) in *.yaml, *.yml and *.json; watched for changes
    #[arg(long, env = "LENO_CONFIG", value_name = "DIR", required_unless_present = "control")]
    pub(crate) config: Option<PathBuf>,

    /// Control plane (xDS) to use instead of a directory: a name or an address, and a port
    #[arg(long, env = "LENO_CONTROL", value_name = "HOST:PORT", conflicts_with = "config", value_parser = parse_control)]
    pub(crate) control: Option<String>,

    /// Address for connections from the own application; may be repeated [default: 127.0.0.1:4140]
    #[arg(long, value_name = "ADDR")]
    pub(crate) outbound: Vec<SocketAddr>,

    /// Address for connections from others to the own application; may be repeated [default: 0.0.0.0:4143 with
    /// --identity]
    #[arg(long, value_name = "ADDR", requires = "identity")]
    pub(crate) inbound: Vec<SocketAddr>,

    /// Address for tunnels from other proxies (HBONE); may be repeated [default: 0.0.0.0:15008 with --identity]
    #[arg(long, value_name = "ADDR", requires = "identity")]
    pub(crate) tunnel: Vec<SocketAddr>,

    #[command(flatten)]
    pub(crate) identity: IdentityArgs,

    /// Callers that may call the own application if no AuthorizationPolicy is enforced: all-unauthenticated,
    /// all-authenticated, cluster-authenticated, deny or audit
    #[arg(long, value_name = "POLICY", default_value = "all-unauthenticated")]
    pub(crate) default_inbound_policy: DefaultInboundPolicy,

    /// Ports of the own application on which the server speaks first, for example 3306,9000-9010: their bytes are
    /// relayed without protocol detection
    #[arg(long, value_name = "PORTS", requires = "identity")]
    pub(crate) opaque_ports: Option<PortRanges>,

    /// Ports of the own application that speak HTTP, for example 8080,9000-9010: other protocols are rejected there
    #[arg(long, value_name = "PORTS", requires = "identity")]
    pub(crate) http_ports: Option<PortRanges>,

    /// Add x-forwarded-client-cert, which describes the verified client, to requests to the own application, beside
    /// leno-client-id
    #[arg(long, requires = "identity")]
    pub(crate) forwarded_client_cert: bool,

    /// Treatment of x-forwarded-for in requests to the own application
    #[arg(long, value_name = "HOW", value_enum, default_value_t, requires = "identity")]
    pub(crate) forwarded_for: ForwardedFor,

    /// Kubelet probe of the own application, for example 8080/healthz?verbose: allowed whatever the policies say, with
    /// exactly this path and query; may be repeated
    #[arg(long = "probe", value_name = "PORT/PATH", requires = "identity")]
    pub(crate) probes: Vec<Probe>,

    /// Kubelet's TCP probe of the own application and its timeout, for example 8080/1s: the admin page /probe/tcp/8080
    /// connects to the port; may be repeated
    #[arg(long = "tcp-probe", value_name = "PORT/TIME", requires = "identity")]
    pub(crate) tcp_probes: Vec<TcpProbe>,

    /// Log each call in this format [default: no access log]
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub(crate) access_log: Option<leno_relay::access_log::Format>,

    /// File for the access log [default: standard output]
    #[arg(long, value_name = "FILE", requires = "access_log")]
    pub(crate) access_log_file: Option<PathBuf>,

    /// Include query strings in the access log; they may contain tokens and personal data
    #[arg(long, requires = "access_log")]
    pub(crate) access_log_queries: bool,

    /// Let taps (leno tap --headers) show the header fields of calls; fields that may contain secrets are blanked
    #[arg(long)]
    pub(crate) tap_headers: bool,

    /// Address for taps of callers with an identity; only an AuthorizationPolicy whose ports name this port lets
    /// callers in [default: none]
    #[arg(long, value_name = "ADDR", requires = "identity")]
    pub(crate) tap: Option<SocketAddr>,

    #[command(flatten)]
    pub(crate) traces: TraceArgs,

    /// Address for /ready, /metrics and the other admin pages
    #[arg(long, value_name = "ADDR", default_value_t = ADMIN)]
    pub(crate) admin: SocketAddr,

    /// Worker threads: the number of processor cores that may relay calls
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=i64::from(proxy::WORKERS_MAX)))]
    pub(crate) workers: u16,

    /// Log levels: off, error, warn, info, debug or trace, for everything or by target: info,leno_proxy=debug
    #[arg(long, env = "LENO_LOG", value_name = "LEVELS", default_value = "info")]
    pub(crate) log: LogFilter,

    /// Format of log lines
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Plain)]
    pub(crate) log_format: LogFormat,

    /// Time for calls in flight to finish after SIGTERM or SIGINT: 500ms, 30s, 2m
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_grace)]
    pub(crate) grace: Duration,

    /// Longest time to establish a connection to an address without a Service: 10ms to 1m [default: 1s]
    #[arg(long, value_name = "DURATION", value_parser = parse_connect_timeout)]
    egress_connect_timeout: Option<Duration>,

    /// Networks with the addresses of Pods and Services. While the control plane cannot be reached, the proxy relays
    /// connections to unknown addresses outside of these networks without waiting for an answer
    // clap does not split a `default_value` at the delimiter.
    #[arg(
        long,
        value_name = "CIDRS",
        value_delimiter = ',',
        conflicts_with = "config",
        default_values = proxy::CLUSTER_NETWORKS.split(',')
    )]
    pub(crate) cluster_networks: Vec<Network>,

    /// Take the sockets that `leno-proxy supervise` lends: inherited descriptors, which LENO_SUPERVISED lists
    #[arg(long, hide = true)]
    pub(crate) supervised: bool,

    /// Set a limit; may be repeated; `--limit help` lists them all
    #[arg(long = "limit", value_name = "NAME=VALUE", value_parser = parse_limit)]
    limits: Vec<(String, String)>,
}

/// Why the process ends before it starts to serve.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Text that the user asked for, for standard output: the help, the version or the limits.
    Answer(String),
    /// A mistake in the command line, in one line.
    Usage(String),
}

impl Args {
    /// The addresses to listen on: the addresses on the command line, or the defaults.
    pub(crate) fn listen(&self) -> Vec<(Door, SocketAddr)> {
        let given = [(Door::Outbound, &self.outbound), (Door::Inbound, &self.inbound), (Door::Tunnel, &self.tunnel)];
        let listen: Vec<_> =
            given.iter().flat_map(|(door, addresses)| addresses.iter().map(|address| (*door, *address))).collect();
        if !listen.is_empty() {
            return listen;
        }
        let usual = |door, ip: Ipv4Addr, port| (door, SocketAddr::new(ip.into(), port));
        let mut listen = vec![usual(Door::Outbound, Ipv4Addr::LOCALHOST, proxy::OUTBOUND_PORT)];
        if self.identity.identity.is_some() {
            listen.push(usual(Door::Inbound, Ipv4Addr::UNSPECIFIED, proxy::INBOUND_PORT));
            listen.push(usual(Door::Tunnel, Ipv4Addr::UNSPECIFIED, proxy::TUNNEL_PORT));
        }
        listen
    }

    /// Parses the command line; its first item is the program's name.
    pub(crate) fn read(args: impl Iterator<Item = OsString>) -> Result<(Self, Limits), Exit> {
        let args: Vec<OsString> = args.collect();
        if asks_for_limits(&args) {
            return Err(Exit::Answer(list_limits()));
        }
        let args = Self::try_parse_from(args).map_err(|error| explain(&error))?;
        args.identity.check().map_err(Exit::Usage)?;
        let addresses = args.listen().len();
        if addresses > MAX_LISTENERS {
            return Err(Exit::Usage(format!(
                "--outbound, --inbound and --tunnel name {addresses} addresses, and {MAX_LISTENERS} is the most; leave some out, or \
                 listen on [::], which is all of them"
            )));
        }
        let mut limits = Limits::default();
        if let Some(timeout) = args.egress_connect_timeout {
            // The parser's range fits into a u32.
            limits.relay.egress_connect_timeout_ms = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
        }
        for (name, value) in &args.limits {
            limits.set(name, value).map_err(|error| Exit::Usage(format!("--limit {name}={value}: {error}")))?;
        }
        Ok((args, limits))
    }
}

/// Whether `--limit help` is given, which needs no other options.
fn asks_for_limits(args: &[OsString]) -> bool {
    args.windows(2).any(|pair| pair[0] == "--limit" && pair[1] == "help")
        || args.iter().any(|arg| arg == "--limit=help")
}

fn list_limits() -> String {
    let limits = Limits::default().list();
    let width = limits.iter().map(|limit| limit.name.len()).max().unwrap_or_default();
    let mut text = String::from("Limits with their defaults. A name ends in its unit, if it has one:\n");
    for limit in limits {
        let _ = writeln!(text, "  {:width$}  {:>10}  {}", limit.name, limit.default, limit.what);
    }
    text
}

/// Joins clap's paragraphs into one line.
pub(crate) fn explain(error: &clap::Error) -> Exit {
    let text = error.to_string();
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return Exit::Answer(text);
    }
    let is_advice = |paragraph: &&str| paragraph.starts_with("Usage:") || paragraph.starts_with("For more");
    let said = text.split("\n\n").filter(|paragraph| !is_advice(paragraph));
    let words = |paragraph: &str| paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = said.map(words).collect::<Vec<_>>().join("; ");
    Exit::Usage(format!("{}; see --help", line.trim_start_matches("error: ")))
}

fn parse_limit(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE; --limit help lists the names")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn parse_grace(text: &str) -> Result<Duration, String> {
    proxy::parse_grace(text)
        .ok_or_else(|| "write a whole number and a unit, for example 500ms, 30s or 2m, at most 60m".to_owned())
}

fn parse_connect_timeout(text: &str) -> Result<Duration, String> {
    let timeout = parse_duration(text).filter(|timeout| proxy::CONNECT_TIMEOUTS.contains(timeout));
    timeout.ok_or_else(|| "write 10ms to 1m, for example 500ms or 5s".to_owned())
}

#[cfg(test)]
#[path = "args_tests.rs"]
mod tests;
