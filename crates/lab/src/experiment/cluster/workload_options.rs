//! The options for the load on a user's own Service, and the combinations with other options that the lab rejects.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use prost_reflect::DescriptorPool;

use super::options::refuse_other_scenarios;
use crate::error::{Error, Result};
use crate::experiment::options::Options;
use crate::experiment::record::{Protocol, Scenario};
use crate::load::parse_path;
use crate::reflect::{MethodName, read_descriptor_set};

/// Longest JSON of a request. protobuf's JSON needs up to two bytes for each byte of the request.
const DATA_MAX_BYTES: u64 = 4 << 20;

/// Options for the load on a user's own Service.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "On a Service of your own, in a Kubernetes cluster")]
pub struct WorkloadOptions {
    /// Service that the load calls, instead of servers of the lab [default NAMESPACE: that of the kubeconfig's context];
    /// PORT is a number or the port's name
    #[arg(long, value_name = "[NAMESPACE/]NAME:PORT", requires = "cluster")]
    pub service: Option<ServicePort>,
    /// Unary gRPC method that the load calls
    #[arg(long, value_name = "PACKAGE.SERVICE/METHOD", requires = "service", conflicts_with = "url")]
    pub call: Option<MethodName>,
    /// File with the request of --call in JSON; - is standard input [default: {}]
    #[arg(long, value_name = "FILE", requires = "call")]
    pub data: Option<PathBuf>,
    /// File with the descriptors of --call, as protoc --descriptor_set_out=FILE --include_imports writes it [default: the
    /// server's gRPC reflection]
    #[arg(long, value_name = "FILE", requires = "call")]
    pub descriptor_set: Option<PathBuf>,
    /// Path of the load's GET requests, such as /hello?x=1; --protocol is http1 or http2 [default: http1]
    #[arg(long, value_name = "PATH", requires = "service", value_parser = parse_url)]
    pub url: Option<String>,
}

/// A port of a Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServicePort {
    /// Namespace of the Service; `None` for the namespace of the kubeconfig's context.
    pub(super) namespace: Option<String>,
    pub(super) name: String,
    pub(super) port: PortName,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PortName {
    Number(u16),
    Name(String),
}

/// The requests of the load, as the options and their files describe them.
#[derive(Debug)]
pub(super) enum Request {
    Call {
        method: MethodName,
        json: String,
        /// The descriptors of the method; `None` if the lab gets them from the server's reflection.
        descriptors: Option<DescriptorPool>,
    },
    Get {
        path: String,
        protocol: Protocol,
    },
}

impl FromStr for ServicePort {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let form = || "write NAME:PORT or NAMESPACE/NAME:PORT, such as default/hello:80".to_owned();
        let (name, port) = text.rsplit_once(':').ok_or_else(form)?;
        let (namespace, name) = name.split_once('/').map_or((None, name), |(space, name)| (Some(space), name));
        let is_label = |text: &str| {
            let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            (1..=63).contains(&text.len()) && text.chars().all(fits)
        };
        if ![Some(name), Some(port), namespace].into_iter().flatten().all(is_label) {
            return Err(form());
        }
        let port = match port.parse() {
            Ok(0) => return Err("the port 0 does not exist; write 1 to 65535 or the port's name".to_owned()),
            Ok(number) => PortName::Number(number),
            Err(_) if port.chars().all(|c| c.is_ascii_digit()) => {
                return Err(format!("the port {port} does not exist; write 1 to 65535 or the port's name"));
            }
            Err(_) => PortName::Name(port.to_owned()),
        };
        Ok(Self { namespace: namespace.map(str::to_owned), name: name.to_owned(), port })
    }
}

impl fmt::Display for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Name(name) => name.fmt(f),
        }
    }
}

fn parse_url(text: &str) -> std::result::Result<String, String> {
    match parse_path(text) {
        Ok(path) if text.starts_with('/') && path.as_str() == text => Ok(text.to_owned()),
        Ok(_) => Err("write the path, such as /hello?x=1; --service names the host".to_owned()),
        Err(error) => Err(format!("{error}; write a path such as /hello?x=1")),
    }
}

impl WorkloadOptions {
    /// Returns the protocol of the load on the user's Service: the protocol `given`, or else the default. `None` if the
    /// load does not call a user's Service.
    pub(in crate::experiment) fn protocol(&self, given: Option<Protocol>) -> Option<Protocol> {
        self.service.as_ref().map(|_| match self.url {
            Some(_) => given.unwrap_or(Protocol::Http1),
            None => Protocol::Grpc,
        })
    }

