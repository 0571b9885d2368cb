//! `leno authz`: shows the policies that apply to each port of a workload, the callers that these policies allow, and
//! the number of calls that they have allowed and denied. A proxy drops the counts of a caller about 10 minutes after
//! the caller's last connection.

use std::collections::BTreeSet;
use std::error::Error;
use std::sync::Arc;

use clap::Args;
use k8s_openapi::api::core::v1::Pod;
use leno_install::names::PROXY;
use leno_model::policy::{AuthorizationPolicy, Mode};
use leno_model::spiffe::Workload;
use serde::Serialize;

use super::connect::{Cluster, ClusterError, Connect};
use super::metrics::{self, Pages};
use super::pods;
use super::policies::{self, callers};
use super::progress::sign_of_life;
use super::scrape::Scrape;
use super::select::{Choice, Group, Kind, Scope, Selection};
use super::stat::counts::DENIALS;
use super::table::{Output, Table, show};

/// Names of the metrics that count allowed calls and allowed opaque connections.
const ALLOWED: [&str; 2] = ["inbound_http_authz_allow_total", "inbound_tcp_authz_allow_total"];
/// Names of the metrics that count the calls and opaque connections that policies in audit mode reported.
const AUDITED: [&str; 2] = ["leno_http_audited_total", "leno_tcp_audited_total"];
/// The value of the label `target_port` for the calls that a proxy counts beyond its limits on ports and series.
const OTHER: &str = "other";

/// Options of `leno authz`.
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    choice: Choice,
    /// Output format
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value_t)]
    output: Output,
    #[command(flatten)]
    connect: Connect,
}

/// A row of the table: the policies for one port of a workload, and how many calls of current callers its proxies have
/// allowed and denied.
#[derive(Debug, PartialEq, Serialize)]
struct Row {
    namespace: String,
    workload: String,
    /// `None` if the row is for all ports, because no single port is known: no policy names a port, no container
    /// declares one, and no call has arrived at one. Also `None` with [`Decides::Other`].
    port: Option<u16>,
    decides: Decides,
    /// Policies in audit mode, which log and count calls but never deny them. Empty if an enforced policy applies.
    audited_by: Vec<String>,
    /// Number of allowed calls and opaque connections.
    allowed: f64,
    denied: f64,
    /// Number of allowed calls and opaque connections that policies in audit mode reported.
    audited: f64,
}

/// The policies that decide whether a call is allowed.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
enum Decides {
    /// No enforced policy applies, so the proxies' default inbound policies decide. Usually all proxies of a workload
    /// have the same default.
    Default(BTreeSet<String>),
    /// Enforced policies, and the callers that they allow.
    Policies {
        names: Vec<String>,
        callers: Vec<String>,
        /// The names of the policies that cannot be read. Such a policy allows no caller, unless the control plane knows
        /// an earlier valid version of the policy.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        unreadable: Vec<String>,
    },
    /// Unknown: the proxies count the calls of this row without their ports, because of a limit on ports and series.
    Other,
}

impl Options {
    pub(crate) fn run(&self) -> Result<(), Box<dyn Error>> {
        let selection = self.choice.or_all(Kind::Workloads)?;
        let rows = super::block_on(async {
            let cluster = self.connect.cluster().await?;
            read(&cluster, &selection, &self.choice.scope).await
        })??;
        show(self.output, &rows, |rows| table(rows))?;
        Ok(())
    }
}

/// Returns the rows of the selected workloads.
async fn read(cluster: &Cluster, selection: &Selection, scope: &Scope) -> Result<Vec<Row>, ClusterError> {
    let mut groups = selection.groups(cluster, scope).await?;
    for group in &mut groups {
        group.pods.retain(pods::is_meshed);
    }
    groups.retain(|group| !group.pods.is_empty());
    if groups.is_empty() {
        // No workload is left, so do not list policies: the user may lack the right to list them in all namespaces.
        return Ok(Vec::new());
    }
    let namespaces: BTreeSet<&str> = groups.iter().map(|group| group.namespace.as_str()).collect();
    let only = if namespaces.len() == 1 { namespaces.first().copied() } else { None };
    let progress = sign_of_life("asking proxies");
    let pods = groups.iter().flat_map(|group| &group.pods);
    let (found, pages) = tokio::join!(policies::list(cluster, only), metrics::pages(cluster, pods));
    progress.finish_and_clear();
    let found = found?;
    for mistake in &found.mistakes {
        eprintln!("leno: {mistake}");
    }
    Ok(groups.iter().flat_map(|group| rows(group, &found.all, &pages)).collect())
}

