//! Answers the requests that the page sends.
//!
//! The page polls: it requests a new snapshot every few seconds, and stops while it is hidden. If the tool pushed
//! events instead, it would continue to send events to a page that is hidden or slow.

use std::collections::HashSet;
use std::rc::Rc;
use std::time::SystemTime;

use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};
use leno_admin::Content;
use leno_admin::answer::{Answer, not_found, text, typed};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::detail::detail;
use super::mesh::{Mesh, Node};
use super::state::State;
use super::{live, policies, proxies, watch};
use crate::cluster::printable::line;

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";

/// The files that the browser loads, each with its path, content type and content.
const FILES: [(&str, &str, &str); 17] = [
    ("/", HTML, include_str!("page/index.html")),
    ("/style.css", CSS, include_str!("page/style.css")),
    ("/icon.svg", "image/svg+xml", include_str!("page/icon.svg")),
    ("/app.js", JS, include_str!("page/app.js")),
    ("/dom.js", JS, include_str!("page/dom.js")),
    ("/format.js", JS, include_str!("page/format.js")),
    ("/table.js", JS, include_str!("page/table.js")),
    ("/chart.js", JS, include_str!("page/chart.js")),
    ("/overview.js", JS, include_str!("page/overview.js")),
    ("/service.js", JS, include_str!("page/service.js")),
    ("/graph.js", JS, include_str!("page/graph.js")),
    ("/graph-worker.js", JS, include_str!("page/graph-worker.js")),
    ("/layout.js", JS, include_str!("page/layout.js")),
    ("/streams.js", JS, include_str!("page/streams.js")),
    ("/tap.js", JS, include_str!("page/tap.js")),
    ("/proxies.js", JS, include_str!("page/proxies.js")),
    ("/keys.js", JS, include_str!("page/keys.js")),
];

/// The query of a request.
pub(super) struct Query<'a>(&'a str);

impl Query<'_> {
    /// Returns the decoded value of a field; `None` if the query lacks the field or the value is empty.
    pub(super) fn get(&self, name: &str) -> Option<String> {
        let mut pairs = self.0.split('&').filter_map(|pair| pair.split_once('='));
        let (_, value) = pairs.find(|(key, _)| *key == name)?;
        Some(decode(value)).filter(|value| !value.is_empty())
    }
}

/// Answers a request that the guard has accepted.
pub(super) async fn answer(request: &Request<Incoming>, state: &Rc<State>) -> Answer {
    let path = request.uri().path();
    let query = Query(request.uri().query().unwrap_or_default());
    if let Some((_, content_type, content)) = FILES.iter().find(|(file, ..)| *file == path) {
        return typed(StatusCode::OK, content_type, *content);
    }
    match path {
        "/api/mesh" => mesh(state, &query),
        "/api/graph" => json_answer(graph(&state.mesh.borrow())),
        "/api/service" => match query.get("id").and_then(|id| detail(state, &id)) {
            Some(detail) => json_answer(detail),
            None => text(StatusCode::NOT_FOUND, "no proxy knows this Service; go back to the list\n"),
        },
        "/api/endpoints" => json_answer(live::endpoints(state, &query.get("id").unwrap_or_default()).await),
        "/api/policies" => json_answer(policies::policies(state, &query.get("id").unwrap_or_default()).await),
        "/api/calls" => json_answer(live::calls(state, query.get("service").as_deref()).await),
        "/api/proxies" => json_answer(proxies::proxies(&state.readings.borrow(), SystemTime::now())),
        "/api/tap" => watch::tap(state, &query),
        _ => not_found(),
    }
}

/// Returns the latest snapshot, or status 204 if the page already has this snapshot.
fn mesh(state: &State, query: &Query<'_>) -> Answer {
    let (version, snapshot) = state.snapshot.borrow().clone();
    if query.get("since").is_some_and(|since| since == version.to_string()) {
        let mut answer = Response::new(Content::Page(Default::default()));
        *answer.status_mut() = StatusCode::NO_CONTENT;
        return answer;
    }
    typed(StatusCode::OK, "application/json", snapshot)
}

/// Returns the graph in JSON: all edges, and all nodes except Services that have neither proxies nor calls.
fn graph(mesh: &Mesh) -> String {
    let edges = mesh.edges(|_, _| true);
    // Keep the nodes of edges too, for example a Service that receives no calls now but calls other Services.
    let ends: HashSet<&str> = edges.iter().flat_map(|edge| [edge.from, edge.to]).collect();
    let nodes = mesh.nodes.iter().filter(|(id, node)| {
        node.proxies > 0 || !node.is_service || node.counts().0.calls > 0.0 || ends.contains(id.as_str())
    });
    let row = |(id, node): (&String, &Node)| json!({ "id": id, "is_service": node.is_service, "row": node.row(id) });
    clean(&json!({ "nodes": nodes.map(row).collect::<Vec<_>>(), "edges": edges }))
}

fn json_answer(json: String) -> Answer {
    typed(StatusCode::OK, "application/json", json)
}

/// Returns JSON whose texts have no control characters and no invisible characters. Most texts come from proxies, which
/// may have received them from untrusted peers.
pub(super) fn clean(value: &impl Serialize) -> String {
    serde_json::to_value(value).map(cleaned).unwrap_or_default().to_string()
}

fn cleaned(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(line(&text)),
        Value::Array(values) => values.into_iter().map(cleaned).collect(),
        Value::Object(fields) => {
            Value::Object(fields.into_iter().map(|(key, value)| (line(&key), cleaned(value))).collect::<Map<_, _>>())
        }
        other => other,
    }
}

/// Decodes the value of a query's field.
fn decode(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.bytes());
    while let Some(byte) = rest.next() {
        let hex = |byte: Option<u8>| char::from(byte?).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => match (hex(rest.next()), hex(rest.next())) {
                (Some(high), Some(low)) => bytes.push(high * 16 + low),
                _ => bytes.push(b'?'),
            },
            byte => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
#[path = "pages_tests.rs"]
mod tests;
