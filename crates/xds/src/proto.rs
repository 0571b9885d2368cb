//! Conversions to and from small protobuf messages.

use std::net::SocketAddr;
use std::time;

use prost::{Message, Name};

use crate::pb::{Any, Duration, UInt32Value, core};

pub(crate) fn any<M: Message + Name>(message: &M) -> Any {
    Any { type_url: M::type_url(), value: message.encode_to_vec() }
}

/// Decodes the message in an Any, if it has this type and is well-formed.
pub(crate) fn from_any<M: Message + Name + Default>(any: &Any) -> Option<M> {
    (any.type_url == M::type_url()).then(|| M::decode(any.value.as_slice()).ok()).flatten()
}

pub(crate) fn duration(duration: time::Duration) -> Duration {
    let seconds = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    // `subsec_nanos` is below 1,000,000,000, so the cast loses nothing.
    Duration { seconds, nanos: duration.subsec_nanos().cast_signed() }
}

pub(crate) fn from_duration(duration: &Duration) -> Option<time::Duration> {
    let (seconds, nanos) = (u64::try_from(duration.seconds).ok()?, u32::try_from(duration.nanos).ok()?);
    (nanos < 1_000_000_000).then(|| time::Duration::new(seconds, nanos))
}

pub(crate) fn uint32(value: u32) -> UInt32Value {
    UInt32Value { value }
}

pub(crate) fn address(address: SocketAddr) -> core::Address {
    let socket = core::SocketAddress {
        address: address.ip().to_string(),
        port_specifier: Some(core::socket_address::PortSpecifier::PortValue(address.port().into())),
        ..Default::default()
    };
    core::Address { address: Some(core::address::Address::SocketAddress(socket)) }
}

pub(crate) fn from_address(address: &core::Address) -> Option<SocketAddr> {
    let Some(core::address::Address::SocketAddress(socket)) = &address.address else {
        return None;
    };
    let Some(core::socket_address::PortSpecifier::PortValue(port)) = socket.port_specifier else {
        return None;
    };
    Some(SocketAddr::new(socket.address.parse().ok()?, u16::try_from(port).ok()?))
}

/// Returns the source from which a client gets a resource that another resource refers to: the same ADS stream.
pub(crate) fn ads() -> core::ConfigSource {
    core::ConfigSource {
        resource_api_version: core::ApiVersion::V3.into(),
        config_source_specifier: Some(core::config_source::ConfigSourceSpecifier::Ads(
            core::AggregatedConfigSource::default(),
        )),
        ..Default::default()
    }
}
