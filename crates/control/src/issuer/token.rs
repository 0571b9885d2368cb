//! Asks the API server to which workload a token was issued. A token's own claims only show whether a review by the API
//! server is worthwhile.

use std::time::{Duration, SystemTime};

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus};
use kube::api::{Api, PostParams};
use leno_identity::claims::Claims;
use leno_install::names::TOKEN_AUDIENCE;
use leno_model::spiffe::Workload;

/// The prefix of a ServiceAccount's user name.
const USER_PREFIX: &str = "system:serviceaccount:";

/// The reason why a token does not identify a workload. The error's message names the remedy.
#[derive(Debug, thiserror::Error)]
pub(super) enum BadToken {
    /// The API server rejects the token.
    #[error(
        "the token is not accepted ({0}); send a ServiceAccount token of this cluster for the audience {TOKEN_AUDIENCE}"
    )]
    Refused(String),
    /// The token has another audience.
    #[error("the token is not for the audience {TOKEN_AUDIENCE}; project one with that audience into the Pod")]
    WrongAudience,
    /// The token's user is a person or a node, not a ServiceAccount.
    #[error("the token is that of {0:?}, which is no ServiceAccount; send a token of the workload's ServiceAccount")]
    NoServiceAccount(String),
    /// The API server does not answer.
    #[error("the API server did not review the token: {0}")]
    Unreachable(#[from] kube::Error),
    /// The API server takes too long.
    #[error("the API server did not review the token within {} s; try again", .0.as_secs())]
    Slow(Duration),
}

/// Reads a token's own claims. Only the API server can verify them.
///
/// # Errors
/// [`BadToken::Refused`], [`BadToken::WrongAudience`] or [`BadToken::NoServiceAccount`] if the claims alone show that
/// the API server or [`review`] would reject the token.
pub(super) fn read(token: &str, now: SystemTime) -> Result<Claims, BadToken> {
    let claims = Claims::read(token).map_err(|error| BadToken::Refused(error.to_string()))?;
    if !claims.audiences.iter().any(|audience| audience == TOKEN_AUDIENCE) {
        return Err(BadToken::WrongAudience);
    }
    if claims.is_expired(now) {
        return Err(BadToken::Refused("it has expired".to_owned()));
    }
    if !claims.subject.starts_with(USER_PREFIX) {
        return Err(BadToken::NoServiceAccount(shown(&claims.subject)));
    }
    Ok(claims)
}

/// Asks the API server, and returns the workload to which the token was issued.
pub(super) async fn review(reviews: &Api<TokenReview>, token: String) -> Result<Workload, BadToken> {
    let spec = TokenReviewSpec { token, audiences: Some(vec![TOKEN_AUDIENCE.to_owned()]) };
    let review = TokenReview { spec, ..TokenReview::default() };
    let answer = reviews.create(&PostParams::default(), &review).await?;
    workload(answer.status.unwrap_or_default())
}

/// Reads the API server's answer.
fn workload(status: TokenReviewStatus) -> Result<Workload, BadToken> {
    if status.authenticated != Some(true) {
        return Err(BadToken::Refused(shown(&status.error.unwrap_or_else(|| "it is not valid".to_owned()))));
    }
    // An API server that does not support audiences returns none. It has then not checked the token's audience, so
    // reject the token.
    if !status.audiences.unwrap_or_default().iter().any(|audience| audience == TOKEN_AUDIENCE) {
        return Err(BadToken::WrongAudience);
    }
    let user = status.user.and_then(|user| user.username).unwrap_or_default();
    let names = user.strip_prefix(USER_PREFIX).and_then(|names| names.split_once(':'));
    let workload = names.and_then(|(namespace, name)| format!("ns/{namespace}/sa/{name}").parse().ok());
    workload.ok_or_else(|| BadToken::NoServiceAccount(shown(&user)))
}

/// Shortens a text from outside for an error message.
fn shown(text: &str) -> String {
    const SHOWN_MAX_CHARS: usize = 200;
    text.chars().take(SHOWN_MAX_CHARS).collect()
}

#[cfg(test)]
#[path = "token_tests.rs"]
mod tests;
