//! The live tap: when a call ends, its proxy reports the call, and the dashboard sends the report to the page as a
//! server-sent event.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use leno_admin::answer::{Answer, stream as stream_answer, text};
use leno_model::tap::{TapSelection, TapSide};
use serde_json::{Value, json};
use tokio::sync::mpsc::{Sender, channel};
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};

use super::mesh::{id, is_id};
use super::pages::{Query, clean};
use super::state::State;
use crate::cluster::source::{ProxyAt, Tapped};

/// Maximum number of proxies that one tap watches.
const PROXIES_MAX: usize = 16;
/// Maximum number of taps that a dashboard keeps open at the same time. A proxy allows four taps, so this leaves two
/// for other users.
const TAPS_MAX: usize = 2;
/// Maximum number of events that wait for the browser. Further calls are dropped and counted; notices are kept in
/// [`Missed`].
const WAITING_MAX: usize = 512;
/// Maximum number of notices that are kept while [`WAITING_MAX`] events wait: for each proxy, a gap of its tap and the
/// end of its tap. Of more notices, the oldest are dropped.
const NOTICES_MAX: usize = 2 * PROXIES_MAX;
/// Time after which a tap ends if [`WAITING_MAX`] events wait and the browser reads none of them: the tap takes a place
/// of [`TAPS_MAX`], and one of the taps of each proxy.
const UNREAD_MAX: Duration = Duration::from_secs(30);
/// Interval at which a tap checks that the browser reads.
const UNREAD_EVERY: Duration = Duration::from_secs(1);

/// What the browser has missed because [`WAITING_MAX`] events waited.
#[derive(Default)]
struct Missed {
    /// Number of dropped calls and notices.
    dropped: Cell<u64>,
    /// Notices that were not sent yet, the oldest first. At most [`NOTICES_MAX`].
    notices: RefCell<VecDeque<String>>,
}

/// Represents an open tap in [`State::taps`]; dropping this value lowers the count.
struct Place(Rc<State>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.taps.set(self.0.taps.get() - 1);
    }
}

/// Starts a tap. It ends when the browser closes the connection or reads nothing for [`UNREAD_MAX`], or when no proxy
/// is watched any more.
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
    let (sender, receiver) = channel::<Bytes>(WAITING_MAX + 1);
    // Keep a place for the last event, which says why the tap ends: the browser may have left no other place free.
    let last = sender.clone().try_reserve_owned();
    spawn_local(async move {
        let missed = Missed::default();
        let why = tokio::select! {
            () = watch(&place.0, &proxies, &selection, &sender, &missed) => "no proxy is watched any more".to_owned(),
            () = unread(&sender, &missed) => format!("the browser read nothing for {} s", UNREAD_MAX.as_secs()),
            // End the tap when the browser closes the connection.
            () = sender.closed() => return,
        };
        if let Ok(last) = last {
            last.send(missed.text_with(&json!({ "over": why })));
        }
    });
    let mut answer = stream_answer(receiver);
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    answer
}

async fn watch(state: &State, proxies: &[ProxyAt], selection: &TapSelection, sender: &Sender<Bytes>, missed: &Missed) {
    let watched = proxies.get(..PROXIES_MAX).unwrap_or(proxies);
    send(sender, missed, &json!({ "watching": watched.len(), "of": proxies.len() }));
    let Ok(selection) = serde_json::to_string(selection) else { return };
    let watch = |proxy: ProxyAt| {
        let selection = selection.as_str();
        async move {
            let each = |tapped: Tapped<'_>| match tapped {
                Tapped::Line(line) => {
                    if let Some(call) = call(&proxy, line) {
                        send(sender, missed, &call);
                    }
                }
                Tapped::Ended(ended) => notify(sender, missed, ended),
            };
            if let Err(error) = state.proxies.tap(&proxy, selection, each).await {
                notify(sender, missed, error.to_string());
            }
        }
    };
    stream::iter(watched.to_vec()).for_each_concurrent(PROXIES_MAX, watch).await;
}

/// Returns the event for a line of a proxy's tap: the call with the proxy's workload and Pod. `None` if the line is no
/// JSON object.
fn call(proxy: &ProxyAt, line: &str) -> Option<Value> {
    let Ok(Value::Object(mut call)) = serde_json::from_str(line) else { return None };
    call.insert("workload".to_owned(), id(&proxy.namespace, &proxy.name).into());
    call.extend(proxy.pod().map(|pod| ("pod".to_owned(), pod.into())));
    Some(Value::Object(call))
}

/// Returns when the browser has read nothing for [`UNREAD_MAX`] although events wait, or has closed the connection.
///
/// Also sends the notices that found no free place: there may be no further event that could follow them.
async fn unread(sender: &Sender<Bytes>, missed: &Missed) {
    // A free place shows that the browser reads.
    while let Ok(Ok(place)) = timeout(UNREAD_MAX, sender.reserve()).await {
        // Give the place back before the pause: a held place would always be free, and would be missing for events.
        match missed.text() {
            Some(text) => place.send(text.into()),
            None => drop(place),
        }
        sleep(UNREAD_EVERY).await;
    }
}

/// Sends an event. If [`WAITING_MAX`] events already wait, drops the event and counts it.
fn send(sender: &Sender<Bytes>, missed: &Missed, event: &Value) {
    match sender.try_reserve() {
        Ok(place) => place.send(missed.text_with(event)),
        Err(_) => missed.drop_one(),
    }
}

/// Sends a notice about calls that are missing. If [`WAITING_MAX`] events already wait, keeps the notice for later.
fn notify(sender: &Sender<Bytes>, missed: &Missed, notice: String) {
    match sender.try_reserve() {
        Ok(place) => place.send(missed.text_with(&json!({ "notice": notice }))),
        Err(_) => missed.keep(notice),
    }
}

impl Missed {
    fn drop_one(&self) {
        self.dropped.set(self.dropped.get() + 1);
    }

    fn keep(&self, notice: String) {
        let mut notices = self.notices.borrow_mut();
        if notices.len() == NOTICES_MAX {
            notices.pop_front();
            self.drop_one();
        }
        notices.push_back(notice);
    }

    /// Writes an event as a server-sent event, after events for what the browser has missed: the number of dropped
    /// events, and the notices. Forgets them.
    fn text_with(&self, event: &Value) -> Bytes {
        let mut text = self.text().unwrap_or_default();
        text += &format!("data: {}\n\n", clean(event));
        text.into()
    }

    /// Writes the events for what the browser has missed, and forgets them. `None` if it has missed nothing.
    fn text(&self) -> Option<String> {
        let dropped = self.dropped.take();
        let count = (dropped > 0).then(|| json!({ "dropped": dropped }));
        let notices = self.notices.take().into_iter().map(|notice| json!({ "notice": notice }));
        let mut text = String::new();
        // In server-sent events, an empty line ends the event. The JSON itself is a single line.
        for event in count.into_iter().chain(notices) {
            text += &format!("data: {}\n\n", clean(&event));
        }
        (!text.is_empty()).then_some(text)
    }
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

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
