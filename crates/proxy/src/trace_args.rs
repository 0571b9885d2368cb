//! The command line options for traces.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use leno_model::settings::parse_duration;
use leno_relay::trace::Sampling;

use crate::identity_args::parse_control;

#[derive(Debug, clap::Args)]
pub(crate) struct TraceArgs {
    /// Collector that gets the spans of traced calls (OTLP over gRPC). The proxy calls a Service, as
    /// otel-collector.observability:4317, through the mesh; it calls an IP address or localhost directly, unencrypted
    #[arg(long, value_name = "HOST:PORT", value_parser = parse_collector)]
    pub(crate) trace_collector: Option<Collector>,

    /// Share of the calls without a trace for which the proxy begins one, from 0 to 1
    #[arg(long, value_name = "RATIO", requires = "trace_collector", default_value = "0.01", value_parser = parse_ratio)]
    trace_ratio: f64,

    /// Also export calls that are not sampled and take longer than this time, for example 500ms
    #[arg(long, value_name = "DURATION", requires = "trace_collector", value_parser = parse_limit)]
    trace_slower_than: Option<Duration>,

    /// Also export calls that are not sampled and fail
    #[arg(long, requires = "trace_collector")]
    trace_failed: bool,

    /// Name of the service in traces [default: the service account of --identity]
    #[arg(long, value_name = "NAME", requires = "trace_collector")]
    pub(crate) trace_service: Option<String>,

    /// Further attribute of the service in traces, as k8s.pod.name=web-0; may be repeated
    #[arg(long = "trace-attribute", value_name = "NAME=VALUE", requires = "trace_collector", value_parser = parse_attribute)]
    pub(crate) trace_attributes: Vec<(String, String)>,
}

impl TraceArgs {
    pub(crate) fn sampling(&self) -> Sampling {
        Sampling { ratio: self.trace_ratio, slower_than: self.trace_slower_than, failed: self.trace_failed }
    }
}

/// The collector of spans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Collector {
    /// At an address, called directly.
    Address(SocketAddr),
    /// A Service and its port, called through the mesh.
    Service(String),
}

fn parse_collector(text: &str) -> Result<Collector, String> {
    if let Ok(address) = text.parse() {
        return Ok(Collector::Address(address));
    }
    let text = parse_control(text)?;
    match text.split_once(':') {
        Some(("localhost", port)) => {
            let port = port.parse().map_err(|_| "write a port from 1 to 65535".to_owned())?;
            Ok(Collector::Address(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)))
        }
        _ => Ok(Collector::Service(text)),
    }
}

fn parse_ratio(text: &str) -> Result<f64, String> {
    let ratio = text.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
    ratio.ok_or_else(|| "write a number from 0 to 1, for example 0.01 for one call in a hundred".to_owned())
}

fn parse_limit(text: &str) -> Result<Duration, String> {
    let limit = parse_duration(text).filter(|limit| !limit.is_zero());
    limit.ok_or_else(|| "write a time above zero, for example 500ms or 2s".to_owned())
}

fn parse_attribute(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE, as k8s.pod.name=web-0".to_owned()),
    }
}
