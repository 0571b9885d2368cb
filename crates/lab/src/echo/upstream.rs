//! The further services that an echo server calls before it answers a unary call.

use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use futures_util::future::try_join_all;
use http::Uri;
use tonic::metadata::MetadataMap;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

use super::MAX_MESSAGE_BYTES;
use super::proto::EchoRequest;
use super::proto::echo_client::EchoClient;
use crate::error::{Error, Result};

/// Longest time for a call of a further service.
const CALL_MAX: Duration = Duration::from_secs(5);
/// Longest time to establish a connection.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// Header fields that ask a caller not to retry. A server sends them, and so does a proxy whose retries are used up.
const PUSHBACK: [&str; 2] = ["grpc-retry-pushback-ms", "leno-not-retried"];

/// The header fields of a trace (W3C Trace Context), which an application copies from the requests that it receives to
/// the requests that it sends.
const TRACE: [&str; 2] = ["traceparent", "tracestate"];

/// A further service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upstream {
    /// Address to connect to.
    pub address: SocketAddr,
    /// The `:authority` of the calls.
    pub authority: String,
}

impl FromStr for Upstream {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (address, authority) = text.split_once('/').unwrap_or((text, text));
        let parsed = address.parse().map_err(|_| format!("{address} is no address; write 127.0.0.1:50061"))?;
        let is_authority = authority.parse::<http::uri::Authority>().is_ok();
        if !is_authority {
            return Err(format!("{authority:?} is no authority; write 127.0.0.1:50061/echo.default:50051"));
        }
        Ok(Self { address: parsed, authority: authority.to_owned() })
    }
}

/// Clients of further services, each with one connection, which opens with the first call and reopens after a loss.
#[derive(Debug, Clone, Default)]
pub(super) struct Upstreams {
    clients: Vec<(String, EchoClient<Channel>)>,
    /// Whether to copy the header fields [`PUSHBACK`] from a failed upstream call into our own error status.
    forward_pushback: bool,
}

impl Upstreams {
    /// Creates a client for each service. Must be called within a Tokio runtime.
    ///
    /// # Errors
    /// If an authority is invalid.
    pub(super) fn new(upstreams: &[Upstream], forward_pushback: bool) -> Result<Self> {
        let client = |upstream: &Upstream| -> Result<_> {
            let Upstream { address, authority } = upstream;
            let invalid = |why: String| Error::Usage(format!("--upstream {address}/{authority}: {why}"));
            let origin = Uri::builder().scheme("http").authority(authority.as_str()).path_and_query("/").build();
            let origin = origin.map_err(|error| invalid(error.to_string()))?;
            let endpoint = Endpoint::from_shared(format!("http://{address}"));
            let endpoint = endpoint.map_err(|error| invalid(error.to_string()))?;
            let channel = endpoint.origin(origin).connect_timeout(CONNECT_MAX).tcp_nodelay(true).connect_lazy();
            Ok((authority.clone(), EchoClient::new(channel).max_decoding_message_size(MAX_MESSAGE_BYTES)))
        };
        Ok(Self { clients: upstreams.iter().map(client).collect::<Result<_>>()?, forward_pushback })
    }

    /// Calls all services at the same time, with this payload, and waits for all answers. The calls belong to the trace
    /// of the request whose header fields are `fields`.
    ///
    /// # Errors
    /// The status of the first call that fails. Its message names the service.
    pub(super) async fn call_all(&self, fields: &MetadataMap, payload: &[u8]) -> std::result::Result<(), Status> {
        let call = |(authority, client): &(String, EchoClient<Channel>)| {
            let (authority, mut client) = (authority.clone(), client.clone());
            let mut request = Request::new(EchoRequest { payload: payload.to_vec(), ..EchoRequest::default() });
            *request.metadata_mut() = only(&TRACE, fields);
            request.set_timeout(CALL_MAX);
            async move {
                let failed = |status: Status| {
                    let forwarded: &[&str] = if self.forward_pushback { &PUSHBACK } else { &[] };
                    let message = format!("{authority}: {}", status.message());
                    Status::with_metadata(status.code(), message, only(forwarded, status.metadata()))
                };
                client.unary(request).await.map(|_| ()).map_err(failed)
            }
        };
        try_join_all(self.clients.iter().map(call)).await.map(|_| ())
    }
}

/// Returns the header fields that have these names.
fn only(names: &[&'static str], fields: &MetadataMap) -> MetadataMap {
    let mut only = MetadataMap::new();
    for (name, value) in names.iter().filter_map(|name| Some((*name, fields.get(*name)?.clone()))) {
        only.insert(name, value);
    }
    only
}

#[cfg(test)]
#[path = "upstream_tests.rs"]
mod tests;
