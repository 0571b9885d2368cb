//! The live tap: when a call ends, its proxy reports the call, and the dashboard sends the report to the page as a
//! server-sent event.

use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use leno_admin::answer::{Answer, stream as stream_answer, text};
use leno_model::tap::{TapSelection, TapSide};
use serde_json::{Value, json};
use tokio::sync::mpsc::{Sender, channel};
use tokio::task::spawn_local;

use super::mesh::{id, is_id};
use super::pages::{Query, clean};
use super::state::State;
use crate::cluster::source::ProxyAt;

/// Maximum number of proxies that one tap watches.
const PROXIES_MAX: usize = 16;
/// Maximum number of taps that a dashboard keeps open at the same time. A proxy allows four taps, so this leaves two
/// for other users.
const TAPS_MAX: usize = 2;
/// Maximum number of events that wait for the browser. Further events are dropped and counted.
const WAITING_MAX: usize = 512;

/// Represents an open tap in [`State::taps`]; dropping this value lowers the count.
struct Place(Rc<State>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.taps.set(self.0.taps.get() - 1);
    }
}

/// Starts a tap, which ends when the browser closes the connection.
pub(super) fn tap(state: &Rc<State>, query: &Query<'_>) -> Answer {
    let selection = match selection(query) {
        Ok(selection) => selection,
        Err(why) => return text(StatusCode::BAD_REQUEST, format!("{why}\n")),
    };
    if state.taps.get() >= TAPS_MAX {
        return text(StatusCode::SERVICE_UNAVAILABLE, format!("{TAPS_MAX} taps are open already; end one of them\n"));
    }
    let of = query.get("service");
    let proxies: Vec<ProxyAt> = {
        let readings = state.readings.borrow();
        let members = readings.members().filter(|member| member.silent.is_none());
        let wanted = members
            .filter(|member| of.as_ref().is_none_or(|of| is_id(&member.proxy.namespace, &member.proxy.name, of)));
        wanted.map(|member| member.proxy.clone()).collect()
    };
    state.taps.set(state.taps.get() + 1);
    let place = Place(state.clone());
    let (sender, receiver) = channel::<Bytes>(WAITING_MAX);
    spawn_local(async move {
        tokio::select! {
            () = watch(&place.0, &proxies, &selection, &sender) => {}
            // End the tap when the browser closes the connection.
            () = sender.closed() => {}
        }
    });
    let mut answer = stream_answer(receiver);
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    answer
}

async fn watch(state: &State, proxies: &[ProxyAt], selection: &TapSelection, sender: &Sender<Bytes>) {
    let dropped = Cell::new(0_u64);
    let watched = proxies.get(..PROXIES_MAX).unwrap_or(proxies);
    send(sender, &dropped, &json!({ "watching": watched.len(), "of": proxies.len() }));
    let Ok(selection) = serde_json::to_string(selection) else { return };
    let watch = |proxy: ProxyAt| {
        let (selection, dropped) = (selection.as_str(), &dropped);
        async move {
            let name = id(&proxy.namespace, &proxy.name);
            let each = |text: &str| {
                if let Ok(Value::Object(mut call)) = serde_json::from_str(text) {
                    call.insert("workload".to_owned(), name.clone().into());
                    call.extend(proxy.pod().map(|pod| ("pod".to_owned(), pod.into())));
                    send(sender, dropped, &Value::Object(call));
                }
            };
            if let Err(error) = state.proxies.tap(&proxy, selection, each, |_| ()).await {
                send(sender, dropped, &json!({ "ended": name, "why": error.to_string() }));
            }
        }
    };
    stream::iter(watched.to_vec()).for_each_concurrent(PROXIES_MAX, watch).await;
}

/// Sends an event. If [`WAITING_MAX`] events already wait, drops the event and counts it in `dropped`.
fn send(sender: &Sender<Bytes>, dropped: &Cell<u64>, event: &Value) {
    let Ok(room) = sender.try_reserve() else { return dropped.set(dropped.get() + 1) };
    let mut text = String::new();
    if dropped.get() > 0 {
        text += &format!("data: {{\"dropped\":{}}}\n\n", dropped.take());
    }
    // In server-sent events, an empty line ends the event. The JSON itself is a single line.
    text += &format!("data: {}\n\n", clean(event));
    room.send(text.into());
}

/// Reads which calls to show from the query, which contains the fields of the page's form.
fn selection(query: &Query<'_>) -> Result<TapSelection, String> {
    let statuses = query.get("status").map(|list| list.split(',').map(|status| status.trim().parse()).collect());
    let slower_than = query.get("slower_than").map(|text| text.parse()).transpose()?;
    let selection = TapSelection {
        side: match query.get("direction").as_deref() {
            None => None,
            Some("inbound") => Some(TapSide::Inbound),
            Some("outbound") => Some(TapSide::Outbound),
            Some(_) => return Err("the direction is inbound or outbound".to_owned()),
        },
        method: query.get("method"),
        route: query.get("route"),
        peer: query.get("peer"),
        statuses: statuses.transpose()?.unwrap_or_default(),
        failed: query.get("failed").is_some(),
        ..TapSelection::default()
    };
    Ok(selection.slower_than(slower_than))
}
