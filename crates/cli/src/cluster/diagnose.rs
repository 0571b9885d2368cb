//! `leno diagnostics endpoints|policy|proxy-metrics|config`: shows the state of the control plane and of proxies, which
//! it reads from their admin ports. `leno diagnostics traffic` uses this module too.

use std::error::Error;
use std::fmt;
use std::io::{self, Write};

use clap::Args;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use leno_install::names::{CONTROL_LABELS, CONTROL_NAMESPACE};
use serde_json::Value;

use super::connect::{Cluster, ClusterError, Connect};
use super::forward;
use super::installer::Installer;
use super::pods;
use super::service_port::ServicePort;
use super::table::{Output, Table, show};

/// Options of `leno diagnostics endpoints`.
#[derive(Args)]
pub(crate) struct EndpointsOptions {
    /// A Service and its port as clients name it: web:80, web.shop:80 or web.shop.svc.cluster.local:80. The port may be
    /// left out if the Service has only one
    #[arg(value_name = "AUTHORITY")]
    authority: String,
    /// Output format
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value_t)]
    output: Output,
    #[command(flatten)]
    connect: Connect,
}

/// Options of `leno diagnostics policy`.
#[derive(Args)]
pub(crate) struct PolicyOptions {
    /// Namespace; default: all
    #[arg(long, short, value_name = "NAME")]
    namespace: Option<String>,
    /// Output format
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value_t)]
    output: Output,
    #[command(flatten)]
    connect: Connect,
}

/// The program whose configuration a command reads: the control plane or a proxy.
pub(super) enum Knower<'a> {
    Control,
    /// The proxy of the Pod with this name.
    ProxyOf(&'a str),
}

/// Options of the commands for one Pod.
#[derive(Args)]
pub(crate) struct PodOptions {
    /// Name of the Pod
    #[arg(value_name = "POD")]
    pod: String,
    /// Namespace of the Pod; default: the kubeconfig's
    #[arg(long, short, value_name = "NAME")]
    namespace: Option<String>,
    #[command(flatten)]
    connect: Connect,
}

impl EndpointsOptions {
    /// Shows the endpoints that the control plane has for a Service's port.
    pub(crate) fn run(&self) -> Result<(), Box<dyn Error>> {
        let (config, namespace) = super::block_on(async {
            let cluster = self.connect.cluster().await?;
            Ok::<_, ClusterError>((control_config(&cluster).await?, cluster.namespace))
        })??;
        let (_, cluster) = cluster_of(&config, &self.authority, &namespace, &Knower::Control)?;
        show(self.output, cluster, endpoints)?;
        Ok(())
    }
}

impl PolicyOptions {
    pub(crate) fn run(&self) -> Result<(), Box<dyn Error>> {
        let config = super::block_on(async { control_config(&self.connect.cluster().await?).await })??;
        let wanted =
            |policy: &&Value| self.namespace.as_ref().is_none_or(|namespace| policy["namespace"] == **namespace);
        let policies: Vec<&Value> =
            config["mesh"]["policies"].as_array().into_iter().flatten().filter(wanted).collect();
        show(self.output, &policies, |policies| policy_table(policies))?;
        Ok(())
    }
}

impl PodOptions {
    pub(crate) fn proxy_metrics(&self) -> Result<(), Box<dyn Error>> {
        self.write("/metrics", proxys_port)
    }

    /// Writes the configuration that the Pod's proxy has loaded. For a Pod of the control plane, writes the
    /// configuration of the control plane.
    pub(crate) fn config(&self) -> Result<(), Box<dyn Error>> {
        self.write("/config", |pod| {
            if pods::is_control(pod) { Some(pods::control_admin_port(pod)) } else { proxys_port(pod) }
        })
    }

    /// Writes a page of the Pod unchanged. Reads it from the port that `port` returns.
    fn write(&self, path: &str, port: impl Fn(&Pod) -> Option<u16>) -> Result<(), Box<dyn Error>> {
        let text = super::block_on(async {
            let cluster = self.connect.cluster().await?;
            let namespace = self.namespace.as_deref().unwrap_or(&cluster.namespace);
            page_of(&cluster, namespace, &self.pod, path, port).await
        })??;
        io::stdout().write_all(text.as_bytes())?;
        Ok(())
    }
}

