//! Discovery: asks the control plane about subjects that workers do not know, over incremental xDS, and gives the
//! workers the resulting mesh. A [`Subject`] is a destination of outbound calls, or the inbound policies of our own
//! application.
//!
//! `knowledge` holds the questions (`asked`) and the answers (`known`, for each cluster). `wishes` holds the changes of
//! subscriptions that the control plane does not know yet. `session` is the exchange on one stream. While the control
//! plane cannot be reached, the knowledge stays in force, and questions wait. If the control plane refuses names
//! because of a limit, `refused` decides when we ask for them again. `outside` decides when a question about an address
//! outside of the cluster networks has waited long enough for a control plane that cannot be reached.
//!
//! We forget subjects that calls do not use any more, after a while or when room is needed. Only the workers know which
//! subjects calls use. Workers do not report each call; instead we ask them for a report before we forget subjects. If
//! a question finds no room, it waits, and we try again every second.

mod asked;
#[cfg(test)]
mod fixtures;
mod knowledge;
mod known;
mod outside;
mod refused;
mod session;
mod wishes;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use envoy_types::pb::envoy::config::core::v3::{Node, node::UserAgentVersionType};
use envoy_types::pb::envoy::service::discovery::v3::DeltaDiscoveryRequest;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use futures_util::stream::poll_fn;
use knowledge::Knowledge;
use leno_model::discovery::Subject;
use leno_model::mesh::Mesh;
use leno_model::policy::Network;
use leno_relay::limits::{RelayLimits, ms};
use leno_xds::PROXY_USER_AGENT;
use leno_xds::facts::node_metadata;
use outside::Outside;
use refused::{AskAgain, UNUSED, Warnings};
use session::Session;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval_at, sleep_until, timeout};

use super::connect::{ControlPlane, explain_status};
use super::retry::Retry;
use super::shared::Shared;
use crate::worker::WorkerHandle;

/// Maximum number of questions that wait to be processed, and of questions that wait for room.
pub(super) const QUESTIONS_MAX: usize = 4_096;
/// Maximum number of acknowledgements (ACK or NACK of a response) that wait to be sent. At this limit, we read no
/// further responses.
const ANSWERS_MAX: usize = 64;
/// Maximum size of a response, in bytes.
const RESPONSE_MAX_BYTES: usize = 64 << 20;
/// Shortest and longest pause after a lost connection.
const RETRY_MIN: Duration = Duration::from_millis(200);
const RETRY_MAX: Duration = Duration::from_secs(15);
/// After a stream of at least this duration, the next pause is [`RETRY_MIN`] again.
const GOOD_STREAM: Duration = Duration::from_secs(30);
/// Interval at which workers are asked which subjects they use. If a fifth of `discovery_idle_ms` is shorter, the
/// interval is this fifth.
const USAGE_EVERY: Duration = Duration::from_secs(60);
/// Time for workers to report which subjects they use. If a worker does not answer in time, nothing is forgotten.
const USAGE_MAX: Duration = Duration::from_millis(500);
/// When the table of subjects is full, a share of 1/`ROOM_SHARE` of the subjects is forgotten at once. If only one
/// subject were forgotten at a time, each new question would require a report from the workers.
const ROOM_SHARE: usize = 16;
/// Number of xDS names that the proxy subscribes to for a subject that leads to a Service: a Listener, a Cluster, the
/// Cluster's endpoints and its routes.
const NAMES_OF_A_SUBJECT: usize = 4;
/// Maximum time for which a removed cluster stays in the mesh while newer routes wait for their backends. It is as long
/// as the longest pause before the proxy asks again for refused names.
const REMOVED_MAX: Duration = Duration::from_secs(60);
/// Pause before the next attempt to make room, and before the next warning, while every subject is in use.
const FULL_PAUSE: Duration = Duration::from_secs(1);

/// Keeps each worker's copy of the mesh complete for the subjects that the worker uses.
pub(super) struct Discovery {
    control_plane: ControlPlane,
    node: Node,
    questions: mpsc::Receiver<Subject>,
    knowledge: Knowledge,
    /// Time for which an unused subject is kept.
    idle: Duration,
    /// The questions that found no room in the table, at most [`QUESTIONS_MAX`], each with the time at which it
    /// arrived, the oldest first.
    without_room: VecDeque<(Subject, Instant)>,
    /// Time for which a question waits for room. After this time, its calls have failed, or their worker asks again.
    patience: Duration,
    /// Time of the last warning that the table had no room for a question, because every subject was in use.
    full_since: Option<Instant>,
    warnings: Warnings,
    outside: Outside,
}

