//! Standing: the best certificate that each workload has shown from each address.
//!
//! A proxy shows its certificate when it connects and never again on that connection. So a connection may outlive the
//! certificate that opened it, although its workload has a new one: the workload's later connections show that. A key that
//! was stolen gains nothing from it, since the address counts too.
//!
//! All workers share one `Standing`, because the kernel may give a workload's next connection to any of them. A worker takes
//! the lock once for each handshake, and when it looks at the dates or the anchor of a connection; never for a call.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use leno_model::spiffe::SpiffeId;
use rustc_hash::FxHashMap;
use rustls::pki_types::CertificateDer;

/// Workloads and addresses that are remembered; about 1 kB each. Connections of a further one end with the certificate that
/// they showed.
const MAX_SHOWN: usize = 2_048;

/// What peers have shown to all workers.
#[derive(Debug, Default)]
pub struct Standing {
    /// Its key is random: nobody can choose a SPIFFE id whose digest is that of another one.
    digest: RandomState,
    shown: Mutex<FxHashMap<(u64, IpAddr), Shown>>,
}

#[derive(Debug)]
struct Shown {
    expiry: SystemTime,
    chain: Arc<[CertificateDer<'static>]>,
}

impl Standing {
    /// A handshake with these certificates, good until `expiry`, was accepted.
    pub(super) fn note(
        &self,
        id: &SpiffeId,
        address: IpAddr,
        (expiry, now): (SystemTime, SystemTime),
        chain: &[CertificateDer<'static>],
    ) {
        let key = (self.digest.hash_one(id), address);
        let mut shown = self.lock();
        if let Some(known) = shown.get_mut(&key) {
            // Of equal dates the later one may have a newer anchor.
            if known.expiry <= expiry && *known.chain != *chain {
                *known = Shown { expiry, chain: chain.into() };
            }
            return;
        }
        if shown.len() >= MAX_SHOWN {
            shown.retain(|_, shown| shown.expiry > now);
        }
        if shown.len() < MAX_SHOWN {
            shown.insert(key, Shown { expiry, chain: chain.into() });
        }
    }

    /// Until when the best certificate of a workload at an address is good, if that is after `then` and it passes `verify`.
    pub(super) fn expiry_of(
        &self,
        id: &SpiffeId,
        address: IpAddr,
        then: SystemTime,
        verify: impl FnOnce(&[CertificateDer<'static>]) -> bool,
    ) -> Option<SystemTime> {
        let key = (self.digest.hash_one(id), address);
        // Verifying takes long: the other workers do not wait for it.
        let (expiry, chain) = {
            let shown = self.lock();
            let shown = shown.get(&key).filter(|shown| shown.expiry > then)?;
            (shown.expiry, shown.chain.clone())
        };
        verify(&chain).then_some(expiry)
    }

    /// Each change leaves the map whole, so that a worker that panicked with the lock spoils nothing.
    fn lock(&self) -> MutexGuard<'_, FxHashMap<(u64, IpAddr), Shown>> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "standing_tests.rs"]
mod tests;