/// Reads a page of a Pod, from the port that `port` returns.
async fn page_of(
    cluster: &Cluster,
    namespace: &str,
    name: &str,
    path: &str,
    port: impl Fn(&Pod) -> Option<u16>,
) -> Result<String, ClusterError> {
    let pod: Option<Pod> = cluster.get(cluster.within(namespace), name).await?;
    // Only the error about a Pod of the control plane without a proxy names the installer's command.
    let installer = match pod.as_ref().is_some_and(|pod| pods::is_control(pod) && port(pod).is_none()) {
        true => Installer::read(cluster).await,
        false => Installer::default(),
    };
    let port = asked_port(pod.as_ref(), (namespace, name), &installer, port)?;
    forward::page(cluster, namespace, name, port, path).await
}

/// Reads /config of a Pod's proxy.
pub(super) async fn pods_config(cluster: &Cluster, namespace: &str, name: &str) -> Result<Value, ClusterError> {
    let text = page_of(cluster, namespace, name, "/config", proxys_port).await?;
    parse_config(&text, &Knower::ProxyOf(name))
}

/// The admin port of a Pod's proxy; `None` if the Pod has no proxy.
fn proxys_port(pod: &Pod) -> Option<u16> {
    pods::proxy(pod).map(|_| pods::admin_port(pod))
}

/// Returns the port that `port` selects. If the Pod or its proxy does not exist, the error names the remedy.
fn asked_port(
    pod: Option<&Pod>,
    (namespace, name): (&str, &str),
    installer: &Installer,
    port: impl Fn(&Pod) -> Option<u16>,
) -> Result<u16, ClusterError> {
    let Some(pod) = pod else {
        let what = format!("there is no Pod {namespace}/{name}");
        return Err(ClusterError::new(what, "list Pods with kubectl get pods -A, and choose the namespace with -n"));
    };
    let fix = || match pods::is_control(pod) {
        true => installer.set("control.meshed=true"),
        false => format!(
            "annotate its namespace, and {}; if the namespace is annotated, leno check --proxy -n {namespace} says why the Pod has none",
            pods::owner(pod).restart(namespace)
        ),
    };
    port(pod).ok_or_else(|| ClusterError::new(format!("Pod {namespace}/{name} has no proxy"), fix()))
}

/// Reads /config from any ready replica of the control plane; all replicas have the same configuration.
pub(super) async fn control_config(cluster: &Cluster) -> Result<Value, ClusterError> {
    let all: Vec<Pod> = cluster.list(cluster.within(CONTROL_NAMESPACE), CONTROL_LABELS).await?;
    let ready = all.iter().find(|pod| pods::is_alive(pod) && pods::why_not_ready(pod).is_none());
    let Some(pod) = ready else {
        return Err(ClusterError::new("no replica of the control plane is ready", "leno check says why"));
    };
    let text =
        forward::page(cluster, CONTROL_NAMESPACE, &pod.name_any(), pods::control_admin_port(pod), "/config").await?;
    parse_config(&text, &Knower::Control)
}

fn parse_config(text: &str, knower: &Knower<'_>) -> Result<Value, ClusterError> {
    serde_json::from_str(text).map_err(|error| {
        ClusterError::new(
            format!("/config of {knower} is not JSON: {error}"),
            format!("use the leno of the version of {knower}"),
        )
    })
}

impl fmt::Display for Knower<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Control => f.write_str("the control plane"),
            Self::ProxyOf(pod) => write!(f, "the proxy of Pod {pod}"),
        }
    }
}

