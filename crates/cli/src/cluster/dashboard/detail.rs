//! The data of the view of one Service: methods, routes, callers, denials, proxies and the history of the last hour.

use serde::Serialize;

use super::denials;
use super::history::Series;
use super::mesh::{EdgeRow, Id, ServiceRow, id, is_id};
use super::objective::MethodRow;
use super::state::State;
use crate::cluster::printable::{cut, line};
use crate::cluster::readings::SECOND;
use crate::cluster::stat::{methods, routes};

/// Maximum number of methods and maximum number of routes in the view. Methods with the most calls come first.
const ROWS_MAX: usize = 500;
/// Number of points in the history, which covers one hour with a point for every 10 s.
const POINTS: usize = 360;

#[derive(Serialize)]
struct Detail<'a> {
    id: &'a str,
    /// The Service's figures. Both its callers' proxies and its own proxies count its calls; the row has the higher
    /// count.
    row: Option<ServiceRow>,
    /// The Service's methods that were called. A method has one row for the counts of the Service's own proxies, and
    /// other rows for the counts of the callers' proxies.
    methods: Vec<MethodRow>,
    /// Number of methods that are left out because of [`ROWS_MAX`].
    methods_omitted: usize,
    routes: Vec<routes::Row>,
    /// Number of routes that are left out because of [`ROWS_MAX`].
    routes_omitted: usize,
    callers: Vec<EdgeRow<'a>>,
    calls: Vec<EdgeRow<'a>>,
    denials: Vec<denials::Row>,
    proxies: Vec<Proxy>,
    history: Series,
}

#[derive(Serialize)]
struct Proxy {
    name: String,
    silent: Option<String>,
}

/// Returns the data of the view of a Service, as JSON without control characters; `None` if the Service is unknown.
pub(super) fn detail(state: &State, wanted: &str) -> Option<String> {
    let (mesh, readings, history) = (state.mesh.borrow(), state.readings.borrow(), state.history.borrow());
    // Compare printable forms: `wanted` comes from the page, which received the names in this form.
    let (own, node) = mesh.nodes.iter().find(|(id, _)| line(id) == wanted)?;
    let mut methods = Vec::new();
    let mut routes = Vec::new();
    for measured in readings.measured() {
        let is_own = is_id(&measured.namespace, &measured.name, wanted);
        methods.extend(methods::rows(measured, None, SECOND).into_iter().filter(|row| match &*row.key.direction {
            "inbound" => is_own,
            _ => is_at(&row.key.at, wanted),
        }));
        routes.extend(routes::rows(measured, SECOND).into_iter().filter(|row| is_at(&row.key.service, wanted)));
    }
    methods.sort_by(|a, b| b.figures.calls_per_second.total_cmp(&a.figures.calls_per_second));
    let (methods_omitted, routes_omitted) = (cut(&mut methods, ROWS_MAX), cut(&mut routes, ROWS_MAX));
    let members = readings.members().filter(|member| is_id(&member.proxy.namespace, &member.proxy.name, wanted));
    let detail = Detail {
        id: own,
        row: node.is_service.then(|| node.row(own)),
        methods: methods.into_iter().map(MethodRow::from).collect(),
        methods_omitted,
        routes,
        routes_omitted,
        callers: mesh.edges(|_, to| to == own),
        calls: mesh.edges(|from, _| from == own),
        denials: state.denials.borrow().rows(state.elapsed(), |key| key.workload == *own || key.caller == *own),
        proxies: members.map(|member| Proxy { name: member.proxy.instance(), silent: member.silent.clone() }).collect(),
        history: history.series(own, POINTS),
    };
    Some(super::pages::clean(&detail))
}

/// Whether a destination `name.namespace:port` is a port of the Service `namespace/name`.
pub(super) fn is_at(destination: &str, wanted: &str) -> bool {
    line(&service_at(destination)) == wanted
}

/// The Service `namespace/name` of a destination `name.namespace:port`.
pub(super) fn service_at(destination: &str) -> Id {
    let host = destination.rsplit_once(':').map_or(destination, |(host, _)| host);
    host.split_once('.').map_or_else(|| host.to_owned(), |(name, namespace)| id(namespace, name))
}
