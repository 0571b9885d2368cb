//! POST /explain: predicts the result of a call from the state of one worker.

use std::time::Duration;

use hyper::body::Incoming;
use hyper::{Request, StatusCode};
use leno_admin::answer::{Answer, body, json, text};
use leno_model::explain::CallQuestion;
use leno_relay::explain::answer::Outcome;
use tokio::time::{Instant, sleep, timeout_at};

use super::shared::Shared;

/// Longest wait for the control plane's answers that the explanation of the call needs.
const DISCOVERY_MAX: Duration = Duration::from_secs(2);
/// Time between two questions to the worker while the control plane has not answered.
const EVERY: Duration = Duration::from_millis(50);

/// Explains a call. The request's body is a [`CallQuestion`] in JSON.
pub(super) async fn answer(request: Request<Incoming>, shared: &Shared) -> Answer {
    let question = match body(request, "question").await {
        Ok(json) => serde_json::from_slice::<CallQuestion>(&json),
        Err(answer) => return answer,
    };
    let refused = |why: String| text(StatusCode::BAD_REQUEST, format!("the question is not understood: {why}\n"));
    let question = match question {
        Ok(question) => question,
        Err(error) => return refused(error.to_string()),
    };
    if let Err(error) = question.check() {
        return refused(error.to_string());
    }
    // The workers have the same mesh but different balancers, so any worker may answer.
    let Some(worker) = shared.workers.first() else {
        return text(StatusCode::SERVICE_UNAVAILABLE, "no worker runs; the log says why\n");
    };
    let latest = Instant::now() + DISCOVERY_MAX;
    loop {
        match timeout_at(latest + EVERY, worker.explain_call(question.clone())).await {
            Ok(Ok(Ok(answer))) if matches!(answer.outcome, Outcome::Unknown { .. }) && Instant::now() < latest => {
                sleep(EVERY).await;
            }
            Ok(Ok(Ok(answer))) => return json(&answer),
            Ok(Ok(Err(error))) => return refused(error.to_string()),
            Ok(Err(_)) | Err(_) => {
                return text(StatusCode::SERVICE_UNAVAILABLE, "the worker did not answer in time; ask again\n");
            }
        }
    }
}
