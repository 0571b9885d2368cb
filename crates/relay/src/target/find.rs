//! Find: finds the destination of a call, by the original destination of the connection or by the call's authority.
//! Also finds the protocol of the application that made the call.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use leno_http1::carries_http;
use leno_http2::fields::{FieldLine, Known, PreparedField};
use leno_http2::{FieldSection, syntax};
use leno_model::discovery::Subject;
use leno_model::mesh::{Cluster, canonical};
use leno_model::spiffe::SpiffeId;

use crate::Relay;
use crate::call::CallId;
use crate::call::reply::ProxyError;
use crate::certain::Certain;
use crate::downstream::client::{Client, ClientId, LatestTarget};
use crate::downstream::origin::Door;
use crate::drain::tap_ends;
use crate::link::codec::Codec;
use crate::metrics::Direction;
use crate::pool::hop::Protocol;
use crate::target::cluster::{ClusterId, TargetKey};

impl Relay {
    /// Finds the cluster of a call: by its connection's destination if that is known, otherwise by the request's
    /// authority.
    pub(crate) fn find_cluster(&mut self, client: ClientId, id: CallId) -> Result<Routed, ProxyError> {
        let (Some(downstream), Some(call)) = (self.downstreams.get(client), self.calls.get(id)) else {
            return Err(ProxyError::NoRoute("the connection is gone".to_owned()));
        };
        let method = call.request.get(Known::Method).unwrap_or_default();
        match downstream.origin.door {
            Door::Tunnel if method != b"CONNECT" => {
                let what = "a tunnel takes CONNECT requests; send others to the proxy's inbound port";
                return Err(ProxyError::NoRoute(format!("{}: {what}", method.escape_ascii())));
            }
            // The application's bytes would follow unread. Many servers answer CONNECT like any other request, and read
            // further requests from the tunnel: with forged identities, and without a check of the policies.
            Door::Inbound if method == b"CONNECT" && call.protocol != Protocol::Opaque => {
                return Err(ProxyError::NoTunnel);
            }
            _ => {}
        }
        let authority =
            call.request.get(Known::Authority).or_else(|| call.request.get(Known::Host)).unwrap_or_default();
        if let Some(latest) = &downstream.latest_target
            && latest.mesh_version == self.targets.version()
            && latest.authority == authority
        {
            return Ok(Routed::To(latest.cluster));
        }
        let authority = authority.to_vec();
        let cluster = match self.find_target(&Sought::of(downstream), &authority)? {
            Found::Service(cluster) => self.service_state(&cluster),
            Found::Address(target) => self.address_state(target)?,
            Found::Unanswered(subject) => return Ok(Routed::Later(subject)),
        };
        self.note_use(client, &authority);
        let gate = self.downstreams.get(client).and_then(|client| self.gate(client, cluster));
        let Some(downstream) = self.downstreams.get_mut(client).certain() else { return Ok(Routed::To(cluster)) };
        let is_inbound = downstream.origin.door.direction() == Direction::Inbound;
        let tls = is_inbound.then(|| downstream.tls_label());
        let state = self.targets.get_mut(cluster);
        let traffic = tls.zip(state).map(|(tls, state)| state.traffic_place(&self.metrics, tls, None));
        let mesh_version = self.targets.version();
        downstream.latest_target = Some(LatestTarget { authority, mesh_version, cluster, traffic, gate });
        Ok(Routed::To(cluster))
    }

    /// Adds `:authority` to a request without `:authority`: the request's `host` (RFC 9113 section 8.3.1) or, if the
    /// request has no valid `host`, the target's name. Servers of HTTP/1.1 answer 400 to a request without a host, and
    /// some HTTP/2 servers close the connection after many requests without an authority, although other clients' calls
    /// use the connection.
    pub(crate) fn name_host(&mut self, id: CallId, cluster: ClusterId) {
        let Some(call) = self.calls.get_mut(id).filter(|call| !call.request.contains(Known::Authority)) else {
            return;
        };
        let host = call.request.get(Known::Host).filter(|host| syntax::is_authority(host)).map(<[u8]>::to_vec);
        let target = || self.targets.get(cluster).map(|state| state.target.host().into_bytes());
        if let Some(authority) = host.or_else(target) {
            call.request.set(Known::Authority, &authority);
        }
    }

