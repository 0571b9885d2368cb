//! The Services and the calls between them, from the readings of all proxies. No I/O, no clock.
//!
//! The graph has one node for a Service and the workload of the same name. The callers' proxies count the node's calls
//! by Service, and the workload's own proxies count them by port.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::cluster::readings::{Readings, SECOND};
use crate::cluster::source::Measured;
use crate::cluster::stat::counts::{Counts, Figures, TRAFFIC};
use crate::cluster::stat::peer::{Destination, View, caller_name};

/// Maximum number of nodes that the page shows. It shows only the number of the nodes that it omits.
pub(super) const NODES_MAX: usize = 2_000;
/// Maximum number of edges that the page shows: the edges with the most calls.
pub(super) const EDGES_MAX: usize = 20_000;

/// Identifies a node: `namespace/name`, or a name without a namespace.
pub(super) type Id = String;

/// All nodes and edges of the graph, with counts per second.
#[derive(Default)]
pub(super) struct Mesh {
    pub(super) nodes: BTreeMap<Id, Node>,
    pub(super) edges: BTreeMap<(Id, Id), Counts>,
    /// Number of nodes that were removed because of [`NODES_MAX`].
    pub(super) omitted: usize,
}

/// A node of the graph: a Service, a workload or a caller.
#[derive(Default)]
pub(super) struct Node {
    /// Calls to the node, counted by the workload's own proxies.
    pub(super) served: Counts,
    /// Calls to the node, counted by the callers' proxies.
    pub(super) asked: Counts,
    pub(super) proxies: usize,
    /// Whether the node receives calls or has a proxy. Otherwise the node only makes calls.
    pub(super) is_service: bool,
}

/// A row of the table of Services.
#[derive(Serialize)]
pub(super) struct ServiceRow {
    pub(super) id: Id,
    proxies: usize,
    /// `workload` if the workload's own proxies counted `figures`, or `callers` if the callers' proxies did. The row
    /// has the counts with more calls.
    counted_by: &'static str,
    #[serde(flatten)]
    pub(super) figures: Figures,
    /// Share of calls over mutual TLS, 0 to 1.
    tls_share: Option<f64>,
    /// Number of denied calls per second. If the Service has proxies, they count the calls and opaque connections that
    /// policies denied. Otherwise, the callers' proxies count responses with 401, 403, UNAUTHENTICATED or
    /// PERMISSION_DENIED, which the application itself may also have sent.
    denied_per_second: f64,
}

/// An edge of the graph.
#[derive(Serialize)]
pub(super) struct EdgeRow<'a> {
    pub(super) from: &'a str,
    pub(super) to: &'a str,
    #[serde(flatten)]
    figures: Figures,
    tls_share: Option<f64>,
    /// See [`ServiceRow::denied_per_second`].
    denied_per_second: f64,
}

