//! TLS of one connection (rustls, without buffers of its own): records are opened in the worker's read buffer and sealed
//! into its write buffer, so that an idle connection holds its keys and nothing else.

use std::fmt;
use std::sync::Arc;

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedConnectionCommon, UnbufferedStatus};
use rustls::{ClientConfig, ServerConfig};

/// Plaintext that is sealed at once: three full records.
pub const SEAL_BYTES: usize = 3 * 16_384;
/// What sealing adds to that at most: header, content type and tag of each record.
const SEAL_OVERHEAD_BYTES: usize = 4 * 64;
/// What may have come of a record or a handshake message without its end: a chain of a few certificates.
pub const MAX_PARTIAL_BYTES: usize = 32_768;
/// The names that proxies of this mesh call each other by (SNI), after the target's port.
pub const SERVER_NAME_SUFFIX: &str = ".leno.internal";

/// The bytes of a chain's certificates.
pub(super) fn chain_bytes(chain: &[CertificateDer<'static>]) -> usize {
    chain.iter().map(|certificate| certificate.len()).sum()
}

/// A connection's TLS.
pub struct Tls {
    role: Role,
    /// The front of a record whose rest has not come.
    partial: Vec<u8>,
    /// Sealed bytes that the socket has not taken.
    pending: Vec<u8>,
    pending_start: usize,
    /// The peer has said that it sends nothing more.
    ended: bool,
    /// An error has ended it: nothing more is opened or sealed.
    failed: bool,
}

enum Role {
    Client(UnbufferedClientConnection),
    Server(UnbufferedServerConnection),
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = match self.role {
            Role::Client(_) => "client",
            Role::Server(_) => "server",
        };
        f.debug_struct("Tls").field("role", &role).field("is_established", &self.is_established()).finish()
    }
}

impl Tls {
    /// We connect; `target_port` is what the connection is for, at a peer that nothing redirects to.
    ///
    /// # Errors
    /// rustls's own; none is expected.
    pub fn connect(config: &Arc<ClientConfig>, target_port: u16) -> Result<Self, rustls::Error> {
        let name = format!("{target_port}{SERVER_NAME_SUFFIX}");
        let name = ServerName::try_from(name).map_err(|error| rustls::Error::General(error.to_string()))?;
        Ok(Self::new(Role::Client(UnbufferedClientConnection::new(config.clone(), name)?)))
    }

    /// A peer has connected.
    ///
    /// # Errors
    /// rustls's own; none is expected.
    pub fn accept(config: &Arc<ServerConfig>) -> Result<Self, rustls::Error> {
        Ok(Self::new(Role::Server(UnbufferedServerConnection::new(config.clone())?)))
    }

    fn new(role: Role) -> Self {
        Self { role, partial: Vec::new(), pending: Vec::new(), pending_start: 0, ended: false, failed: false }
    }

    /// Bytes of records that have not come whole or that the socket has not taken, and of the certificates that the peer has
    /// shown: it chooses how long they are.
    pub(super) fn held_bytes(&self) -> usize {
        self.partial.capacity() + self.pending.capacity() + chain_bytes(self.peer_certificates())
    }

    /// Whether both sides have proved who they are.
    pub fn is_established(&self) -> bool {
        match &self.role {
            Role::Client(client) => !client.is_handshaking(),
            Role::Server(server) => !server.is_handshaking(),
        }
    }

    /// The peer's certificates, its own first; none before they have come, or if it has none.
    pub fn peer_certificates(&self) -> &[CertificateDer<'static>] {
        match &self.role {
            Role::Client(client) => client.peer_certificates(),
            Role::Server(server) => server.peer_certificates(),
        }
        .unwrap_or_default()
    }

    /// Whether the protocol inside is HTTP/2 (RFC 7301).
    pub fn is_http2(&self) -> bool {
        let protocol = match &self.role {
            Role::Client(client) => client.alpn_protocol(),
            Role::Server(server) => server.alpn_protocol(),
        };
        protocol == Some(b"h2")
    }

    /// Whether the peer has said its last word (close_notify).
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Where the bytes that are read next go: behind what has come of a record.
    pub fn lend_partial(&mut self, raw: &mut [u8]) -> usize {
        let partial = std::mem::take(&mut self.partial);
        match raw.get_mut(..partial.len()) {
            Some(place) => place.copy_from_slice(&partial),
            // A partial record is shorter than any read buffer.
            None => return 0,
        }
        partial.len()
    }

    /// Opens the records in `raw` and appends their content to `plain`. What has come of the next record is kept.
    ///
    /// # Errors
    /// The peer broke TLS, or one side does not trust the other; an alert waits in the output.
    pub fn open(&mut self, raw: &mut [u8], plain: &mut Vec<u8>) -> Result<(), rustls::Error> {
        if self.failed {
            return Err(rustls::Error::General("it has failed before".to_owned()));
        }
        let mut opening = Opening { plain, pending: &mut self.pending, used: 0, ended: false };
        let opened = match &mut self.role {
            Role::Client(client) => opening.run(&mut *client, raw, process_client),
            Role::Server(server) => opening.run(&mut *server, raw, process_server),
        };
        let used = opening.used;
        self.ended |= opening.ended;
        self.failed = opened.is_err();
        opened?;
        self.partial = raw.get(used..).unwrap_or_default().to_vec();
        if self.partial.len() > MAX_PARTIAL_BYTES {
            return Err(rustls::Error::General(format!("a handshake message of more than {MAX_PARTIAL_BYTES} bytes")));
        }
        Ok(())
    }