    /// Finds the destination of a call. Changes nothing.
    pub(crate) fn find_target(&self, sought: &Sought, authority: &[u8]) -> Result<Found, ProxyError> {
        let &Sought { door, target, local, is_http2 } = sought;
        let unanswered = match (door, target) {
            (Door::Outbound, Some(address)) => self.targets.mesh().unanswered_address(address),
            (Door::Outbound, None) => self.targets.mesh().unanswered_authority(authority),
            // Allow no caller while the proxy does not know whether policies protect the application.
            (Door::Inbound | Door::Tunnel, _) => self.targets.mesh().unanswered_inbound(),
        };
        if let Some(subject) = unanswered {
            return Ok(Found::Unanswered(subject));
        }
        match (door, target) {
            (Door::Outbound, Some(address)) if self.is_own(address, local) => Err(ProxyError::Loop { target: address }),
            (Door::Outbound, Some(address)) => Ok(match self.targets.mesh().cluster_by_address(address) {
                Some(cluster) if may_be_balanced(cluster, address, is_http2) => Found::Service(cluster.clone()),
                _ => Found::Address(TargetKey::Address(address)),
            }),
            (Door::Outbound, None) => match self.targets.mesh().cluster_by_authority(authority) {
                Ok(cluster) => Ok(Found::Service(cluster.clone())),
                Err(unroutable) => Err(ProxyError::NoRoute(unroutable.to_string())),
            },
            (Door::Inbound, Some(address)) => self.local_target(address, local),
            (Door::Inbound, None) => {
                let what = "this connection was not redirected here, so nothing tells which port it is for";
                Err(ProxyError::NoRoute(format!("{what}; call the application's port")))
            }
            (Door::Tunnel, _) => {
                let target = tunnel_target(authority, local)?;
                if self.settings.http_ports.contains(target.port()) {
                    let what =
                        "this port speaks HTTP only (--http-ports, --tap); send requests to the proxy's inbound port";
                    return Err(ProxyError::NoRoute(format!("CONNECT {target}: {what}")));
                }
                self.local_target(target, local)
            }
        }
    }

    /// Returns a port of our own application as a target. Returns an error if the address is a listener of this proxy,
    /// or a tap port during a drain.
    fn local_target(&self, address: SocketAddr, local: IpAddr) -> Result<Found, ProxyError> {
        if self.is_own(address, local) {
            return Err(ProxyError::Loop { target: address });
        }
        if self.draining.is_some() && self.settings.tap_port == Some(address.port()) {
            return Err(tap_ends());
        }
        Ok(Found::Address(TargetKey::Local(address)))
    }
}

/// The properties of a connection from which the relay finds the destination of its calls.
#[derive(Debug)]
pub(crate) struct Sought {
    pub(crate) door: Door,
    /// The destination of the connection; `None` if only the calls themselves name it.
    pub(crate) target: Option<SocketAddr>,
    /// The address at which the client reached us.
    pub(crate) local: IpAddr,
    pub(crate) is_http2: bool,
}

impl Sought {
    fn of(client: &Client) -> Self {
        let Client { origin, target, .. } = client;
        Self { door: origin.door, target: *target, local: origin.local.ip(), is_http2: client.is_http2() }
    }
}

impl Client {
    fn is_http2(&self) -> bool {
        matches!(self.link.codec, Codec::Http2(_))
    }

    /// Returns whether calls on this connection to `address`, which leads to `cluster`, are balanced over the cluster.
    pub(crate) fn may_be_balanced(&self, cluster: &Cluster, address: SocketAddr) -> bool {
        may_be_balanced(cluster, address, self.is_http2())
    }
}

/// At the own address of a headless Service's endpoint, only calls in HTTP/2 are balanced, as a gRPC client makes them.
/// In other protocols, a client often needs the endpoint that it dialled. For example, Prometheus reads the metrics of
/// each Pod, and the members of a database connect to each other.
fn may_be_balanced(cluster: &Cluster, address: SocketAddr, is_http2: bool) -> bool {
    is_http2 || cluster.has_cluster_ip(address.ip())
}

