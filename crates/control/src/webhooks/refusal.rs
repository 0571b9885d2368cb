//! Answers to requests that cannot be reviewed: an HTTP status and the reason. An API server then applies the webhook's
//! `failurePolicy`.

use hyper::StatusCode;
use hyper::header::{ALLOW, CONNECTION, HeaderValue};
use leno_accept::Overload;
use leno_admin::answer::{Answer, text};
use leno_install::webhook::BadReview;

use super::namespaces::NoNamespace;
use super::serve::{REQUEST_MAX, REVIEW_MAX_BYTES};
use super::weight::WEIGHT_MAX_BYTES;

/// The reason why a request is rejected. The error's message names the remedy.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error("there is no such webhook; there are /inject and /validate")]
    Path,
    #[error("webhooks take POST")]
    Method,
    #[error("send the review as application/json")]
    ContentType,
    #[error("send reviews of at most {REVIEW_MAX_BYTES} bytes")]
    TooLarge,
    #[error("the review would take over {} MiB once parsed, which no object needs; send smaller objects", WEIGHT_MAX_BYTES >> 20)]
    TooHeavy,
    #[error("the review ended too early ({0}); send all of it")]
    CutOff(String),
    #[error("the review took more than {} s; ask again", REQUEST_MAX.as_secs())]
    TooSlow,
    #[error("the review waits behind too many others: {0}")]
    Busy(Overload),
    #[error("the review was incomplete when a newer large review needed its place; ask again")]
    Replaced,
    #[error(transparent)]
    Review(#[from] BadReview),
    #[error(transparent)]
    Namespace(#[from] NoNamespace),
}

impl Refusal {
    /// The HTTP status: 4xx if the client is at fault, 5xx if the server is.
    fn status(&self) -> StatusCode {
        match self {
            Self::Path => StatusCode::NOT_FOUND,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::ContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooLarge | Self::TooHeavy | Self::Review(BadReview::TooManyValues) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::CutOff(_) | Self::Review(_) | Self::Namespace(NoNamespace::Name(_)) => StatusCode::BAD_REQUEST,
            Self::TooSlow
            | Self::Busy(_)
            | Self::Replaced
            | Self::Namespace(NoNamespace::Api { .. } | NoNamespace::Busy(_)) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    pub(super) fn answer(&self) -> Answer {
        let mut answer = text(self.status(), format!("{self}\n"));
        // A 4xx answer closes the connection: only clients that send valid reviews may keep a connection open.
        if answer.status().is_client_error() {
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if matches!(self, Self::Method) {
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
        }
        answer
    }
}