impl Discovery {
    /// Creates the discovery of a proxy in `namespace`, for questions from `questions`. If other workloads call the
    /// application (`is_called`), asks for the inbound policies at once. While the control plane cannot be reached,
    /// addresses outside of `cluster_networks` need no answer.
    pub(super) fn new(
        control_plane: ControlPlane,
        namespace: &str,
        is_called: bool,
        questions: mpsc::Receiver<Subject>,
        cluster_networks: Vec<Network>,
        limits: &RelayLimits,
    ) -> Self {
        let mut knowledge = Knowledge::new(namespace, limits.max_subjects as usize);
        if is_called {
            knowledge.ask(&Subject::Inbound, Instant::now());
        }
        let idle = ms(limits.discovery_idle_ms);
        Self {
            control_plane,
            node: node(namespace),
            questions,
            knowledge,
            idle,
            without_room: VecDeque::new(),
            patience: ms(limits.discovery_timeout_ms),
            full_since: None,
            warnings: Warnings::default(),
            outside: Outside::new(cluster_networks, ms(limits.discovery_timeout_ms), Instant::now()),
        }
    }

    /// The mesh at the start: empty, so that workers ask about every subject.
    pub(super) fn mesh(&self) -> Arc<Mesh> {
        Arc::new(self.knowledge.mesh().clone())
    }

    /// Serves questions while the proxy runs.
    pub(super) async fn run(mut self, shared: &Shared) -> Infallible {
        let mut retry = Retry::new(RETRY_MIN, RETRY_MAX);
        loop {
            let began = tokio::time::Instant::now();
            let Err(error) = self.stream(shared).await;
            shared.set_connected(false);
            self.outside.note_end_of_stream(Instant::now());
            shared.set_refused_names(0);
            let was_good = began.elapsed() >= GOOD_STREAM;
            if was_good {
                retry.reset();
            }
            let (pause, address) = (retry.pause(), &self.control_plane.address);
            let retry_s = pause.as_secs_f64();
            // The end of a long stream needs no warning. A replica of the control plane ends its connections when it
            // restarts, and ends each connection when the client certificate of the connection expires. If the control
            // plane cannot be reached, the next attempt fails and logs a warning.
            match was_good {
                true => tracing::info!(%address, retry_s, "the connection to the control plane ended: {error}"),
                false => tracing::warn!(%address, retry_s, "no control plane: {error}; what is known holds"),
            }
            let _ = timeout(pause, self.note_questions(shared)).await;
        }
    }

    /// Records questions while there is no stream. Forgets no answer, because without a stream we could not ask again.
    async fn note_questions(&mut self, shared: &Shared) -> Infallible {
        loop {
            let due = self.outside.due();
            tokio::select! {
                Some(subject) = self.questions.recv() => {
                    self.ask_without_stream(subject, Instant::now(), shared);
                }
                () = sleep_until(due.unwrap_or_else(Instant::now).into()), if due.is_some() => {
                    self.assume_outside(shared);
                    self.ask_waiting_without_stream(shared);
                }
                // The workers have ended.
                else => pending::<()>().await,
            }
        }
    }

