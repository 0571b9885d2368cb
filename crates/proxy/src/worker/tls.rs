//! TLS of one connection: rustls without its own buffers. Records are decrypted in the worker's read buffer and
//! encrypted into its write buffer, so that an idle connection holds little more than its keys.

use std::fmt;
use std::sync::Arc;

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedConnectionCommon, UnbufferedStatus};
use rustls::{ClientConfig, ServerConfig};

/// Maximum number of plaintext bytes that are encrypted at once: three full records.
pub const SEAL_BYTES: usize = 3 * 16_384;
/// Maximum number of bytes that encryption adds to [`SEAL_BYTES`]: header, content type and tag of each record.
const SEAL_OVERHEAD_BYTES: usize = 4 * 64;
/// Maximum size of an incomplete record or handshake message, in bytes: enough for a chain of a few certificates.
pub const MAX_PARTIAL_BYTES: usize = 32_768;
/// Suffix of the server names (SNI) that proxies of this mesh use with each other; the target's port precedes it.
pub const SERVER_NAME_SUFFIX: &str = ".leno.internal";

/// Returns the size of a chain's certificates in bytes.
pub(super) fn chain_bytes(chain: &[CertificateDer<'static>]) -> usize {
    chain.iter().map(|certificate| certificate.len()).sum()
}

/// A connection's TLS.
pub struct Tls {
    role: Role,
    /// The beginning of a record that is incomplete.
    partial: Vec<u8>,
    /// Encrypted bytes that were not written to the socket yet.
    pending: Vec<u8>,
    pending_start: usize,
    /// Whether the peer has sent close_notify.
    ended: bool,
    /// Whether an error has ended the connection: nothing more is decrypted or encrypted.
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
    /// Starts TLS as the client. Sends the application's port, `target_port`, in the server name (SNI): netfilter does
    /// not redirect the connection, so the peer has no other way to learn the port.
    ///
    /// # Errors
    /// An error of rustls; none is expected.
    pub fn connect(config: &Arc<ClientConfig>, target_port: u16) -> Result<Self, rustls::Error> {
        let name = format!("{target_port}{SERVER_NAME_SUFFIX}");
        let name = ServerName::try_from(name).map_err(|error| rustls::Error::General(error.to_string()))?;
        Ok(Self::new(Role::Client(UnbufferedClientConnection::new(config.clone(), name)?)))
    }

    /// Starts TLS as the server.
    ///
    /// # Errors
    /// An error of rustls; none is expected.
    pub fn accept(config: &Arc<ServerConfig>) -> Result<Self, rustls::Error> {
        Ok(Self::new(Role::Server(UnbufferedServerConnection::new(config.clone())?)))
    }

    fn new(role: Role) -> Self {
        Self { role, partial: Vec::new(), pending: Vec::new(), pending_start: 0, ended: false, failed: false }
    }

    /// Returns the memory in bytes of incomplete records, of output that was not written yet, and of the peer's
    /// certificates, whose size the peer chooses.
    pub(super) fn held_bytes(&self) -> usize {
        self.partial.capacity() + self.pending.capacity() + chain_bytes(self.peer_certificates())
    }

    /// Returns whether the handshake is complete. Then rustls has verified the certificates that the peer has shown.
    pub fn is_established(&self) -> bool {
        match &self.role {
            Role::Client(client) => !client.is_handshaking(),
            Role::Server(server) => !server.is_handshaking(),
        }
    }

    /// Returns the peer's certificate chain; the peer's own certificate comes first. The chain is empty before the peer
    /// has sent it, or if the peer has no certificate.
    pub fn peer_certificates(&self) -> &[CertificateDer<'static>] {
        match &self.role {
            Role::Client(client) => client.peer_certificates(),
            Role::Server(server) => server.peer_certificates(),
        }
        .unwrap_or_default()
    }

    /// Whether both sides have agreed on HTTP/2 by ALPN (RFC 7301).
    pub fn is_http2(&self) -> bool {
        let protocol = match &self.role {
            Role::Client(client) => client.alpn_protocol(),
            Role::Server(server) => server.alpn_protocol(),
        };
        protocol == Some(b"h2")
    }

    /// Returns whether the peer has sent close_notify.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Moves the incomplete record to the beginning of `raw`, and returns the record's length. The next bytes from the
    /// socket must be placed directly after the record.
    pub fn lend_partial(&mut self, raw: &mut [u8]) -> usize {
        let partial = std::mem::take(&mut self.partial);
        match raw.get_mut(..partial.len()) {
            Some(place) => place.copy_from_slice(&partial),
            // A partial record is shorter than any read buffer.
            None => return 0,
        }
        partial.len()
    }

    /// Decrypts the records in `raw`, and appends their content to `plain`. Keeps an incomplete record at the end.
    ///
    /// # Errors
    /// The peer violated TLS, or one side does not trust the other's certificate. The output then contains the alert.
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

    /// Returns the bytes to write to the socket.
    pub fn pending(&self) -> &[u8] {
        self.pending.get(self.pending_start..).unwrap_or_default()
    }

    /// Records that `n` bytes were written to the socket.
    pub fn advance(&mut self, n: usize) {
        self.pending_start += n;
        if self.pending_start >= self.pending.len() {
            self.pending = Vec::new();
            self.pending_start = 0;
        }
    }

    /// Keeps encrypted bytes that the socket did not accept.
    pub fn keep(&mut self, sealed: &[u8]) {
        self.pending.extend_from_slice(sealed);
    }

    /// Encrypts `plain`, at most [`SEAL_BYTES`], into `sealed`. Returns the length of the result: 0 during the
    /// handshake, or while [`Tls::pending`] must be written first.
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

/// The state of decrypting records.
struct Opening<'a> {
    plain: &'a mut Vec<u8>,
    pending: &'a mut Vec<u8>,
    /// Number of bytes of the input that were processed.
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

    /// Moves the alert of a failed connection into `pending`. Passes no input to rustls, because the failed input must
    /// not be processed again.
    fn take_alert<Data>(&mut self, tls: &mut UnbufferedConnectionCommon<Data>, process: Process<Data>) {
        while tls.wants_write() {
            match process(tls, &mut []).state {
                Ok(ConnectionState::EncodeTlsData(mut data)) => append(self.pending, |place| data.encode(place)),
                _ => return,
            }
        }
    }
}

/// Appends the output of `encode`. If `encode` has too little room, its error contains the required size.
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

/// The state of encrypting content.
struct Sealing<'a> {
    partial: &'a mut Vec<u8>,
    pending: &'a mut Vec<u8>,
    plain: &'a [u8],
    sealed: &'a mut [u8],
}

impl Sealing<'_> {
    fn run<Data>(&mut self, tls: &mut UnbufferedConnectionCommon<Data>, process: Process<Data>) -> usize {
        loop {
            // rustls keeps offsets into the input of an incomplete handshake message, so it must get the same input
            // again.
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
