//! The identity service of the control plane: it signs the certificates of the proxies.

use linkerd2_proxy_api::identity::identity_server::Identity;
use linkerd2_proxy_api::identity::{CertifyRequest, CertifyResponse};
use tonic::{Request, Response, Status};

use crate::tls::Authority;

pub(super) struct Service {
    authority: Authority,
    token: String,
}

impl Service {
    pub(super) fn new(authority: Authority, token: String) -> Self {
        Self { authority, token }
    }
}

#[tonic::async_trait]
impl Identity for Service {
    async fn certify(&self, request: Request<CertifyRequest>) -> Result<Response<CertifyResponse>, Status> {
        let CertifyRequest { identity, token, certificate_signing_request } = request.into_inner();
        if token != self.token.as_bytes() {
            return Err(Status::permission_denied(format!("the token of {identity} is not the token of this run")));
        }
        let signed = self
            .authority
            .sign(&certificate_signing_request, &identity)
            .map_err(|error| Status::invalid_argument(error.to_string()))?;
        Ok(Response::new(CertifyResponse {
            leaf_certificate: signed.certificate.to_vec(),
            // The authority signs with the key of the trust anchor itself, without an intermediate certificate, as in
            // all meshes of the lab.
            intermediate_certificates: Vec::new(),
            valid_until: Some(signed.expires.into()),
        }))
    }
}

#[cfg(test)]
#[path = "identity_tests.rs"]
mod tests;
