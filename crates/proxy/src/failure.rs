//! Stand-in.
#![allow(missing_docs)]
#[derive(Debug, thiserror::Error)]
pub enum ConnectionFailure {
    #[error("{0}")]
    Handshake(String),
    #[error("no ALPN")]
    NoAlpn,
    #[error("plaintext in tunnel")]
    PlaintextInTunnel,
    #[error("no identity")]
    NoIdentity,
    #[error("timeout")]
    HandshakeTimeout,
    #[error("{0}")]
    BadPeerId(leno_identity::PeerIdError),
}
impl ConnectionFailure {
    pub fn handshake(error: &rustls::Error) -> Self {
        Self::Handshake(leno_identity::explain(error))
    }
    pub fn bad_peer_id(error: leno_identity::PeerIdError) -> Self {
        Self::BadPeerId(error)
    }
}
