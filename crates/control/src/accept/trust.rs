//! How long a connection may stay open with the certificate that its client has shown.
//!
//! An xDS stream may stay open for days, longer than its client's certificate is valid. Without this limit, a client
//! would keep its access after its certificate has expired, or after its trust anchor was removed, for example because
//! a key was stolen.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use leno_identity::{TlsIdentity, peer_expiry};
use rustls::pki_types::CertificateDer;
use tokio::sync::watch;
use tokio::time::sleep;

/// Longest time between two comparisons of the certificate's dates with the clock. One long timer would be wrong:
/// clocks may be set, and machines sleep.
const CHECK: Duration = Duration::from_secs(60);

/// Completes with the reason when a client is no longer trusted.
pub(super) type Distrust = Pin<Box<dyn Future<Output = rustls::Error> + Send>>;

/// Waits until the certificate of `chain` expires or our current identity no longer trusts the chain. `trusting` is the
/// identity that accepted the chain.
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
            // A certificate is valid up to and including its last second.
            () = sleep(left.min(CHECK) + Duration::from_secs(1)) => {}
            Ok(()) = identities.changed() => {}
        }
    }
}