    /// Serves one stream until it ends.
    async fn stream(&mut self, shared: &Shared) -> Result<Infallible, String> {
        let control_plane = self.control_plane.clone();
        let (sender, mut sent) = mpsc::channel::<DeltaDiscoveryRequest>(16);
        let opening = async move {
            let channel = control_plane.connect().await?;
            let client = AggregatedDiscoveryServiceClient::new(channel);
            let mut client = client.max_decoding_message_size(RESPONSE_MAX_BYTES);
            let response = client.delta_aggregated_resources(poll_fn(move |cx| sent.poll_recv(cx)));
            let responses = response.await.map_err(|status| explain_status(&status))?.into_inner();
            Ok::<_, String>((client, responses))
        };
        // A connection attempt may take seconds if packets are lost, and questions arrive meanwhile.
        let (_client, mut responses) = tokio::select! {
            opened = opening => opened?,
            never = self.note_questions(shared) => match never {},
        };
        tracing::info!(address = %self.control_plane.address, "connected to the control plane");
        shared.set_connected(true);
        self.outside.note_stream();
        let (mut session, mut ask_again) = (Session::new(self.node.clone()), AskAgain::new());
        self.knowledge.restart_kept();
        let mut drop_at = self.knowledge.drop_overdue(Instant::now(), REMOVED_MAX);
        let period = USAGE_EVERY.min(self.idle / 5).max(Duration::from_millis(1));
        let mut look = interval_at(tokio::time::Instant::now() + period, period);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Read responses even while requests wait to be sent. Otherwise both sides could wait for ever, because the
        // control plane reads no requests while we do not read its responses. The queue of requests is bounded: it has
        // each name of `knowledge` at most once.
        let (mut requests, mut answers) = (VecDeque::new(), VecDeque::new());
        loop {
            if requests.is_empty() {
                requests.extend(session.requests(&mut self.knowledge));
            }
            let room_at = self.full_since.map_or_else(Instant::now, |since| since + FULL_PAUSE);
            let assume_at = self.outside.due();
            tokio::select! {
                // If the stream has ended, `reserve` fails; `responses` then returns the status of the stream.
                Ok(room) = sender.reserve(), if !(answers.is_empty() && requests.is_empty()) => {
                    if let Some(next) = answers.pop_front().or_else(|| requests.pop_front()) {
                        room.send(next);
                    }
                }
                // While requests wait, leave questions in their channel, which has a limit.
                Some(subject) = self.questions.recv(), if requests.is_empty() => {
                    self.ask(subject, Instant::now(), shared).await;
                    // Take all questions that wait already, to send them in one request.
                    while let Ok(subject) = self.questions.try_recv() {
                        self.ask(subject, Instant::now(), shared).await;
                    }
                }
                () = sleep_until(room_at.into()), if requests.is_empty() && !self.without_room.is_empty() => {
                    self.ask_waiting(shared).await;
                }
                response = responses.message(), if answers.len() < ANSWERS_MAX || sender.is_closed() => {
                    let response = response.map_err(|status| explain_status(&status))?;
                    let response = response.ok_or("the control plane ended the stream, as it does when it restarts")?;
                    answers.push_back(session.respond(&response, &mut self.knowledge));
                    shared.note_answer();
                    drop_at = self.renew_mesh(shared);
                    if let Some(why) = session.refuse(&response, &self.knowledge) {
                        let now = Instant::now();
                        ask_again.plan(session.refused(), now);
                        self.warnings.warn(session.refused(), &why, now);
                    }
                    shared.set_refused_names(session.refused());
                }
                () = sleep_until(drop_at.unwrap_or_else(Instant::now).into()), if drop_at.is_some() => {
                    drop_at = self.renew_mesh(shared);
                }
                () = sleep_until(assume_at.unwrap_or_else(Instant::now).into()), if assume_at.is_some() => {
                    self.assume_outside(shared);
                }
                _ = look.tick() => {
                    self.forget(shared, Knowledge::forget_idle).await;
                    shared.set_refused_names(session.refused());
                }
                () = ask_again.due() => {
                    let refused = session.refused();
                    if ask_again.is_over(refused, Instant::now()) {
                        let most = refused.div_ceil(NAMES_OF_A_SUBJECT);
                        let some = |knowledge: &mut Knowledge, now: Instant, _| {
                            let is_refused = |kind, name: &str| session.is_refused(kind, name);
                            let before = now.checked_sub(UNUSED);
                            before.map_or(0, |before| knowledge.make_room(most, before, is_refused))
                        };
                        self.forget(shared, some).await;
                        session.ask_again(&mut self.knowledge);
                    }
                }
            }
        }
    }

    /// Drops the removed clusters that are overdue, and gives the mesh to the workers. Returns the time of the next such
    /// drop; `None` if no removed cluster is kept.
    fn renew_mesh(&mut self, shared: &Shared) -> Option<Instant> {
        let drop_at = self.knowledge.drop_overdue(Instant::now(), REMOVED_MAX);
        self.give_mesh(shared);
        drop_at
    }

    /// Gives the workers the mesh, if it has changed since the last time.
    fn give_mesh(&mut self, shared: &Shared) {
        let (mesh, changes) = self.knowledge.take_mesh();
        shared.change_mesh(mesh, changes);
    }

    /// Assumes that the addresses whose answer is overdue are outside of the mesh, and tells the workers.
    fn assume_outside(&mut self, shared: &Shared) {
        let due = self.outside.take_due(Instant::now());
        let assumed: Vec<SocketAddr> =
            due.into_iter().filter(|address| self.knowledge.assume_outside(*address)).collect();
        let Some(first) = assumed.first() else { return };
        if self.outside.begins_to_assume() {
            tracing::warn!(
                "the control plane has not answered about {first}: until it answers, the proxy relays connections to this \
                 and other addresses outside of the cluster networks as connections to addresses outside of the mesh; if \
                 the mesh uses such addresses, add their networks to --cluster-networks (chart value \
                 proxy.clusterNetworks)"
            );
        }
        self.give_mesh(shared);
    }

    /// Records a question in the knowledge. Returns `false` if there is no room for it.
    fn note_question(&mut self, subject: &Subject) -> bool {
        let now = Instant::now();
        let has_room = self.knowledge.ask(subject, now);
        if has_room {
            self.outside.note_question(subject, now);
        }
        has_room
    }

    /// Records a question that arrived at `since`. If there is no room for it, the least recently used subjects are
    /// forgotten.
    async fn ask(&mut self, subject: Subject, since: Instant, shared: &Shared) {
        if self.note_question(&subject) {
            return;
        }
        if self.full_since.is_none_or(|since| since.elapsed() >= FULL_PAUSE) {
            self.make_room(shared).await;
            if self.note_question(&subject) {
                return;
            }
        }
        self.wait_for_room(subject, since);
    }

