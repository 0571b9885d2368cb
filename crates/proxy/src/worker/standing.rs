//! Standing: the best certificate that each workload has shown from each address. The best certificate is the
//! certificate that expires last. After the removal of a trust anchor, the next certificate that the workload shows
//! replaces the recorded certificate, even if it expires earlier.
//!
//! A proxy shows its certificate when it connects, and never again on that connection. So the certificate of an open
//! connection may expire although the workload has a newer certificate, which it shows on later connections. Such a
//! connection may stay open. An attacker with a stolen key gains nothing from this rule, because the newer certificate
//! must come from the same address as the connection.
//!
//! All workers share one `Standing`, because the kernel may give a workload's next connection to any of them. A worker
//! takes the lock once for each handshake, and when it checks the expiry or the anchor of a connection's certificate;
//! never for a call.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use leno_model::spiffe::SpiffeId;
use rustc_hash::FxHashMap;
use rustls::pki_types::CertificateDer;

use super::tls::chain_bytes;

/// Maximum memory for the remembered certificates of all workers together: enough for some 2,000 workloads with one
/// address each and chains of usual length, and for 250 with the longest chains. A peer chooses the length of its
/// chain, but no handshake accepts a chain of more than 16 KiB. When the memory is full, certificates of the identity
/// with the largest share are forgotten. Some connections of that identity then end when the certificates that they
/// showed expire.
const MAX_SHOWN_BYTES: usize = 4 << 20;
/// When the memory is full, certificates are forgotten until at most this number of bytes remains, so that not every
/// handshake has to forget certificates.
const KEPT_BYTES: usize = MAX_SHOWN_BYTES / 8 * 7;
/// Memory of a workload at an address in addition to its chain, in bytes.
const ENTRY_BYTES: usize = 256;

/// The certificates that peers have shown to all workers.
#[derive(Debug, Default)]
pub struct Standing {
    /// Makes digests of SPIFFE ids. Its key is random, so no client can choose an id with the digest of another id.
    digest: RandomState,
    shown: Mutex<Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    by_peer: FxHashMap<(u64, IpAddr), Shown>,
    /// Counts the removals of trust anchors: the number of times that a worker got a trust bundle without some of the
    /// previous anchors.
    trust: u64,
    /// The sum of [`Shown::bytes`].
    bytes: usize,
}

#[derive(Debug)]
struct Shown {
    expiry: SystemTime,
    /// The value of [`Memory::trust`] at the time of the handshake.
    trust: u64,
    chain: Arc<[CertificateDer<'static>]>,
}

impl Standing {
    /// Records the certificates of an accepted handshake, which are valid until `expiry`.
    pub(super) fn note(
        &self,
        id: &SpiffeId,
        address: IpAddr,
        (expiry, now): (SystemTime, SystemTime),
        chain: &[CertificateDer<'static>],
    ) {
        let key = (self.digest.hash_one(id), address);
        let mut memory = self.lock();
        // If both chains expire at the same time, the new chain replaces the known chain, because the new chain may
        // have a newer anchor. A chain from before the latest removal of an anchor may lead to the removed anchor.
        let trust = memory.trust;
        if let Some(known) = memory.by_peer.get_mut(&key) {
            if *known.chain == *chain {
                known.trust = trust;
                return;
            }
            if known.expiry > expiry && known.trust == trust {
                return;
            }
        }
        let new = Shown { expiry, trust, chain: chain.into() };
        memory.forget(key);
        memory.make_room_for(new.bytes(), now);
        memory.bytes += new.bytes();
        memory.by_peer.insert(key, new);
    }

    /// Records that a worker got a trust bundle in which some of the previous anchors are missing.
    pub(super) fn anchors_removed(&self) {
        self.lock().trust += 1;
    }

    /// Returns when the best certificate of a workload at an address expires. `None` if no certificate is known that
    /// expires after `then` and whose chain passes `verify`.
    pub(super) fn expiry_of(
        &self,
        id: &SpiffeId,
        address: IpAddr,
        then: SystemTime,
        verify: impl FnOnce(&[CertificateDer<'static>]) -> bool,
    ) -> Option<SystemTime> {
        let key = (self.digest.hash_one(id), address);
        // Release the lock before the verification, which takes long, so that the other workers do not wait.
        let (expiry, chain) = {
            let memory = self.lock();
            let shown = memory.by_peer.get(&key).filter(|shown| shown.expiry > then)?;
            (shown.expiry, shown.chain.clone())
        };
        verify(&chain).then_some(expiry)
    }

    /// Takes the lock, even if a worker has panicked while it held the lock: each change leaves the map consistent.
    fn lock(&self) -> MutexGuard<'_, Memory> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory {
    /// If there is no room, forgets the expired certificates. If this is not enough, forgets certificates of the
    /// identity that takes the most memory, beginning with the certificate that expires first.
    fn make_room_for(&mut self, bytes: usize, now: SystemTime) {
        if self.bytes + bytes <= MAX_SHOWN_BYTES {
            return;
        }
        self.by_peer.retain(|_, shown| shown.expiry > now);
        self.bytes = self.by_peer.values().map(Shown::bytes).sum();
        while self.bytes > KEPT_BYTES {
            let mut totals: FxHashMap<u64, usize> = FxHashMap::default();
            for ((id, _), shown) in &self.by_peer {
                *totals.entry(*id).or_default() += shown.bytes();
            }
            let Some((largest, total)) = totals.into_iter().max_by_key(|(_, bytes)| *bytes) else { return };
            let of_largest = self.by_peer.iter().filter(|((id, _), _)| *id == largest);
            let mut of_largest: Vec<_> = of_largest.map(|(key, shown)| (shown.expiry, *key)).collect();
            of_largest.sort_unstable();
            // Forget at most half of the identity's certificates. After that, another identity may take the most
            // memory.
            let least = KEPT_BYTES.max(self.bytes - total.div_ceil(2));
            for (_, key) in of_largest {
                if self.bytes <= least {
                    break;
                }
                self.forget(key);
            }
        }
    }

    fn forget(&mut self, key: (u64, IpAddr)) {
        let forgotten = self.by_peer.remove(&key);
        self.bytes -= forgotten.map_or(0, |shown| shown.bytes());
    }
}

impl Shown {
    fn bytes(&self) -> usize {
        ENTRY_BYTES + chain_bytes(&self.chain)
    }
}

#[cfg(test)]
#[path = "standing_tests.rs"]
mod tests;
