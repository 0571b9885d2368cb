//! The gRPC service that workloads get their certificates from.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::stream::{self, Stream};
use k8s_openapi::api::authentication::v1::TokenReview;
use kube::Api;
use leno_identity::authority::SignError;
use leno_identity::issuer;
use leno_model::spiffe::SpiffeId;
use leno_wire::identity::v1::identity_server::Identity;
use leno_wire::identity::v1::{CertifyRequest, CertifyResponse, Trust, WatchTrustRequest};
use tokio::sync::{Semaphore, watch};
use tonic::{Request, Response, Status};

use super::signing::Signing;
use super::token::{self, BadToken};

/// Most questions about tokens that the API server is asked at once. More requests than that are told to come back.
const REVIEWS_MAX: usize = 64;

/// Answers workloads.
pub(super) struct Service {
    signing: watch::Receiver<Arc<Signing>>,
    reviews: Api<TokenReview>,
    places: Semaphore,
}

impl Service {
    pub(super) fn new(client: kube::Client, signing: watch::Receiver<Arc<Signing>>) -> Self {
        Self { signing, reviews: Api::all(client), places: Semaphore::new(REVIEWS_MAX) }
    }
}

#[tonic::async_trait]
impl Identity for Service {
    async fn certify(&self, request: Request<CertifyRequest>) -> Result<Response<CertifyResponse>, Status> {
        let CertifyRequest { csr, token } = request.into_inner();
        if token.is_empty() {
            return Err(Status::unauthenticated("there is no token; send that of the workload's ServiceAccount"));
        }
        let workload = {
            let _place = self.places.try_acquire().map_err(|_| {
                Status::resource_exhausted(format!("{REVIEWS_MAX} tokens are being looked at; try again in a moment"))
            })?;
            token::review(&self.reviews, token).await.map_err(|error| refused(&error))?
        };
        let signing = self.signing.borrow().clone();
        let id = SpiffeId { trust_domain: signing.trust_domain().clone(), workload };
        let chain = signing.certify(&id, &csr).map_err(|error| not_signed(&error))?;
        tracing::info!(%id, "an SVID was issued");
        Ok(Response::new(CertifyResponse {
            chain: chain.into_iter().map(|certificate| certificate.to_vec()).collect(),
            trust: Some(trust(signing.trust())),
        }))
    }

    type WatchTrustStream = Pin<Box<dyn Stream<Item = Result<Trust, Status>> + Send>>;

    async fn watch_trust(&self, _: Request<WatchTrustRequest>) -> Result<Response<Self::WatchTrustStream>, Status> {
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

fn refused(error: &BadToken) -> Status {
    tracing::info!(%error, "no SVID was issued");
    match error {
        BadToken::Unreachable(_) => Status::unavailable(error.to_string()),
        BadToken::Refused(_) | BadToken::WrongAudience | BadToken::NoServiceAccount(_) => {
            Status::unauthenticated(error.to_string())
        }
    }
}

fn not_signed(error: &SignError) -> Status {
    tracing::info!(%error, "no SVID was issued");
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
