//! Trust: how long a connection may stay open with the certificate that its peer has shown.
//!
//! A client's connection ends when the certificate that it showed expires or is no longer trusted. A connection to a
//! server gets no new calls from shortly before the server's certificate expires; its running calls go on. Exception:
//! the connection stays in use if the same workload has since shown a better certificate on another connection from or
//! to the same address (`standing`).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use leno_identity::TlsIdentity;
use leno_model::spiffe::SpiffeId;
use leno_relay::failure::ConnectionFailure;
use leno_relay::{ClientId, LinkId, UpstreamId};

use super::Worker;
use super::standing::Standing;
use super::tls::Tls;
use super::wire::{Carries, WireId};

/// Time for a peer whose certificate is no longer trusted to show a better certificate on a new connection.
const REPLACEMENT_TIME: Duration = Duration::from_millis(800);

/// The workload at the other end of a wire.
#[derive(Debug)]
pub(super) struct Peer {
    /// The identity that the peer has proved or, if the peer is a server, must prove.
    id: SpiffeId,
    address: IpAddr,
    is_proved: bool,
    /// The times at which the connection must be replaced and end because of the peer's certificate; `None` before a
    /// server has shown its certificate, and after `check_stay` has retired the connection to the server.
    stay: Option<Stay>,
    /// When the worker found that no current trust anchor verifies the peer's certificate; `None` while an anchor
    /// verifies it.
    distrusted_since: Option<Instant>,
    /// Whether the handshake began with a trust bundle that has been replaced since.
    pub(super) is_outdated: bool,
}

impl Peer {
    /// Returns the peer of a connection to a server, which must prove this identity.
    pub(super) fn server(id: SpiffeId, address: IpAddr) -> Self {
        Self { id, address, is_proved: false, stay: None, distrusted_since: None, is_outdated: false }
    }

    /// Returns the peer of a connection from a client, which has proved its identity.
    pub(super) fn client(id: SpiffeId, address: IpAddr) -> Self {
        Self { is_proved: true, ..Self::server(id, address) }
    }

    /// Verifies the identity of a server once, after the handshake. Returns `None` before the handshake is complete,
    /// and after the first verification.
    pub(super) fn check_server(&mut self, tls: Option<&Tls>) -> Option<Result<(), ConnectionFailure>> {
        let tls = tls.filter(|tls| !self.is_proved && tls.is_established())?;
        self.is_proved = true;
        Some(match id_shown(Some(tls)) {
            Ok(Some(found)) if found == self.id => Ok(()),
            Ok(Some(found)) => Err(ConnectionFailure::WrongIdentity { found, expected: self.id.clone() }),
            // Does not occur: a server cannot complete the handshake without a certificate.
            Ok(None) => Err(ConnectionFailure::HandshakeCut),
            Err(failure) => Err(*failure),
        })
    }

    /// Records the certificate that a client has shown. The connection may stay open until the certificate expires.
    pub(super) fn note_client(&mut self, tls: Option<&Tls>, standing: &Standing) {
        let now = SystemTime::now();
        self.stay = self.note_shown(tls, standing, now).map(|expiry| Stay::of_client(expiry, now));
    }

    /// Records the certificate that a server has shown. The connection may get calls until shortly before the
    /// certificate expires.
    pub(super) fn note_server(&mut self, tls: Option<&Tls>, standing: &Standing) {
        let now = SystemTime::now();
        self.stay = self.note_shown(tls, standing, now).map(|expiry| Stay::of_server(expiry, now));
    }

    /// Records the certificate that the peer has shown, so that the peer's connections with an older certificate may
    /// stay open. Returns when the certificate expires.
    fn note_shown(&self, tls: Option<&Tls>, standing: &Standing, now: SystemTime) -> Option<SystemTime> {
        let chain = tls.map(Tls::peer_certificates).unwrap_or_default();
        let expiry = leno_identity::peer_expiry(chain, now)?;
        if expiry > now {
            standing.note(&self.id, self.address, (expiry, now), chain);
        }
        Some(expiry)
    }
}

/// Returns the SPIFFE ID in a peer's certificate; `None` if the peer has shown no certificate.
pub(super) fn id_shown(tls: Option<&Tls>) -> Result<Option<SpiffeId>, Box<ConnectionFailure>> {
    let certificates = tls.map(Tls::peer_certificates).unwrap_or_default();
    if certificates.is_empty() {
        return Ok(None);
    }
    leno_identity::peer_id(certificates).map(Some).map_err(|error| Box::new(ConnectionFailure::BadPeerId(error)))
}