/// Returns a row for each port that a policy names, a container declares, or a call has arrived at. If there is no such
/// port, returns a single row that stands for all ports. A last row has the calls that the proxies count without their
/// ports.
fn rows(group: &Group, policies: &[Arc<AuthorizationPolicy>], pages: &Pages) -> Vec<Row> {
    let accounts: BTreeSet<&str> = group.pods.iter().map(pods::service_account).collect();
    let workloads = accounts
        .into_iter()
        .map(|account| Workload { namespace: group.namespace.as_str().into(), service_account: account.into() });
    let workloads: Vec<Workload> = workloads.collect();
    let pages: Vec<&Scrape> =
        group.pods.iter().filter_map(|pod| pages.get(&metrics::key(pod))).map(|it| &it.page).collect();
    let about =
        |policy: &AuthorizationPolicy, port: u16| workloads.iter().any(|workload| policy.selects(workload, port));
    let mut ports: BTreeSet<u16> = group.pods.iter().flat_map(container_ports).collect();
    ports.extend(policies.iter().flat_map(|policy| {
        policy.ports.iter().flatten().copied().filter(|port| about(policy, *port)).collect::<Vec<_>>()
    }));
    ports.extend(pages.iter().flat_map(|page| called_ports(page)));
    let is_port_known = !ports.is_empty();
    let ports: Vec<Option<u16>> = if is_port_known { ports.into_iter().map(Some).collect() } else { vec![None] };
    let count = |names: [&str; 2], target_port: Option<&str>| {
        let labels: Vec<(&str, &str)> = target_port.map(|port| ("target_port", port)).into_iter().collect();
        let counts = pages.iter().flat_map(|page| names.map(|name| page.sum(name, &labels)));
        counts.fold(0.0, |sum, count| sum + count)
    };
    let counted = |port: Option<u16>, target_port: Option<&str>, decides: Decides, audited_by: Vec<String>| Row {
        namespace: group.namespace.clone(),
        workload: group.shown.clone(),
        port,
        decides,
        audited_by,
        allowed: count(ALLOWED, target_port),
        denied: count(DENIALS, target_port),
        audited: count(AUDITED, target_port),
    };
    let row = |port: Option<u16>| {
        let selecting = |is_enforced: bool| {
            // In the row for all ports, show only policies that name no ports.
            let selects = move |policy: &&Arc<AuthorizationPolicy>| {
                policy.mode.is_enforced() == is_enforced
                    && (port.is_some() || policy.ports.is_none())
                    && about(policy, port.unwrap_or(0))
            };
            policies.iter().filter(selects).collect::<Vec<_>>()
        };
        let name = |policy: &&Arc<AuthorizationPolicy>| policy.name.to_string();
        let enforced = selecting(true);
        let (audited_by, decides) = if enforced.is_empty() {
            let audits = selecting(false).iter().map(name).collect();
            (audits, Decides::Default(group.pods.iter().map(pods::default_policy).collect()))
        } else {
            let callers = enforced.iter().flat_map(|policy| callers(policy)).collect();
            let unreadable = enforced.iter().filter(|policy| policy.mode == Mode::Unreadable).map(name).collect();
            (Vec::new(), Decides::Policies { names: enforced.iter().map(name).collect(), callers, unreadable })
        };
        let target_port = port.map(|port| port.to_string());
        counted(port, target_port.as_deref(), decides, audited_by)
    };
    let mut rows: Vec<Row> = ports.into_iter().map(row).collect();
    // A row for all ports includes these calls.
    if is_port_known {
        let other = counted(None, Some(OTHER), Decides::Other, Vec::new());
        rows.extend(Some(other).filter(|row| row.allowed + row.denied + row.audited > 0.0));
    }
    rows
}

/// The TCP ports that the Pod's containers declare.
fn container_ports(pod: &Pod) -> Vec<u16> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers).filter(|container| container.name != PROXY);
    let ports = containers.flat_map(|container| container.ports.iter().flatten());
    let tcp = ports.filter(|port| port.protocol.as_deref().is_none_or(|protocol| protocol == "TCP"));
    tcp.filter_map(|port| port.container_port.try_into().ok()).collect()
}

/// The ports for which the proxy counted a decision.
fn called_ports(page: &Scrape) -> Vec<u16> {
    let called =
        ALLOWED.iter().chain(&DENIALS).flat_map(|name| page.all(name, &[])).filter(|sample| sample.value > 0.0);
    called.filter_map(|sample| sample.label("target_port").parse().ok()).collect()
}

fn table(rows: &[Row]) -> String {
    if rows.is_empty() {
        return "nothing here has a proxy; -n NAME or -A looks elsewhere\n".to_owned();
    }
    let heads = ["NAMESPACE", "WORKLOAD", "PORT", "DECIDED BY", "WHO MAY CALL", "#ALLOWED", "#DENIED", "#AUDITED"];
    let mut table = Table::new(&heads);
    for row in rows {
        let (mut by, who) = match &row.decides {
            Decides::Default(policies) => {
                let policies = policies.iter().cloned().collect::<Vec<_>>().join(" or ");
                (format!("default: {policies}"), meaning(&policies).to_owned())
            }
            Decides::Policies { names, callers, unreadable } => {
                let callers = if callers.is_empty() { "no caller".to_owned() } else { callers.join(" or ") };
                let unless = match unreadable.as_slice() {
                    [] => String::new(),
                    _ => format!("; {} cannot be read: an earlier version may be in force", unreadable.join(", ")),
                };
                (names.join(", "), callers + &unless)
            }
            Decides::Other => ("-".to_owned(), "-".to_owned()),
        };
        let all = if row.decides == Decides::Other { OTHER } else { "all" };
        if !row.audited_by.is_empty() {
            by += &format!(" (audit: {})", row.audited_by.join(", "));
        }
        table.row([
            row.namespace.clone(),
            row.workload.clone(),
            row.port.map_or_else(|| all.to_owned(), |port| port.to_string()),
            by,
            who,
            format!("{:.0}", row.allowed),
            format!("{:.0}", row.denied),
            format!("{:.0}", row.audited),
        ]);
    }
    let has_other = rows.iter().any(|row| row.decides == Decides::Other);
    let other = if has_other { "; other: without their port, because of a limit on ports and series" } else { "" };
    format!(
        "{table}\ncalls and opaque connections of current callers: a proxy drops the counts of a caller about 10 min \
         after its last connection{other}\n"
    )
}

/// Describes the callers that a default inbound policy allows.
fn meaning(policy: &str) -> &str {
    match policy {
        "all-unauthenticated" => "every caller",
        "audit" => "every caller; unauthorized calls are logged",
        "all-authenticated" => "every caller with an identity",
        "cluster-authenticated" => "every caller with an identity of the mesh",
        "deny" => "no caller",
        _ => "differs between Pods",
    }
}

#[cfg(test)]
#[path = "authz_tests.rs"]
mod tests;
