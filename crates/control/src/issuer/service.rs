//! The gRPC service that issues certificates to workloads.
//!
//! Any client in the cluster can send a token. We read the token's claims first, so that obviously invalid tokens do
//! not reach the API server. The number of concurrent reviews at the API server is limited. When tokens wait for a
//! review, the client accounts take turns ([`leno_accept::Queue`]).

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use futures_util::stream::{self, Stream};
use k8s_openapi::api::authentication::v1::TokenReview;
use kube::Api;
use leno_accept::{Overload, Queue, Source};
use leno_identity::authority::SignError;
use leno_identity::issuer;
use leno_identity::upkeep::ISSUE_TIMEOUT;
use leno_model::spiffe::SpiffeId;
use leno_model::spiffe::Workload;
use leno_xds::identity::v1::identity_server::Identity;
use leno_xds::identity::v1::{CertifyRequest, CertifyResponse, Trust, WatchTrustRequest};
use tokio::sync::watch;
use tokio::time::timeout;
use tonic::{Request, Response, Status};

use super::issuers::Issuers;
use super::signing::Signing;
use super::token::{self, BadToken};
use crate::accept::{Peer, Presence};

/// Limit on concurrent TokenReviews at the API server.
const REVIEWS_MAX: usize = 64;
/// Limit on tokens that wait for a review. `intake` counts the memory of a token as part of its request.
const REVIEWS_WAITING_MAX: usize = 512;
/// Longest time from the arrival of a request to the API server's answer, the wait for a turn included. A proxy repeats
/// a failed request.
const REVIEW_MAX: Duration = Duration::from_secs(7);
/// Time for a proxy to connect, and for our answer to reach the proxy.
const EXCHANGE_MAX: Duration = Duration::from_secs(3);

// Answer before the proxy gives up. Otherwise the proxy's reset would end a slow review, and neither log would name the
// reason.
const _: () = assert!(REVIEW_MAX.as_millis() + EXCHANGE_MAX.as_millis() <= ISSUE_TIMEOUT.as_millis());

/// A client account. The accounts take turns at the API server's token reviews, so that one client cannot delay all
/// others.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Account {
    Source(Source),
    /// All clients whose tokens name an unknown issuer: an issuer from which the API server has accepted no token yet.
    OtherIssuer,
}

pub(super) struct Service {
    signing: watch::Receiver<Arc<Signing>>,
    reviews: Api<TokenReview>,
    turns: Queue<Account>,
    issuers: Mutex<Issuers>,
}

impl Service {
    pub(super) fn new(client: kube::Client, signing: watch::Receiver<Arc<Signing>>) -> Self {
        Self {
            signing,
            reviews: Api::all(client),
            turns: Queue::new(REVIEWS_MAX, REVIEWS_WAITING_MAX),
            issuers: Mutex::default(),
        }
    }

    /// Asks the API server to which workload the token was issued.
    async fn review(&self, source: Source, token: String) -> Result<Workload, Status> {
        let claims = token::read(&token, SystemTime::now()).map_err(|error| self.refused(&error))?;
        let is_known = self.issuers.lock().unwrap_or_else(PoisonError::into_inner).may_be(&claims.issuer);
        let account = if is_known { Account::Source(source) } else { Account::OtherIssuer };
        let reviewing = async {
            let _permit = self.turns.permit(account).await.map_err(|overload| overloaded(&overload))?;
            token::review(&self.reviews, token).await.map_err(|error| self.refused(&error))
        };
        let workload =
            timeout(REVIEW_MAX, reviewing).await.map_err(|_| self.refused(&BadToken::Slow(REVIEW_MAX)))??;
        self.issuers.lock().unwrap_or_else(PoisonError::into_inner).accepted(claims.issuer);
        Ok(workload)
    }

    fn refused(&self, error: &BadToken) -> Status {
        self.log_refusal(error);
        match error {
            BadToken::Unreachable(_) | BadToken::Slow(_) => Status::unavailable(error.to_string()),
            BadToken::Refused(_) | BadToken::WrongAudience | BadToken::NoServiceAccount(_) => {
                Status::unauthenticated(error.to_string())
            }
        }
    }

    fn not_signed(&self, error: &SignError) -> Status {
        self.log_refusal(error);
        match error {
            SignError::WrongName { .. } | SignError::WrongTrustDomain { .. } => {
                Status::permission_denied(error.to_string())
            }
            SignError::TooLong(_) | SignError::Request(_) | SignError::KeyKind => {
                Status::invalid_argument(error.to_string())
            }
            SignError::Expired | SignError::Crypto(_) => Status::unavailable(error.to_string()),
        }
    }

    fn log_refusal(&self, error: &dyn std::fmt::Display) {
        tracing::info!(%error, "no SVID was issued");
    }
}

#[tonic::async_trait]
impl Identity for Service {
    async fn certify(&self, request: Request<CertifyRequest>) -> Result<Response<CertifyResponse>, Status> {
        let (source, presence) = caller(&request)?;
        let CertifyRequest { csr, token } = request.into_inner();
        if token.is_empty() {
            return Err(Status::unauthenticated("there is no token; send that of the workload's ServiceAccount"));
        }
        let workload = self.review(source, token).await?;
        presence.settle();
        let signing = self.signing.borrow().clone();
        let id = SpiffeId { trust_domain: signing.trust_domain().clone(), workload };
        let chain = signing.certify(&id, &csr).map_err(|error| self.not_signed(&error))?;
        tracing::info!(%id, "an SVID was issued");
        Ok(Response::new(CertifyResponse {
            chain: chain.into_iter().map(|certificate| certificate.to_vec()).collect(),
            trust: Some(trust(signing.trust())),
        }))
    }

    type WatchTrustStream = Pin<Box<dyn Stream<Item = Result<Trust, Status>> + Send>>;

    async fn watch_trust(
        &self,
        request: Request<WatchTrustRequest>,
    ) -> Result<Response<Self::WatchTrustStream>, Status> {
        // Do not call [`Presence::settle`]: it protects a connection from being replaced by a newer one. A client must
        // not gain this protection by a request for the trust bundle, which needs no token.
        caller(&request)?;
        let mut signing = self.signing.clone();
        signing.mark_changed();
        let each = stream::unfold(signing, |mut signing| async {
            signing.changed().await.ok()?;
            let trust = trust(signing.borrow_and_update().trust());
            Some((Ok(trust), signing))
        });
        Ok(Response::new(Box::pin(each)))
    }
}

fn trust(trust: &issuer::Trust) -> Trust {
    let anchors = trust.bundle.anchors().iter().map(|anchor| anchor.to_vec()).collect();
    Trust { anchors, signer: trust.signer.0.clone() }
}

/// Returns the source address of a request, and its connection. Also records that the connection has sent a request.
fn caller<T>(request: &Request<T>) -> Result<(Source, Presence), Status> {
    let peer: &Peer = request.extensions().get().ok_or_else(|| Status::internal("a connection without a peer"))?;
    peer.presence.asked();
    Ok((peer.source(), peer.presence.clone()))
}

fn overloaded(overload: &Overload) -> Status {
    Status::resource_exhausted(overload.to_string())
}

#[cfg(test)]
#[path = "service_tests.rs"]
mod tests;