/// Returns the entry of a Service's port in the configuration: its key, for example `web.shop:80`, and its cluster in
/// the sense of xDS, which has the port's endpoints and settings.
pub(super) fn cluster_of<'a>(
    config: &'a Value,
    authority: &str,
    namespace: &str,
    knower: &Knower<'_>,
) -> Result<(String, &'a Value), ClusterError> {
    let service = ServicePort::parse(authority, namespace)?;
    let host = service.host();
    let clusters = config["mesh"]["clusters"].as_array().into_iter().flatten();
    let of_service = clusters.filter_map(|cluster| {
        let (name, port) = cluster["key"].as_str()?.split_once(':')?;
        (name == host).then_some((port.parse::<u16>().ok()?, cluster))
    });
    let known: Vec<(u16, &Value)> = of_service.collect();
    if known.is_empty() {
        let fix = match knower {
            Knower::Control => "list Services with kubectl get services -A",
            Knower::ProxyOf(_) => "a proxy knows only the Services that its workload calls; leave out --pod",
        };
        return Err(ClusterError::new(format!("{knower} knows no Service {host}"), fix));
    }
    let chosen = service.choose(known.iter().map(|(port, _)| *port).collect());
    let chosen = chosen.map_err(|error| match knower {
        // Do not report that the Service lacks this port: the proxy knows only the ports that its workload calls, and
        // the Service may have others.
        Knower::ProxyOf(_) => ClusterError { what: format!("{knower} knows other ports of Service {host}"), ..error },
        Knower::Control => error,
    })?;
    let found = known.into_iter().find(|(port, _)| *port == chosen).map(|(_, cluster)| cluster);
    Ok((format!("{host}:{chosen}"), found.unwrap_or(&Value::Null)))
}

fn endpoints(cluster: &Value) -> String {
    let mut table = Table::new(&["ADDRESS", "POD", "ZONE", "READY", "IDENTITY OF ITS PROXY"]);
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let listed = |list: &str| cluster[list].as_array().into_iter().flatten();
    // The control plane lists a Pod with an IPv4 and an IPv6 address twice. Calls go only to its first address.
    let is_ipv6 = |endpoint: &Value| endpoint["address"].as_str().is_some_and(|address| address.starts_with('['));
    let is_second = |other: &Value| {
        let mut first =
            listed("endpoints").filter(|first| first["pod"].is_string() && is_ipv6(first) != is_ipv6(other));
        first.any(|first| first["pod"] == other["pod"])
    };
    for (list, is_ready) in [("endpoints", "yes"), ("unready_endpoints", "no")] {
        for endpoint in listed(list) {
            let is_ready = if is_ready == "no" && is_second(endpoint) { "second" } else { is_ready };
            let [address, pod, zone] = ["address", "pod", "zone"].map(|key| text(&endpoint[key]));
            table.row([address, pod, zone, is_ready.to_owned(), text(&endpoint["proxy"]["identity"])]);
        }
    }
    format!("{table}\nbalanced by {}, spoken as {}\n", shown(&cluster["balancer"]), shown(&cluster["protocol"]))
}

fn policy_table(policies: &[&Value]) -> String {
    if policies.is_empty() {
        return "the control plane knows no AuthorizationPolicy here: the proxies' default inbound policies decide\n"
            .to_owned();
    }
    let mut table = Table::new(&["NAMESPACE", "NAME", "SERVICE ACCOUNT", "PORTS", "MODE", "ALLOWS"]);
    for policy in policies {
        let text = |key: &str, none: &str| policy[key].as_str().unwrap_or(none).to_owned();
        let ports = list(&policy["ports"]).unwrap_or_else(|| "all".to_owned());
        let rules = policy["allow"].as_array().into_iter().flatten().map(rule);
        let checks = policy["health_checks"].as_array().into_iter().flatten();
        let all: Vec<String> = rules.chain(checks.map(|path| format!("every caller to {}", shown(path)))).collect();
        let allows = if all.is_empty() { "no caller".to_owned() } else { all.join(" or ") };
        table.row([
            text("namespace", "-"),
            text("name", "-"),
            text("service_account", "all"),
            ports,
            text("mode", "-"),
            allows,
        ]);
    }
    table.to_string()
}

fn rule(rule: &Value) -> String {
    match (list(&rule["identities"]), list(&rule["networks"])) {
        (Some(identities), Some(networks)) => format!("{identities} from {networks}"),
        (Some(only), None) | (None, Some(only)) => only,
        (None, None) => "no caller".to_owned(),
    }
}

/// The members of a list, separated by commas; `None` if the list is empty or missing.
fn list(value: &Value) -> Option<String> {
    let members = value.as_array().filter(|members| !members.is_empty())?;
    Some(members.iter().map(shown).collect::<Vec<_>>().join(", "))
}

pub(super) fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
#[path = "diagnose_tests.rs"]
mod tests;
