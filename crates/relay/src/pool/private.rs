//! Private: connections to HTTP/1 servers that authenticate a connection, and not each request (NTLM, Negotiate).
//!
//! After such an authentication, every request on the connection has the rights of the client that has authenticated
//! itself. So the connection belongs to one connection of a client until either of the two ends:
//!
//! - It takes only the calls of this client.
//! - All further calls of this client to the cluster go on it. Without this rule, no client could authenticate itself,
//!   because NTLM takes several requests on the same connection.
//!
//! A client of HTTP/2 may forward the calls of many clients. For such a client, the connection carries no further call.

use leno_http2::FieldSection;
use leno_http2::fields::Known;

use crate::Relay;
use crate::call::CallId;
use crate::downstream::client::ClientId;
use crate::link::codec::Codec;
use crate::pool::hop::{Hop, Protocol};
use crate::pool::upstream::UpstreamId;

/// The schemes that authenticate a connection (RFC 4559 section 6).
const SCHEMES: [&[u8]; 2] = [b"NTLM", b"Negotiate"];

/// Returns whether a request has credentials that may authenticate its connection.
#[inline]
pub(crate) fn has_credentials(request: &FieldSection) -> bool {
    (request.contains(Known::Authorization) || request.contains(Known::ProxyAuthorization))
        && values(request, [Known::Authorization, Known::ProxyAuthorization]).any(begins_with_scheme)
}

/// Returns whether a response has a challenge that may authenticate its connection.
fn has_challenge(response: &FieldSection) -> bool {
    let values = values(response, [Known::WwwAuthenticate, Known::ProxyAuthenticate]);
    // A comma may also separate the parameters of a challenge. If a parameter looks like a scheme, the connection is
    // private without need, which does no harm.
    values.flat_map(|value| value.split(|&byte| byte == b',')).any(begins_with_scheme)
}

fn values(fields: &FieldSection, names: [Known; 2]) -> impl Iterator<Item = &[u8]> {
    fields.iter().filter(move |line| names.contains(&line.known)).map(|line| line.value)
}

fn begins_with_scheme(text: &[u8]) -> bool {
    let scheme = text.trim_ascii_start().split(u8::is_ascii_whitespace).next().unwrap_or_default();
    SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known))
}

impl Relay {
    /// Makes the connection of a response private if the response asks for credentials, or confirms credentials, that
    /// authenticate the connection.
    #[cold]
    pub(crate) fn note_challenge(&mut self, id: UpstreamId, call: CallId, fields: &FieldSection) {
        if has_challenge(fields) {
            let client = self.calls.get(call).and_then(|call| call.client);
            self.make_private(id, client);
        }
    }

    /// Lets an HTTP/1 connection to a server carry only calls of this client from now on.
    #[cold]
    pub(crate) fn make_private(&mut self, id: UpstreamId, client_id: Option<ClientId>) {
        let Some(upstream) = self.pools.upstream(id) else { return };
        if upstream.key.hop != Hop::Plain(Protocol::Http1) || (upstream.owner.is_some() && upstream.owner == client_id)
        {
            return;
        }
        let client = self.downstreams.get_mut(client_id).filter(|client| matches!(client.link.codec, Codec::Http1(_)));
        let Some(client) = client else { return self.retire(id) };
        let former = client.private_upstream;
        let is_in_use =
            |former: UpstreamId| self.pools.upstream(former).is_some_and(|former| former.link.codec.stream_count() > 0);
        if former.is_some_and(is_in_use) {
            // The call has another attempt, on the client's own connection.
            return self.retire(id);
        }
        client.private_upstream = Some(id);
        if let Some(former) = former {
            self.retire(former);
        }
        if let Some(upstream) = self.pools.upstream_mut(id) {
            upstream.owner = client_id;
        }
        self.pools.note_room(id);
    }
}

#[cfg(test)]
#[path = "private_tests.rs"]
mod tests;
