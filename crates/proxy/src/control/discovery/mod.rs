//! Discovery: asks the control plane what workers do not know, over incremental xDS, and gives them the mesh that answers.
//!
//! `knowledge` is what has been asked and answered, `session` one stream's exchange. While the control plane cannot be
//! reached what is known holds, and questions wait until it can.

#[cfg(test)]
mod fixtures;
mod knowledge;
mod session;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::{Node, node::UserAgentVersionType};
use envoy_types::pb::envoy::service::discovery::v3::DeltaDiscoveryRequest;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use futures_util::stream::poll_fn;
use leno_model::discovery::Subject;
use leno_model::mesh::Mesh;
use leno_wire::facts::node_metadata;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use knowledge::{Knowledge, SUBJECTS_MAX};
use session::Session;

use super::connect::ControlPlane;
use super::retry::Retry;
use super::shared::Shared;

/// Questions that wait to be taken up.
pub(super) const QUESTIONS_MAX: usize = 4_096;
/// Largest response that is read.
const RESPONSE_MAX_BYTES: usize = 64 << 20;
/// How long to wait after a lost connection.
const RETRY_MIN: Duration = Duration::from_millis(200);
const RETRY_MAX: Duration = Duration::from_secs(15);
/// A stream that lasted this long was a good one: the next wait is short again.
const GOOD_STREAM: Duration = Duration::from_secs(30);

/// Keeps workers' meshes complete for what they use.
pub(super) struct Discovery {
    control_plane: ControlPlane,
    node: Node,
    questions: mpsc::Receiver<Subject>,
    knowledge: Knowledge,
}

impl Discovery {
    /// A proxy in `namespace` that asks what comes over `questions`, and, where others call its application, at once which
    /// policies say who may.
    pub(super) fn new(
        control_plane: ControlPlane,
        namespace: &str,
        is_called: bool,
        questions: mpsc::Receiver<Subject>,
    ) -> Self {
        let mut knowledge = Knowledge::new(namespace);
        if is_called {
            knowledge.ask(Subject::Inbound);
        }
        Self { control_plane, node: node(namespace), questions, knowledge }
    }

    /// What is known at the start: nothing, so that everything is asked.
    pub(super) fn mesh(&self) -> Arc<Mesh> {
        Arc::new(self.knowledge.mesh())
    }

    /// Asks and listens for as long as the proxy runs.
    pub(super) async fn run(mut self, shared: &Shared) -> Infallible {
        let mut retry = Retry::new(RETRY_MIN, RETRY_MAX);
        loop {
            let began = tokio::time::Instant::now();
            let Err(error) = self.stream(shared).await;
            if began.elapsed() >= GOOD_STREAM {
                retry.reset();
            }
            let pause = retry.pause();
            let address = &self.control_plane.address;
            tracing::warn!(%address, retry_s = pause.as_secs_f64(), "no control plane: {error}; what is known holds");
            let _ = timeout(pause, self.note_questions()).await;
        }
    }

    /// Notes what is asked meanwhile.
    async fn note_questions(&mut self) {
        while let Some(subject) = self.questions.recv().await {
            self.ask(subject);
        }
        // Workers have ended.
        sleep(RETRY_MAX).await;
    }

    /// One stream, until it ends.
    async fn stream(&mut self, shared: &Shared) -> Result<Infallible, String> {
        let channel = self.control_plane.connect().await?;
        let mut client = AggregatedDiscoveryServiceClient::new(channel).max_decoding_message_size(RESPONSE_MAX_BYTES);
        let (sender, mut requests) = mpsc::channel::<DeltaDiscoveryRequest>(16);
        let response = client.delta_aggregated_resources(poll_fn(move |cx| requests.poll_recv(cx)));
        let mut responses = response.await.map_err(|status| status.message().to_owned())?.into_inner();
        tracing::info!(address = %self.control_plane.address, "connected to the control plane");
        let mut session = Session::new(self.node.clone());
        loop {
            for request in session.requests(&self.knowledge) {
                sender.send(request).await.map_err(|_| "the stream has ended".to_owned())?;
            }
            tokio::select! {
                Some(subject) = self.questions.recv() => {
                    self.ask(subject);
                    // Questions that were asked together go out together.
                    while let Ok(subject) = self.questions.try_recv() {
                        self.ask(subject);
                    }
                }
                response = responses.message() => {
                    let response = response.map_err(|status| status.message().to_owned())?;
                    let response = response.ok_or("the control plane has ended the stream")?;
                    let answer = session.respond(&response, &mut self.knowledge);
                    sender.send(answer).await.map_err(|_| "the stream has ended".to_owned())?;
                    shared.take_mesh(Arc::new(self.knowledge.mesh()));
                }
            }
        }
    }

    fn ask(&mut self, subject: Subject) {
        if !self.knowledge.ask(subject) {
            tracing::warn!("{SUBJECTS_MAX} names and addresses have been asked for: no more are");
        }
    }
}

/// Who we say we are; with a certificate that counts instead.
fn node(namespace: &str) -> Node {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    Node {
        id: host,
        user_agent_name: "leno-proxy".to_owned(),
        user_agent_version_type: Some(UserAgentVersionType::UserAgentVersion(env!("CARGO_PKG_VERSION").to_owned())),
        metadata: Some(node_metadata(namespace)),
        ..Default::default()
    }
}
