//! `leno diagnostics traffic`: shows the time limits, retries and hedges in force for calls to a Service's port, and
//! the object that sets each of them.

mod conditions;
mod in_force;
pub(super) mod part;

use std::error::Error;

use clap::Args;

use super::connect::{ClusterError, Connect};
use super::diagnose::{Knower, cluster_of, control_config, pods_config};
use super::table::{Output, Table, show};
use in_force::Traffic;
pub(super) use in_force::{Line, traffic};

/// Options of `leno diagnostics traffic`.
#[derive(Args)]
pub(crate) struct TrafficOptions {
    /// A Service and its port as clients name it: web:80, web.shop:80 or web.shop.svc.cluster.local:80. The port may be
    /// left out if the Service has only one
    #[arg(value_name = "AUTHORITY")]
    authority: String,
    /// A gRPC method, as shop.v1.Cart/GetItems, or a path, as /items; default: all calls
    #[arg(value_name = "METHOD")]
    method: Option<String>,
    /// Pod of a client, whose proxy to ask; default: the control plane
    #[arg(long, value_name = "POD")]
    pod: Option<String>,
    /// Namespace of the client; default: the kubeconfig's
    #[arg(long, short, value_name = "NAME")]
    namespace: Option<String>,
    /// Output format
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value_t)]
    output: Output,
    #[command(flatten)]
    connect: Connect,
}

impl TrafficOptions {
    pub(crate) fn run(&self) -> Result<(), Box<dyn Error>> {
        let (config, namespace, knower) = super::block_on(async {
            let cluster = self.connect.cluster().await?;
            let namespace = self.namespace.clone().unwrap_or_else(|| cluster.namespace.clone());
            let (config, knower) = match &self.pod {
                None => (control_config(&cluster).await?, Knower::Control),
                Some(pod) => (pods_config(&cluster, &namespace, pod).await?, Knower::ProxyOf(pod)),
            };
            Ok::<_, ClusterError>((config, namespace, knower))
        })??;
        let (key, _) = cluster_of(&config, &self.authority, &namespace, &knower)?;
        let traffic = traffic(&config, &key, &namespace, self.method.as_deref());
        show(self.output, &traffic, |traffic| text(traffic, self.method.as_deref()))?;
        Ok(())
    }
}

fn text(traffic: &Traffic, method: Option<&str>) -> String {
    let service = &traffic.service;
    match traffic.kind.as_deref() {
        None => return format!("no route and no TrafficPolicy applies to calls to {service}\n"),
        Some(kind @ ("TLSRoute" | "TCPRoute")) => {
            return format!("{service} has a {kind}, and no TrafficPolicy applies to connections that follow it\n");
        }
        Some(kind) if traffic.rules.is_empty() => {
            let of = method.map(|method| format!(" of {method}")).unwrap_or_default();
            return format!("no rule of the {kind}s of {service} matches calls{of}, so the proxy rejects them\n");
        }
        Some(_) => {}
    }
    let mut table = Table::new(&["CALLS", "ROUTE", "PART", "MODE", "SET BY", "VALUE"]);
    for line in traffic.lines() {
        table.row([line.calls, line.route, line.part, line.mode, line.set_by, line.value]);
    }
    format!("{table}\na call follows the first rule that it matches\n")
}

#[cfg(test)]
#[path = "traffic_tests.rs"]
pub(super) mod tests;
