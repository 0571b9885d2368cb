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

use super::tls::chain_bytes;

/// Memory for what is remembered, for all workers together: some 2,000 workloads at one address each, whose chains have a
/// usual length. When it is full, the identity that fills most of it makes room, and some of its connections end with the
/// certificates that they showed.
const MAX_SHOWN_BYTES: usize = 4 << 20;
/// How far it is emptied when it is full, so that not every handshake has to empty it.
const KEPT_BYTES: usize = MAX_SHOWN_BYTES / 8 * 7;
/// Longest chain that is remembered. A peer chooses how long its own is.
const MAX_CHAIN_BYTES: usize = 4 << 10;
/// What a workload at an address takes beside its chain.
const ENTRY_BYTES: usize = 256;

/// What peers have shown to all workers.
#[derive(Debug, Default)]
pub struct Standing {
    /// Its key is random: nobody can choose a SPIFFE id whose digest is that of another one.
    digest: RandomState,
    shown: Mutex<Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    by_peer: FxHashMap<(u64, IpAddr), Shown>,
    /// The sum of [`Shown::bytes`].
    bytes: usize,
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
        if chain_bytes(chain) > MAX_CHAIN_BYTES {
            return;
        }
        let mut memory = self.lock();
        // Of equal dates the later one may have a newer anchor.
        if memory.by_peer.get(&key).is_some_and(|known| known.expiry > expiry || *known.chain == *chain) {
            return;
        }
        let new = Shown { expiry, chain: chain.into() };
        memory.forget(key);
        memory.make_room_for(new.bytes(), now);
        memory.bytes += new.bytes();
        memory.by_peer.insert(key, new);
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
            let memory = self.lock();
            let shown = memory.by_peer.get(&key).filter(|shown| shown.expiry > then)?;
            (shown.expiry, shown.chain.clone())
        };
        verify(&chain).then_some(expiry)
    }

    /// Each change leaves the map whole, so that a worker that panicked with the lock spoils nothing.
    fn lock(&self) -> MutexGuard<'_, Memory> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory {
    /// If there is no room, forgets what has expired, and then what expires first of the identities that take most.
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
            // Half of it: then another identity may take most.
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