    /// Records a question that arrived at `since`, while there is no stream. If there is no room for it, forgets some of
    /// the addresses that the proxy assumes to be outside of the mesh: at their next use, the proxy assumes the same
    /// again, without an answer.
    fn ask_without_stream(&mut self, subject: Subject, since: Instant, shared: &Shared) {
        if self.note_question(&subject) {
            return;
        }
        if self.knowledge.forget_assumed(self.room_share()) > 0 {
            self.give_mesh(shared);
            if self.note_question(&subject) {
                return;
            }
        }
        self.wait_for_room(subject, since);
    }

    /// Number of subjects to forget at once when the table is full.
    fn room_share(&self) -> usize {
        (self.knowledge.subjects() / ROOM_SHARE).max(1)
    }

    /// Lets a question wait for room. The question arrived at `since`. If too many questions wait already, the question
    /// is dropped, and its calls fail when they have waited too long.
    fn wait_for_room(&mut self, subject: Subject, since: Instant) {
        self.warn_of_no_room(&subject);
        self.drop_late_questions();
        if self.without_room.len() < QUESTIONS_MAX {
            self.without_room.push_back((subject, since));
        }
    }

    /// Drops the questions that have waited too long for room.
    fn drop_late_questions(&mut self) {
        while self.without_room.front().is_some_and(|(_, since)| since.elapsed() >= self.patience) {
            self.without_room.pop_front();
        }
    }

    /// Tries again to record the questions that wait for room.
    async fn ask_waiting(&mut self, shared: &Shared) {
        self.drop_late_questions();
        for (subject, since) in std::mem::take(&mut self.without_room) {
            self.ask(subject, since, shared).await;
        }
    }

    /// Tries again to record the questions that wait for room, while there is no stream. Call it after assumptions,
    /// since only the assumed addresses make room.
    fn ask_waiting_without_stream(&mut self, shared: &Shared) {
        self.drop_late_questions();
        for (subject, since) in std::mem::take(&mut self.without_room) {
            self.ask_without_stream(subject, since, shared);
        }
    }

    /// Forgets some of the least recently used subjects.
    async fn make_room(&mut self, shared: &Shared) {
        let share = self.room_share();
        self.forget(shared, |knowledge, now, _| knowledge.forget_least_recently_used(share, now)).await;
    }

    /// Asks the workers which subjects they use. Then calls `some`, which forgets some of the other subjects.
    async fn forget(&mut self, shared: &Shared, some: impl FnOnce(&mut Knowledge, Instant, Duration) -> usize) {
        // The time before the reports. A subject that a worker reports as in use gets a later time, so `some` keeps it.
        let now = Instant::now();
        let asked: Vec<_> = shared.workers.iter().map(WorkerHandle::usage).collect();
        let deadline = tokio::time::Instant::now() + USAGE_MAX;
        let mut have_all_answered = true;
        for answer in asked {
            match tokio::time::timeout_at(deadline, answer).await {
                // Record the report even if another worker does not answer: a worker reports each past use only once.
                Ok(Ok(usage)) => self.knowledge.take_usage(&usage, Instant::now()),
                Ok(Err(_)) | Err(_) => have_all_answered = false,
            }
        }
        // A worker that does not answer may use any subject, so forget nothing.
        if !have_all_answered {
            return;
        }
        let forgotten = some(&mut self.knowledge, now, self.idle);
        if forgotten > 0 {
            tracing::debug!(forgotten, known = self.knowledge.subjects(), "forgot what calls do not use");
            self.give_mesh(shared);
        }
    }

    /// Logs that a question found no room, at most once per [`FULL_PAUSE`].
    fn warn_of_no_room(&mut self, subject: &Subject) {
        if self.full_since.is_some_and(|since| since.elapsed() < FULL_PAUSE) {
            return;
        }
        self.full_since = Some(Instant::now());
        let subjects = self.knowledge.subjects();
        tracing::warn!(
            "cannot ask about {subject} yet: all {subjects} subjects that there is room for are in use, or the control \
             plane cannot be reached to ask about them again; its calls fail unless there is room within \
             discovery_timeout_ms; raise the container's memory (annotation leno.dev/proxy-memory-limit) or --limit \
             max_subjects, or close connections"
        );
    }
}

/// Returns the node, which describes this proxy to the control plane. If we have a certificate, the control plane takes
/// our identity from the certificate, and not from the node.
fn node(namespace: &str) -> Node {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    Node {
        id: host,
        user_agent_name: PROXY_USER_AGENT.to_owned(),
        user_agent_version_type: Some(UserAgentVersionType::UserAgentVersion(env!("CARGO_PKG_VERSION").to_owned())),
        metadata: Some(node_metadata(namespace)),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests;
