//! One watch that goes on for as long as the process runs. When a failure of the API server ends the watch, the watch
//! begins again after a pause.

use std::fmt::Debug;
use std::pin::Pin;

use futures_util::{Stream, StreamExt};
use hyper::StatusCode;
use kube::runtime::watcher::{self, Config, Event, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep_until};

use super::backoff::Outage;
use super::hearing::{Hearing, Watched};

type Events<K> = Pin<Box<dyn Stream<Item = watcher::Result<Event<K>>> + Send>>;

pub(crate) struct Lasting<K> {
    /// Begins a watch with a list.
    begin: Box<dyn Fn() -> Events<K> + Send + Sync>,
    events: Events<K>,
    /// The plural of the kind, such as `pods`.
    resource: Box<str>,
    outage: Outage,
    is_outage_logged: bool,
    /// The time at which to try again after a failure; `None` if no retry is pending.
    retry_at: Option<Instant>,
    watched: Watched,
}

impl<K: Resource + Clone + Debug + DeserializeOwned + Send + 'static> Lasting<K> {
    pub(crate) fn new(objects: Api<K>, config: Config, hearing: &Hearing) -> Self {
        let resource: Box<str> = objects.resource_url().rsplit('/').next().unwrap_or_default().into();
        let begin = move || -> Events<K> { Box::pin(watcher(objects.clone(), config.clone())) };
        let watched = hearing.watch(&resource);
        Self {
            events: begin(),
            begin: Box::new(begin),
            resource,
            outage: Outage::none(Instant::now()),
            is_outage_logged: false,
            retry_at: None,
            watched,
        }
    }
}

impl<K> Lasting<K> {
    /// Returns the next event or failure. After a failure, the next call waits before it tries again. A caller may drop
    /// the future and call again without losing an event.
    pub(crate) async fn next(&mut self) -> Result<Event<K>, watcher::Error> {
        loop {
            if let Some(retry_at) = self.retry_at {
                sleep_until(retry_at).await;
                self.retry_at = None;
            }
            match self.events.next().await {
                Some(Ok(event)) => {
                    // kube announces a list (`Init`) before it requests the list. So `Init` does not show that the API
                    // server answers.
                    if !matches!(event, Event::Init) {
                        self.watched.is_served();
                        self.succeeded(Instant::now());
                    }
                    return Ok(event);
                }
                Some(Err(error)) => {
                    self.failed(&error);
                    return Err(error);
                }
                // kube's watches never end.
                None => {
                    let now = Instant::now();
                    self.retry_at = Some(now + self.outage.failed(now));
                    self.events = (self.begin)();
                }
            }
        }
    }

    fn succeeded(&mut self, at: Instant) {
        let lasted = self.outage.succeeded(at);
        if let Some(lasted) = lasted.filter(|_| std::mem::take(&mut self.is_outage_logged)) {
            tracing::info!(resource = &*self.resource, after_s = lasted.as_secs_f64(), "watched again");
        }
    }

    fn failed(&mut self, error: &watcher::Error) {
        // The watch may have worked since the last event: kube reports no event for a watch on which nothing changes.
        // So count the last bytes that arrived as a success.
        if let Some(heard_at) = self.watched.heard_at() {
            self.succeeded(heard_at);
        }
        if status(error) == Some(StatusCode::NOT_FOUND) {
            // The API server answers 404 if it does not serve the kind. A definition of the kind may still be
            // installed, for example one that lacks the version that we read.
            self.watched.is_absent();
        }
        let now = Instant::now();
        let wait = self.outage.failed(now);
        self.retry_at = Some(now + wait);
        let (resource, retry_s) = (&*self.resource, wait.as_secs_f64());
        if status(error) == Some(StatusCode::GONE) {
            tracing::debug!(resource, %error, retry_s, "the watch has expired; its objects are listed again");
            // Begin a new watch: kube would continue the old one from the same resource version, which has expired.
            self.events = (self.begin)();
        } else if !std::mem::replace(&mut self.is_outage_logged, true) {
            tracing::warn!(resource, %error, "the resource cannot be watched; its known objects stay in force");
        } else {
            tracing::debug!(resource, %error, retry_s, "the resource still cannot be watched");
        }
    }
}

/// The HTTP status that the API server answered, if it answered.
pub(super) fn status(error: &watcher::Error) -> Option<StatusCode> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => StatusCode::from_u16(status.code).ok(),
        _ => None,
    }
}

#[cfg(test)]
#[path = "lasting_tests.rs"]
mod tests;