/// The destination of a call.
pub(crate) enum Found {
    Service(Arc<Cluster>),
    Address(TargetKey),
    /// The destination is unknown until the control plane has answered this question.
    Unanswered(Subject),
}

/// The cluster of a call.
pub(crate) enum Routed {
    To(ClusterId),
    /// The destination is unknown until the control plane has answered this question.
    Later(Subject),
}

/// Parses the destination of a CONNECT request. Its IP address must be the address at which the client reached us,
/// because a tunnel leads only to our own application.
fn tunnel_target(authority: &[u8], local: IpAddr) -> Result<SocketAddr, ProxyError> {
    let refused = |why: &str| ProxyError::NoRoute(format!("CONNECT {}: {why}", authority.escape_ascii()));
    let text = std::str::from_utf8(authority).map_err(|_| refused("not an address and port"))?;
    let address: SocketAddr = text.parse().map_err(|_| refused("not an address and port"))?;
    // This also rejects a loopback address, because a server that listens there serves only its own machine. Exception:
    // a client that reached us at that loopback address may use it.
    if address.ip().to_canonical() == local {
        Ok(canonical(address))
    } else {
        Err(refused("not an address of the workload that this proxy stands before"))
    }
}

/// Returns the protocol of the application that made a request. Removes the fields that only proxies may send to each
/// other.
pub(crate) fn protocol_of(client: &Client, request: &mut FieldSection) -> Protocol {
    let asks_for_tunnel = client.target.is_none() && request.get(Known::Method) == Some(b"CONNECT");
    let protocol = match (&client.link.codec, client.origin.door) {
        (Codec::Opaque(_), _) | (_, Door::Tunnel) => Protocol::Opaque,
        // If a client uses us as an explicit proxy (RFC 9110 section 9.3.6), we relay its bytes without parsing them.
        (_, Door::Outbound) if asks_for_tunnel => Protocol::Opaque,
        (Codec::Http1(_), _) => Protocol::Http1,
        (Codec::Http2(_), Door::Inbound) if client.peer_id.is_some() => Protocol::of_request_from_proxy(request),
        (Codec::Http2(_), _) => Protocol::Http2,
    };
    request.remove(Known::LenoOrigProto);
    // Do not forward an upgrade to a protocol that carries HTTP: after the upgrade, the proxy would not see the calls.
    if protocol == Protocol::Http2 || request.get(Known::LenoUpgrade).is_some_and(asks_for_http) {
        request.remove(Known::LenoUpgrade);
    }
    protocol
}

/// Returns whether a protocol that carries HTTP is among the protocols that an upgrade asks for.
fn asks_for_http(protocols: &[u8]) -> bool {
    protocols.split(|&byte| byte == b',').any(|protocol| carries_http(protocol.trim_ascii()))
}

/// The fields that give the application the identity of a client. The proxy adds them to each of the client's requests.
#[derive(Debug)]
pub(crate) struct IdentityFields {
    id: PreparedField,
    /// `x-forwarded-client-cert`, if it is enabled.
    certificate: Option<PreparedField>,
}

impl IdentityFields {
    /// Creates the fields that tell the workload `own` that its client is `id`.
    pub(crate) fn of(id: &SpiffeId, own: &SpiffeId, with_certificate: bool) -> Self {
        let certificate = || PreparedField::new(Known::XForwardedClientCert, format!("By={own};URI={id}").as_bytes());
        Self {
            id: PreparedField::new(Known::LenoClientId, id.to_string().as_bytes()),
            certificate: with_certificate.then(certificate),
        }
    }
}

/// Returns the name of the field in which the proxy tells its own application, or its own tap port, the identity of a
/// verified client. The proxy removes this field from the requests of other workloads.
pub fn client_id_field() -> &'static str {
    Known::LenoClientId.name()
}