/// The id of a workload, a Service or a caller.
pub(super) fn id(namespace: &str, name: &str) -> Id {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

/// The id of the node that represents a destination.
pub(super) fn destination_id(destination: &Destination) -> Id {
    match destination {
        Destination::Service { namespace, name, .. } => id(namespace.as_deref().unwrap_or_default(), name),
        Destination::OtherAddresses => destination.to_string(),
    }
}

impl Node {
    /// Returns `served` or `asked`, whichever has more calls, and which one it is. Each may lack calls: `asked` those
    /// of callers without a proxy, and `served` the calls that never arrived.
    pub(super) fn counts(&self) -> (&Counts, &'static str) {
        if self.served.calls > self.asked.calls { (&self.served, "workload") } else { (&self.asked, "callers") }
    }

    pub(super) fn row(&self, id: &str) -> ServiceRow {
        let (counts, counted_by) = self.counts();
        ServiceRow {
            id: id.to_owned(),
            proxies: self.proxies,
            counted_by,
            figures: counts.figures(SECOND),
            tls_share: counts.tls_share(),
            denied_per_second: if self.proxies > 0 { self.served.denied } else { self.asked.refused },
        }
    }
}

impl Mesh {
    pub(super) fn of(readings: &Readings) -> Self {
        let mut mesh = Self::default();
        for measured in readings.measured() {
            mesh.add_served(measured);
            mesh.add_asked(measured);
        }
        mesh.limit();
        mesh
    }

    fn node(&mut self, id: &str) -> &mut Node {
        self.nodes.entry(id.to_owned()).or_default()
    }

    /// Adds the calls that a workload's own proxies received, by caller.
    fn add_served(&mut self, measured: &Measured) {
        let own = id(&measured.namespace, &measured.name);
        let node = self.node(&own);
        node.proxies += measured.proxies.len();
        node.is_service = true;
        let view = View::Inbound(None);
        let callers =
            Counts::by(TRAFFIC, measured.proxies.iter(), |sample| view.has(sample).then(|| caller_name(sample)));
        for (caller, counts) in callers {
            self.node(&own).served.add(&counts);
            if counts.calls > 0.0 {
                self.node(&caller);
                self.edge(caller, own.clone(), counts);
            }
        }
    }

    /// Adds the calls that a workload makes, by destination.
    fn add_asked(&mut self, measured: &Measured) {
        let own = id(&measured.namespace, &measured.name);
        let view = View::Outbound(None);
        let destinations = Counts::by(TRAFFIC, measured.proxies.iter(), |sample| {
            view.has(sample).then(|| destination_id(&Destination::of(sample)))
        });
        for (to, counts) in destinations {
            let node = self.node(&to);
            node.asked.add(&counts);
            node.is_service = true;
            if counts.calls > 0.0 {
                self.edge(own.clone(), to, counts);
            }
        }
    }

    /// Adds an edge, or updates it: the proxies of both the caller and the called workload count an edge's calls. Keeps
    /// the counts with more calls.
    fn edge(&mut self, from: Id, to: Id, counts: Counts) {
        let known = self.edges.entry((from, to)).or_default();
        // Keep the larger number, even from counts that are dropped: only the called workload's proxies count denied
        // calls.
        let denied = known.denied.max(counts.denied);
        if counts.calls > known.calls {
            *known = counts;
        }
        known.denied = denied;
    }

    /// Removes the nodes and edges with the fewest calls until the limits are met.
    fn limit(&mut self) {
        if self.nodes.len() > NODES_MAX {
            let mut by_calls: Vec<(f64, Id)> =
                self.nodes.iter().map(|(id, node)| (node.counts().0.calls, id.clone())).collect();
            by_calls.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
            for (_, id) in by_calls.drain(NODES_MAX..) {
                self.nodes.remove(&id);
                self.omitted += 1;
            }
        }
        self.edges.retain(|(from, to), _| self.nodes.contains_key(from) && self.nodes.contains_key(to));
        if self.edges.len() > EDGES_MAX {
            // Use a stable sort: edges with equally many calls stay in the order of their names, so that every snapshot
            // omits the same ones.
            let mut edges: Vec<_> = std::mem::take(&mut self.edges).into_iter().collect();
            edges.sort_by(|(_, a), (_, b)| b.calls.total_cmp(&a.calls));
            edges.truncate(EDGES_MAX);
            self.edges.extend(edges);
        }
    }

    /// The rows of all workloads with a proxy, and of all Services that are called now.
    pub(super) fn services(&self) -> Vec<ServiceRow> {
        let has_row = |node: &Node| {
            node.proxies > 0 || (node.is_service && node.counts().0.calls + node.counts().0.responses > 0.0)
        };
        self.nodes.iter().filter(|(_, node)| has_row(node)).map(|(id, node)| node.row(id)).collect()
    }

    /// The edges for which `wanted` returns true, given caller and destination. Edges with the most calls come first.
    pub(super) fn edges<'a>(&'a self, wanted: impl Fn(&str, &str) -> bool) -> Vec<EdgeRow<'a>> {
        let edges = self.edges.iter().filter(|((from, to), _)| wanted(from, to));
        let has_proxies = |id: &Id| self.nodes.get(id).is_some_and(|node| node.proxies > 0);
        let row = |((from, to), counts): (&'a (Id, Id), &Counts)| EdgeRow {
            from,
            to,
            figures: counts.figures(SECOND),
            tls_share: counts.tls_share(),
            denied_per_second: if has_proxies(to) { counts.denied } else { counts.refused },
        };
        let mut rows: Vec<EdgeRow<'a>> = edges.map(row).collect();
        rows.sort_by(|a, b| b.figures.calls_per_second.total_cmp(&a.figures.calls_per_second));
        rows
    }
}

/// Whether `wanted` is the printable form of the id of the workload or Service with this name.
pub(super) fn is_id(namespace: &str, name: &str, wanted: &str) -> bool {
    crate::cluster::printable::line(&id(namespace, name)) == wanted
}

#[cfg(test)]
#[path = "mesh_tests.rs"]
pub(super) mod tests;