impl Worker {
    /// Uses a new identity from now on: for new connections, and to verify the connected peers again.
    pub(super) fn set_identity(&mut self, identity: &Arc<TlsIdentity>) {
        let before = self.identity.replace(identity.clone());
        self.relay.set_own(&identity.id);
        let Some(before) = before else { return };
        if identity.trusts_all_anchors_of(&before) {
            self.recheck.forget_verdicts();
        } else {
            self.standing.anchors_removed();
            let is_proved = |id: &WireId| {
                let peer = self.wires.get(*id).and_then(|wire| wire.peer.as_ref());
                peer.is_some_and(|peer| peer.is_proved)
            };
            let ids: Vec<_> = self.wires.iter().map(|(id, _)| id).filter(is_proved).collect();
            self.recheck.begin(ids.into_iter());
            // Handshakes in progress still verify with the old trust bundle, so mark their peers: verify them again
            // afterwards.
            for (_, arrival) in self.arrivals.iter_mut() {
                arrival.is_outdated = self.wires.get(arrival.wire).is_some_and(|wire| wire.tls.is_some());
            }
            for peer in self.wires.iter_mut().filter_map(|(_, wire)| wire.peer.as_mut()) {
                peer.is_outdated = !peer.is_proved;
            }
        }
        if identity.not_after != before.not_after {
            self.relay.show_new_certificate();
        }
    }

    /// Verifies peers' certificates again after a trust anchor was removed, at the pace of [`super::recheck`].
    pub(super) fn recheck_peers(&mut self) {
        let Some(end) = self.recheck.begin_slice(self.relay.now()) else { return };
        while let Some(id) = self.recheck.next(end) {
            match self.wires.get(id).and_then(|wire| wire.carries) {
                Some(Carries::Link(LinkId::Client(client))) => self.recheck_client(id, client),
                Some(Carries::Link(LinkId::Endpoint(upstream))) => self.recheck_endpoint(id, upstream),
                Some(Carries::Arrival(_)) | None => {}
            }
        }
    }

    /// Verifies a client's certificate again. If the certificate is no longer trusted, asks the client to open another
    /// connection, and closes this connection after [`REPLACEMENT_TIME`]. So a client with a new certificate loses no
    /// call.
    fn recheck_client(&mut self, wire: WireId, client: ClientId) {
        let verdict = self.verify_again(wire);
        let Some(peer) = self.wires.get_mut(wire).and_then(|wire| wire.peer.as_mut()) else { return };
        let Some((error, good_until)) = verdict else {
            peer.distrusted_since = None;
            return;
        };
        if let Some(expiry) = good_until {
            peer.distrusted_since = None;
            peer.stay = Some(Stay::of_client(expiry, SystemTime::now()));
            return;
        }
        let since = *peer.distrusted_since.get_or_insert(self.relay.now());
        if self.relay.now() - since >= REPLACEMENT_TIME {
            return self.relay.withdraw(client, ConnectionFailure::NoLongerTrusted(error));
        }
        self.relay.shut_down_client(client);
        self.recheck.defer(wire);
    }

    /// Verifies a server's certificate again. If the certificate is no longer trusted, this connection gets no new
    /// calls. If the same workload has shown a better certificate on another connection, the current calls go on.
    /// Otherwise the proxy opens another connection. If the server shows no better certificate within
    /// [`REPLACEMENT_TIME`], the proxy fails the current calls.
    fn recheck_endpoint(&mut self, wire: WireId, upstream: UpstreamId) {
        let verdict = self.verify_again(wire);
        let Some(peer) = self.wires.get_mut(wire).and_then(|wire| wire.peer.as_mut()) else { return };
        let Some((error, good_until)) = verdict else {
            peer.distrusted_since = None;
            return;
        };
        if good_until.is_some() {
            peer.distrusted_since = None;
            return self.relay.retire(upstream);
        }
        let is_news = peer.distrusted_since.is_none();
        let since = *peer.distrusted_since.get_or_insert(self.relay.now());
        if self.relay.now() - since >= REPLACEMENT_TIME {
            return self.relay.end_upstream(upstream, &ConnectionFailure::NoLongerTrusted(error));
        }
        if is_news {
            self.relay.replace(upstream);
        } else {
            self.relay.retire(upstream);
        }
        self.recheck.defer(wire);
    }