    /// Bytes that wait for the socket.
    pub fn pending(&self) -> &[u8] {
        self.pending.get(self.pending_start..).unwrap_or_default()
    }

    /// The socket has taken `n` bytes.
    pub fn advance(&mut self, n: usize) {
        self.pending_start += n;
        if self.pending_start >= self.pending.len() {
            self.pending = Vec::new();
            self.pending_start = 0;
        }
    }

    /// Keeps sealed bytes that the socket did not take.
    pub fn keep(&mut self, sealed: &[u8]) {
        self.pending.extend_from_slice(sealed);
    }

    /// Seals `plain`, at most [`SEAL_BYTES`], into `sealed`. Returns the length of what is sealed; 0 while the handshake
    /// is under way, or while [`Tls::pending`] must go first.
    pub fn seal(&mut self, plain: &[u8], sealed: &mut Vec<u8>) -> usize {
        if self.failed {
            return 0;
        }
        sealed.resize(SEAL_BYTES + SEAL_OVERHEAD_BYTES, 0);
        let mut sealing = Sealing { partial: &mut self.partial, pending: &mut self.pending, plain, sealed };
        match &mut self.role {
            Role::Client(client) => sealing.run(&mut *client, process_client),
            Role::Server(server) => sealing.run(&mut *server, process_server),
        }
    }
}

type Process<Data> =
    for<'c, 'i> fn(&'c mut UnbufferedConnectionCommon<Data>, &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Data>;

fn process_client<'c, 'i>(
    client: &'c mut UnbufferedConnectionCommon<ClientConnectionData>,
    raw: &'i mut [u8],
) -> UnbufferedStatus<'c, 'i, ClientConnectionData> {
    client.process_tls_records(raw)
}

fn process_server<'c, 'i>(
    server: &'c mut UnbufferedConnectionCommon<ServerConnectionData>,
    raw: &'i mut [u8],
) -> UnbufferedStatus<'c, 'i, ServerConnectionData> {
    server.process_tls_records(raw)
}

/// Records being opened.
struct Opening<'a> {
    plain: &'a mut Vec<u8>,
    pending: &'a mut Vec<u8>,
    /// How much of the input is done with.
    used: usize,
    ended: bool,
}

impl Opening<'_> {
    fn run<Data>(
        &mut self,
        tls: &mut UnbufferedConnectionCommon<Data>,
        raw: &mut [u8],
        process: Process<Data>,
    ) -> Result<(), rustls::Error> {
        loop {
            let UnbufferedStatus { discard, state } = process(tls, raw.get_mut(self.used..).unwrap_or_default());
            match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        self.plain.extend_from_slice(record?.payload);
                    }
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => append(self.pending, |place| data.encode(place)),
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed) => self.ended = true,
                Ok(_) => {
                    self.used += discard;
                    return Ok(());
                }
                Err(error) => {
                    self.take_alert(tls, process);
                    return Err(error);
                }
            }
            self.used += discard;
        }
    }

    /// What is to be said after an error. Input must not be looked at again, so this asks only while something waits.
    fn take_alert<Data>(&mut self, tls: &mut UnbufferedConnectionCommon<Data>, process: Process<Data>) {
        while tls.wants_write() {
            match process(tls, &mut []).state {
                Ok(ConnectionState::EncodeTlsData(mut data)) => append(self.pending, |place| data.encode(place)),
                _ => return,
            }
        }
    }
}

/// Appends what `encode` writes, which says how much room it needs when there is too little.
fn append(out: &mut Vec<u8>, mut encode: impl FnMut(&mut [u8]) -> Result<usize, EncodeError>) {
    let start = out.len();
    let written = match encode(&mut []) {
        Err(EncodeError::InsufficientSize(needed)) => {
            out.resize(start + needed.required_size, 0);
            encode(out.get_mut(start..).unwrap_or_default()).unwrap_or(0)
        }
        _ => 0,
    };
    out.truncate(start + written);
}

/// Content being sealed.
struct Sealing<'a> {
    partial: &'a mut Vec<u8>,
    pending: &'a mut Vec<u8>,
    plain: &'a [u8],
    sealed: &'a mut [u8],
}

impl Sealing<'_> {
    fn run<Data>(&mut self, tls: &mut UnbufferedConnectionCommon<Data>, process: Process<Data>) -> usize {
        loop {
            // Of a handshake message that has come in part rustls keeps places in its input: it must be there again.
            let UnbufferedStatus { discard, state } = process(tls, self.partial);
            let length = match state {
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    append(self.pending, |place| data.encode(place));
                    None
                }
                Ok(ConnectionState::TransmitTlsData(data)) => {
                    data.done();
                    None
                }
                Ok(ConnectionState::WriteTraffic(mut traffic)) if self.pending.is_empty() => {
                    Some(traffic.encrypt(self.plain, self.sealed).unwrap_or(0))
                }
                _ => Some(0),
            };
            self.partial.drain(..discard.min(self.partial.len()));
            if let Some(length) = length {
                return length;
            }
        }
    }
}

#[cfg(test)]
#[path = "tls_tests.rs"]
mod tests;