    /// Reads the files of the request. Returns `None` if the options name no Service.
    ///
    /// # Errors
    /// One line that names the option, if a file cannot be read.
    pub(super) fn request(&self, protocol: Protocol) -> Result<Option<Request>> {
        if let Some(path) = &self.url {
            return Ok(Some(Request::Get { path: path.clone(), protocol }));
        }
        let Some(method) = self.call.clone() else { return Ok(None) };
        let json = self.data.as_deref().map_or_else(|| Ok("{}".to_owned()), read_data)?;
        let descriptors = self.descriptor_set.as_deref().map(read_descriptor_set).transpose()?;
        Ok(Some(Request::Call { method, json, descriptors }))
    }
}

fn read_data(path: &Path) -> Result<String> {
    let unusable = |why: String| Error::Usage(format!("--data {}: {why}", path.display()));
    let open = || -> std::io::Result<Box<dyn Read>> {
        Ok(if path == Path::new("-") { Box::new(std::io::stdin()) } else { Box::new(std::fs::File::open(path)?) })
    };
    let mut json = String::new();
    let read = open().and_then(|file| file.take(DATA_MAX_BYTES + 1).read_to_string(&mut json));
    match read {
        Err(error) => Err(unusable(error.to_string())),
        Ok(bytes) if bytes as u64 > DATA_MAX_BYTES => {
            Err(unusable(format!("it has more than {DATA_MAX_BYTES} bytes; send a smaller request")))
        }
        Ok(_) => Ok(json),
    }
}

/// Returns an error if an option or the scenario is not possible with a user's own Service.
pub(super) fn refuse_impossible(options: &Options) -> Result<()> {
    let WorkloadOptions { service, call, data, descriptor_set, url } = &options.cluster.workload;
    if service.is_none() {
        return Ok(());
    }
    if call.is_none() && url.is_none() {
        let what = "--service needs the request: add --call PACKAGE.SERVICE/METHOD for gRPC, or --url PATH for HTTP";
        return Err(Error::Usage(what.to_owned()));
    }
    for (given, flag) in [(data.is_some(), "--data"), (descriptor_set.is_some(), "--descriptor-set")] {
        if given && url.is_some() {
            return Err(Error::Usage(format!("{flag} means nothing with --url, which sends no message; leave it out")));
        }
    }
    let why = "the lab cannot slow, fail or restart your servers";
    refuse_other_scenarios(options.scenario, "--service", why, is_possible)?;
    match (options.protocol, url) {
        (Some(protocol @ (Protocol::Http1 | Protocol::Http2)), None) => {
            let name = protocol.name();
            return Err(Error::Usage(format!(
                "--protocol {name} cannot carry --call; leave it out, or use --url PATH"
            )));
        }
        (Some(Protocol::Grpc), Some(_)) => {
            let what = "--protocol grpc cannot carry --url; use http1 or http2, or call a method with --call";
            return Err(Error::Usage(what.to_owned()));
        }
        _ => {}
    }
    let (traffic, servers, request) =
        (&options.traffic, "the lab has no servers of its own then", "the request is yours");
    for (given, flag, why) in [
        (options.skew_ms.is_some(), "--skew-ms", "the lab cannot slow your servers"),
        (options.backends.is_some(), "--backends", servers),
        (options.work_ms > 0, "--work-ms", servers),
        (options.spread_ms > 0, "--spread-ms", servers),
        (traffic.exchange.is_some(), "--exchange", "the load makes unary calls and GET requests"),
        (traffic.messages.is_some(), "--messages", "the load makes unary calls and GET requests"),
        (traffic.payload_bytes.is_some(), "--payload-bytes", request),
        (traffic.response_bytes.is_some(), "--response-bytes", "the answer is your servers'"),
    ] {
        if given {
            return Err(Error::Usage(format!("{flag} means nothing with --service: {why}; leave it out")));
        }
    }
    Ok(())
}

fn is_possible(scenario: Scenario) -> bool {
    matches!(scenario, Scenario::Connections | Scenario::Ladder | Scenario::Crowd | Scenario::Footprint)
}

#[cfg(test)]
#[path = "workload_options_tests.rs"]
mod tests;