    /// Verifies again the certificate that a peer has shown. If no current anchor verifies the certificate, returns the
    /// reason. If the same workload has shown a better certificate, also returns when that certificate expires.
    fn verify_again(&mut self, wire: WireId) -> Option<(rustls::Error, Option<SystemTime>)> {
        let wire = self.wires.get(wire)?;
        let (identity, peer, tls) = (self.identity.as_ref()?, wire.peer.as_ref()?, wire.tls.as_ref()?);
        let now = SystemTime::now();
        let mut verdict = |chain: &[_]| self.recheck.verdict(chain, |chain| identity.verify_again(chain, now));
        let error = verdict(tls.peer_certificates()).err()?;
        let is_good = |chain: &[_]| verdict(chain).is_ok();
        Some((error, self.standing.expiry_of(&peer.id, peer.address, now, is_good)))
    }

    /// Checks the expiry of certificates, for the connections whose turn it is in this sweep. Announces the end of a
    /// client's connection before the client's certificate expires, and ends the connection when it expires. Retires a
    /// connection to a server before the server's certificate expires: the next call opens another connection, whose
    /// handshake fails if the server has no valid certificate.
    pub(super) fn check_stays(&mut self) {
        let now = SystemTime::now();
        let is_due = |peer: &Peer| peer.stay.is_some_and(|stay| stay.notice <= now);
        let due = self
            .wires
            .iter()
            .filter(|(id, wire)| self.relay.is_in_turn(id.place()) && wire.peer.as_deref().is_some_and(is_due));
        for id in due.map(|(id, _)| id).collect::<Vec<_>>() {
            self.check_stay(id, now);
        }
    }

    fn check_stay(&mut self, id: WireId, now: SystemTime) {
        let Some(wire) = self.wires.get_mut(id) else { return };
        let Some(Carries::Link(link)) = wire.carries else { return };
        let Some((peer, stay)) = wire.peer.as_mut().and_then(|peer| peer.stay.map(|stay| (peer, stay))) else { return };
        if self.relay.is_closing(link) {
            return;
        }
        let is_good = |chain: &[_]| self.identity.as_ref().is_some_and(|own| own.verify_again(chain, now).is_ok());
        let later = self.standing.expiry_of(&peer.id, peer.address, stay.expiry, is_good);
        match (link, later) {
            (LinkId::Client(_), Some(later)) => peer.stay = Some(Stay::of_client(later, now)),
            (LinkId::Client(client), None) if now >= stay.expiry => {
                self.relay.withdraw(client, ConnectionFailure::Expired);
            }
            (LinkId::Client(client), None) => self.relay.shut_down_client(client),
            (LinkId::Endpoint(_), Some(later)) => peer.stay = Some(Stay::of_server(later, now)),
            (LinkId::Endpoint(upstream), None) => {
                peer.stay = None;
                self.relay.retire(upstream);
            }
        }
    }
}

/// How long a connection may stay in use with its peer's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stay {
    /// From this time on, the connection gets no new calls. The proxy asks a client to open another connection.
    notice: SystemTime,
    expiry: SystemTime,
}

impl Stay {
    /// Longest time between `notice` and `expiry` for a client. For a certificate that expires in less than ten
    /// minutes, this time is a tenth of the remaining time.
    const MAX_NOTICE_OF_CLIENT: Duration = Duration::from_secs(60);

    fn of_client(expiry: SystemTime, now: SystemTime) -> Self {
        Self { notice: expiry - tenth_of_rest(expiry, now).min(Self::MAX_NOTICE_OF_CLIENT), expiry }
    }

    /// Gives notice when a tenth of the remaining time is left. So the clients of a server do not all open another
    /// connection in the same moment: connections opened a minute apart are replaced 6 seconds apart. A server renews
    /// its certificate when at least a sixth of the certificate's lifetime is left, so the new connection usually shows
    /// a new certificate.
    fn of_server(expiry: SystemTime, now: SystemTime) -> Self {
        Self { notice: expiry - tenth_of_rest(expiry, now), expiry }
    }
}

fn tenth_of_rest(expiry: SystemTime, now: SystemTime) -> Duration {
    expiry.duration_since(now).unwrap_or_default() / 10
}

#[cfg(test)]
#[path = "trust_tests.rs"]
mod tests;