/// Removes from another workload's message the fields that only the application's own proxy may set.
pub(crate) fn strip_identities(fields: &mut FieldSection) {
    for known in [Known::LenoClientId, Known::L5dClientId, Known::XForwardedClientCert] {
        fields.remove(known);
    }
    remove_twins(fields, &[Known::LenoClientId, Known::L5dClientId, Known::XForwardedClientCert].map(Known::name));
}

/// Fields that replace the path or the method of a request in some frameworks. Older versions of Symfony read the first
/// two. Rack, ASP.NET Core and Express read `x-http-method-override`; the last two are names that other frameworks can
/// be configured with.
const OVERRIDES: [&str; 5] =
    ["x-original-url", "x-rewrite-url", "x-http-method-override", "x-http-method", "x-method-override"];

/// Removes the fields with which an application would handle a request as another request than its path and its method
/// say. Call this for a request that is allowed only because of its path and its method.
pub(crate) fn strip_overrides(request: &mut FieldSection) {
    remove_twins(request, &OVERRIDES);
}

/// Returns whether the request has a field that [`strip_overrides`] removes.
pub(crate) fn has_overrides(request: &FieldSection) -> bool {
    request.iter().any(|line| is_twin(line, &OVERRIDES))
}

/// Removes the fields that are twins of `names` ([`is_twin`]).
fn remove_twins(fields: &mut FieldSection, names: &[&str]) {
    let twin = |line: FieldLine<'_>| is_twin(line, names).then(|| line.name.to_vec());
    let mut twins: Vec<_> = fields.iter().filter_map(twin).collect();
    twins.sort_unstable();
    twins.dedup();
    for name in twins {
        fields.remove_named(&name);
    }
}

/// Returns whether the field is not [`Known`], and its name is in `names` or differs from one of these names only by
/// other punctuation in place of `-`. CGI, WSGI and Rack give an application `-` and `_` as the same variable. PHP
/// turns `.` into `_`, too.
fn is_twin(line: FieldLine<'_>, names: &[&str]) -> bool {
    let as_hyphens = |byte: &u8| if byte.is_ascii_alphanumeric() { *byte } else { b'-' };
    let is_same = |name: &&str| name.len() == line.name.len() && line.name.iter().map(as_hyphens).eq(name.bytes());
    line.known == Known::Other && names.iter().any(is_same)
}

/// The change that the proxy makes to `x-forwarded-for` in requests to the application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ForwardedFor {
    /// The field passes unchanged
    #[default]
    Keep,
    /// The client's address is added to the field
    Append,
    /// The field contains only the client's address
    Set,
}

impl ForwardedFor {
    /// Removes trailers that an application could read in place of the header field `x-forwarded-for`.
    pub(crate) fn strip_trailer(self, trailers: &mut FieldSection) {
        if self != Self::Keep {
            trailers.remove(Known::XForwardedFor);
            remove_twins(trailers, &[Known::XForwardedFor.name()]);
        }
    }

    /// Writes `x-forwarded-for` as one field line, because applications often read only the first line.
    fn write(self, client: IpAddr, request: &mut FieldSection) {
        let mut value = Vec::new();
        match self {
            Self::Keep => return,
            Self::Append => {
                for line in request.iter().filter(|line| line.known == Known::XForwardedFor && !line.value.is_empty()) {
                    value.extend_from_slice(line.value);
                    value.extend_from_slice(b", ");
                }
            }
            Self::Set => {}
        }
        value.extend_from_slice(client.to_canonical().to_string().as_bytes());
        request.remove(Known::XForwardedFor);
        remove_twins(request, &[Known::XForwardedFor.name()]);
        request.push(b"x-forwarded-for", &value);
    }
}

/// Sets the fields of an inbound request that tell the application who its client is.
pub(crate) fn set_client_fields(client: &Client, forwarded_for: ForwardedFor, request: &mut FieldSection) {
    if client.origin.door.direction() == Direction::Outbound {
        return;
    }
    forwarded_for.write(client.origin.peer.ip(), request);
    strip_identities(request);
    if let Some(fields) = &client.identity_fields {
        request.push_prepared(&fields.id);
        if let Some(certificate) = &fields.certificate {
            request.push_prepared(certificate);
        }
    }
}

#[cfg(test)]
#[path = "find_tests.rs"]
mod tests;
