//! Finds out when the certificate that a client has presented expires or is no longer trusted, so that its connection
//! can be closed.
//!
//! An xDS stream may stay open for days, longer than its client's certificate is valid. Without this check, a client
//! would keep its access after its certificate has expired. It would also keep its access after its trust anchor was
//! removed, for example because a key was stolen.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use leno_identity::{TlsIdentity, peer_expiry};
use rustls::pki_types::CertificateDer;
use tokio::sync::watch;
use tokio::time::sleep;

/// Maximum time between two checks whether the certificate has expired. A single timer until the expiry would be wrong
/// if the clock is set or the machine sleeps.
const CHECK: Duration = Duration::from_secs(60);

/// A future that completes, with the reason, when a client is no longer trusted.
pub(super) type Distrust = Pin<Box<dyn Future<Output = rustls::Error> + Send>>;

/// Waits until the client's certificate expires, or until the trust anchors of our current identity no longer verify
/// `chain`. `trusting` is our identity at the time of the handshake, which accepted the chain.
pub(super) async fn distrusted(
    chain: Vec<CertificateDer<'static>>,
    mut trusting: Arc<TlsIdentity>,
    mut identities: watch::Receiver<Arc<TlsIdentity>>,
) -> rustls::Error {
    let mut expiry = peer_expiry(&chain, SystemTime::now());
    loop {
        let (now, current) = (SystemTime::now(), identities.borrow_and_update().clone());
        let may_have_expired = expiry.is_none_or(|expiry| now >= expiry);
        if may_have_expired || !current.trusts_all_anchors_of(&trusting) {
            if let Err(error) = current.verify_again(&chain, now) {
                return error;
            }
            expiry = peer_expiry(&chain, now);
        }
        trusting = current;
        let left = expiry.map_or(CHECK, |expiry| expiry.duration_since(now).unwrap_or_default());
        tokio::select! {
            // Add a second: a certificate is valid up to and including its last second.
            () = sleep(left.min(CHECK) + Duration::from_secs(1)) => {}
            Ok(()) = identities.changed() => {}
        }
    }
}
