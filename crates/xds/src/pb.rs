//! Short names for the protobuf types of this crate.

pub(crate) use envoy_types::pb::envoy::config::{
    cluster::v3 as cluster, core::v3 as core, endpoint::v3 as endpoint, listener::v3 as listener, rbac::v3 as rbac,
    route::v3 as route,
};
pub(crate) use envoy_types::pb::envoy::extensions::filters::http::rbac::v3::Rbac as RbacFilter;
pub(crate) use envoy_types::pb::envoy::extensions::filters::http::router::v3::Router;
pub(crate) use envoy_types::pb::envoy::extensions::filters::listener::http_inspector::v3::HttpInspector;
pub(crate) use envoy_types::pb::envoy::extensions::filters::listener::tls_inspector::v3::TlsInspector;
pub(crate) use envoy_types::pb::envoy::extensions::filters::network::{
    http_connection_manager::v3 as http, tcp_proxy::v3 as tcp,
};
pub(crate) use envoy_types::pb::envoy::extensions::load_balancing_policies::{
    least_request::v3::LeastRequest, round_robin::v3::RoundRobin, wrr_locality::v3::WrrLocality,
};
pub(crate) use envoy_types::pb::envoy::extensions::retry::host::previous_hosts::v3::PreviousHostsPredicate;
pub(crate) use envoy_types::pb::envoy::extensions::transport_sockets::{raw_buffer::v3::RawBuffer, tls::v3 as tls};
pub(crate) use envoy_types::pb::envoy::extensions::upstreams::http::v3 as upstream;
pub(crate) use envoy_types::pb::envoy::r#type::matcher::v3 as matcher;
pub(crate) use envoy_types::pb::envoy::r#type::v3 as types;
pub(crate) use envoy_types::pb::google::protobuf::{Any, BoolValue, Duration, Struct, UInt32Value, Value, value};
