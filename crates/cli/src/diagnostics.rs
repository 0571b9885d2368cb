//! `leno diagnostics`: commands that inspect the mesh.

use std::error::Error;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use leno_install::names::XDS_PORT;
use leno_model::proxy::OUTBOUND_PORT;
use leno_xds::bootstrap::{Bootstrap, Certificates, Client, bootstrap};

use crate::cluster::diagnose::{EndpointsOptions, PodOptions, PolicyOptions};
use crate::cluster::traffic::TrafficOptions;

/// Warning about a bootstrap configuration without certificates. It goes to standard error, because standard output has
/// the configuration.
const INSECURE: &str = "warning: this configuration is insecure: it has no certificate, so the client calls the control plane and servers \
                        in clear, and no side proves its identity; add --certificate, --key and --trust (on one machine, leno ca issue \
                        writes these files)";

/// What to inspect
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Print the configuration with which Envoy or a gRPC program connects to the control plane
    Bootstrap(BootstrapOptions),
    /// Show the endpoints that the control plane has for a Service's port
    Endpoints(EndpointsOptions),
    /// Show the AuthorizationPolicies that the control plane knows
    Policy(PolicyOptions),
    /// Show the time limits, retries and hedges in force for calls to a Service's port, and the objects that set them
    Traffic(TrafficOptions),
    /// Print the metrics of a Pod's proxy, in Prometheus' text format
    ProxyMetrics(PodOptions),
    /// Print the configuration that a Pod's proxy has loaded, and the mistakes in it
    Config(PodOptions),
}

#[derive(Args)]
pub(crate) struct BootstrapOptions {
    /// Client: envoy, or grpc for programs with gRPC's own xDS (put the output's path into GRPC_XDS_BOOTSTRAP)
    #[arg(value_name = "CLIENT")]
    client: Client,

    /// Address of the control plane's xDS port: an IP address, or a DNS name that is in its certificate, and a port
    #[arg(long, value_name = "HOST:PORT", default_value_t = format!("127.0.0.1:{XDS_PORT}"), value_parser = parse_control)]
    control: String,

    /// Name of the client in logs and on the control plane's page /clients
    #[arg(long, value_name = "NAME", default_value = "client")]
    node: String,

    /// Namespace of the client, unless its certificate names one
    #[arg(long, value_name = "NAMESPACE", default_value = "default")]
    namespace: String,

    /// Address on which Envoy accepts its application's connections
    #[arg(long, value_name = "ADDR", default_value_t = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), OUTBOUND_PORT))]
    outbound: SocketAddr,

    /// Address of Envoy's own admin endpoint
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9901")]
    admin: SocketAddr,

    /// The client's certificate chain in PEM; without it, the connection is unencrypted, and neither the client nor the
    /// control plane proves its identity
    #[arg(long, value_name = "FILE", requires_all = ["key", "trust"])]
    certificate: Option<PathBuf>,

    /// The private key of that certificate
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,

    /// The trust bundle, in PEM
    #[arg(long, value_name = "FILE", requires = "certificate")]
    trust: Option<PathBuf>,
}

fn parse_control(text: &str) -> Result<String, String> {
    let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty()).and_then(|(_, port)| port.parse().ok());
    port.filter(|port: &u16| *port != 0)
        .map(|_| text.to_owned())
        .ok_or_else(|| "write a name or an address, and a port, for example 127.0.0.1:15010".to_owned())
}

impl Command {
    pub(crate) fn run(self) -> Result<(), Box<dyn Error>> {
        match self {
            Self::Bootstrap(options) => options.print(),
            Self::Endpoints(options) => options.run(),
            Self::Policy(options) => options.run(),
            Self::Traffic(options) => options.run(),
            Self::ProxyMetrics(options) => options.proxy_metrics(),
            Self::Config(options) => options.config(),
        }
    }
}

impl BootstrapOptions {
    fn print(self) -> Result<(), Box<dyn Error>> {
        if self.certificate.is_none() {
            eprintln!("leno: {INSECURE}");
        }
        let certificates = match (self.certificate, self.key, self.trust) {
            (Some(chain), Some(key), Some(bundle)) => Some(Certificates { chain, key, bundle }),
            _ => None,
        };
        let options = Bootstrap {
            control: self.control,
            node: self.node,
            namespace: self.namespace,
            outbound: self.outbound,
            admin: self.admin,
            certificates,
        };
        writeln!(io::stdout(), "{}", serde_json::to_string_pretty(&bootstrap(self.client, &options))?)?;
        Ok(())
    }
}
