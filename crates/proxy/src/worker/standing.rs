//! Standing: the best certificate that each workload has shown from each address.
//!
//! A proxy shows its certificate when it connects and never again on that connection. So a connection may outlive the
//! certificate that opened it, although its workload has a new one: the workload's later connections show that. A key that
//! was stolen gains nothing from it, since the address counts too.

use std::net::IpAddr;
use std::time::SystemTime;

use rustc_hash::FxHashMap;
use rustls::pki_types::CertificateDer;

use super::places::Member;

/// Workloads and addresses that are remembered; about 1 kB each. Connections of a further one end with the certificate that
/// they showed.
const MAX_SHOWN: usize = 2_048;

/// What peers have shown.
#[derive(Debug, Default)]
pub(super) struct Standing {
    shown: FxHashMap<(Member, IpAddr), Shown>,
}

#[derive(Debug)]
struct Shown {
    expiry: SystemTime,
    chain: Box<[CertificateDer<'static>]>,
}

impl Standing {
    /// A handshake with these certificates, good until `expiry`, was accepted.
    pub(super) fn note(
        &mut self,
        member: Member,
        address: IpAddr,
        (expiry, now): (SystemTime, SystemTime),
        chain: &[CertificateDer<'static>],
    ) {
        let key = (member, address);
        if let Some(known) = self.shown.get_mut(&key) {
            // Of equal dates the later one may have a newer anchor.
            if known.expiry <= expiry && *known.chain != *chain {
                *known = Shown { expiry, chain: chain.into() };
            }
            return;
        }
        if self.shown.len() >= MAX_SHOWN {
            self.shown.retain(|_, shown| shown.expiry > now);
        }
        if self.shown.len() < MAX_SHOWN {
            self.shown.insert(key, Shown { expiry, chain: chain.into() });
        }
    }

    /// Until when the best certificate of a workload at an address is good, if that is after `then` and it passes `verify`.
    pub(super) fn expiry_of(
        &self,
        member: Member,
        address: IpAddr,
        then: SystemTime,
        verify: impl FnOnce(&[CertificateDer<'static>]) -> bool,
    ) -> Option<SystemTime> {
        let shown = self.shown.get(&(member, address)).filter(|shown| shown.expiry > then)?;
        verify(&shown.chain).then_some(shown.expiry)
    }
}

#[cfg(test)]
#[path = "standing_tests.rs"]
mod tests;
