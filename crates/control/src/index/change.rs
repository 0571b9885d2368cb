//! Changes that the watches send to the index.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::net::IpAddr;

use leno_install::annotations::{INJECT, PREFIX};
use leno_install::inject::{InboundPorts, Wish, asks_for_injection};
use leno_model::manifest::{Manifest, Refused};
use leno_model::mesh::Controller;
use leno_model::route::RouteKind;
use leno_model::traffic::PolicyKind;
use leno_model::typed::Invalid;
use serde::{Serialize, Serializer};

/// A watched kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// v1
    Service,
    /// discovery.k8s.io/v1
    EndpointSlice,
    /// v1
    Pod,
    /// v1
    Namespace,
    /// v1
    ServiceAccount,
    /// leno.dev/v1alpha1
    AuthorizationPolicy,
    /// leno.dev/v1alpha1
    TrafficPolicy,
    /// XBackendTrafficPolicy of gateway.networking.x-k8s.io/v1alpha1; the X marks it as experimental.
    BackendTrafficPolicy,
    /// gateway.networking.k8s.io/v1
    HttpRoute,
    /// gateway.networking.k8s.io/v1
    GrpcRoute,
    /// gateway.networking.k8s.io/v1
    TlsRoute,
    /// gateway.networking.k8s.io/v1
    TcpRoute,
    /// ReferenceGrant of gateway.networking.k8s.io/v1beta1, which every version of Gateway API serves.
    ReferenceGrant,
}

/// An object's name; `namespace` is empty for objects of cluster scope.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    pub namespace: Box<str>,
    pub name: Box<str>,
}

#[derive(Debug)]
pub enum Change {
    /// An object was created or changed.
    Applied(Name, Content),
    Removed(Name),
    /// The list of a kind is complete. Every object in it has been applied; objects that are not in it no longer exist.
    Listed(HashSet<Name>),
    /// The API server does not know the kind, so there are no objects of it.
    NotInstalled,
    /// The API server will soon store a Pod with a proxy or a gRPC sidecar in this namespace.
    Expected(Box<str>),
}

/// The content of an object.
#[derive(Debug)]
pub enum Content {
    /// A Service or EndpointSlice, whose status we do not write, or the errors in it.
    Object(Revision, Result<Manifest, Invalid>),
    /// A custom object, whose status we write and from which the mesh is built, or the errors in the object.
    Custom(Revision, Result<Manifest, Refused>),
    Pod(Pod),
    Namespace(Namespace),
    /// A ServiceAccount; only its name matters.
    ServiceAccount,
}

/// Identifies the content of an object. An object that is deleted and created again gets another UID, and its
/// generation starts at 1 again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Revision {
    pub uid: Box<str>,
    /// 0 for kinds whose status we do not write.
    pub generation: i64,
}

/// The part of a Pod that the index keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// The service account of a Pod with a proxy; `None` for a Pod without a proxy.
    pub injected_as: Option<Box<str>>,
    /// `None` for a Pod that has a proxy, or that gets none: it opts out, is on its node's network, or runs Windows.
    pub bare: Option<Bare>,
    /// The controller that created the Pod, for the labels of metrics; `None` if the Pod has none, or if metrics have
    /// no label for this kind of controller.
    pub controller: Option<Controller>,
    pub ports: InboundPorts,
    /// The Pod's addresses; empty until it has an address.
    pub ips: Box<[IpAddr]>,
    /// Whether the Pod uses its node's network (hostNetwork), so that its addresses are the node's.
    pub has_host_network: bool,
    /// When the Pod was created, in seconds since 1970.
    pub created_s: Option<i64>,
    pub stage: Stage,
}

/// How close a Pod is to its end. In order: if two Pods report the same address, the earlier stage wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The Pod is not being deleted, and has not ended. It may still be starting.
    Active,
    /// The Pod is being deleted. It may still serve. But a finalizer can keep the Pod long after its containers have
    /// stopped, so another Pod may already have its addresses.
    Terminating,
    /// The Pod has ended (phase Succeeded or Failed). The network has released its addresses, but its status still
    /// contains them.
    Ended,
}

/// A Pod that has no proxy but could have one: it does not opt out, is not on its node's network, and does not run
/// Windows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bare {
    /// The value of the Pod's own injection annotation. Without one, the annotation of the Pod's namespace applies.
    pub wish: Wish,
    /// Whether the Pod has the gRPC sidecar, which gives gRPC programs an identity without a proxy.
    pub has_grpc: bool,
    /// The Pod's UID, which an Event about the Pod must contain.
    pub uid: Box<str>,
}

impl Bare {
    /// Returns what the Pod lacks, although its own annotation asks for it. If the Pod has no annotation, its
    /// namespace's annotation decides; `namespace` is that annotation's value.
    pub fn lacks(&self, namespace: Option<&str>) -> Option<Lacking> {
        if self.wish.is_for_a_proxy(namespace) {
            return Some(Lacking::Proxy);
        }
        (self.wish.is_for_grpc(namespace) && !self.has_grpc).then_some(Lacking::GrpcSidecar)
    }
}

/// What a Pod should have, and does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lacking {
    /// The proxy.
    Proxy,
    /// The gRPC sidecar.
    GrpcSidecar,
}

/// The part of a Namespace that the index keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespace {
    annotations: BTreeMap<String, String>,
}

impl Namespace {
    /// Keeps only the annotations with our prefix.
    pub fn new(mut annotations: BTreeMap<String, String>) -> Self {
        annotations.retain(|name, _| name.starts_with(PREFIX));
        Self { annotations }
    }

    pub fn annotations(&self) -> &BTreeMap<String, String> {
        &self.annotations
    }

    /// The value of the annotation that enables or disables injection.
    pub fn inject(&self) -> Option<&str> {
        self.annotations.get(INJECT).map(String::as_str)
    }

    /// Whether new Pods in the namespace get a proxy or the gRPC sidecar, unless their own annotation opts out.
    pub fn injects(&self) -> bool {
        self.inject().is_some_and(asks_for_injection)
    }
}

impl Kind {
    pub const ALL: [Self; 13] = [
        Self::Service,
        Self::EndpointSlice,
        Self::Pod,
        Self::Namespace,
        Self::ServiceAccount,
        Self::AuthorizationPolicy,
        Self::TrafficPolicy,
        Self::BackendTrafficPolicy,
        Self::HttpRoute,
        Self::GrpcRoute,
        Self::TlsRoute,
        Self::TcpRoute,
        Self::ReferenceGrant,
    ];

    /// Returns the kind of object of a route. `None` for [`RouteKind::Service`], the rule of a Service without routes,
    /// which has no object.
    pub fn of_route(kind: RouteKind) -> Option<Self> {
        match kind {
            RouteKind::Http => Some(Self::HttpRoute),
            RouteKind::Grpc => Some(Self::GrpcRoute),
            RouteKind::Tls => Some(Self::TlsRoute),
            RouteKind::Tcp => Some(Self::TcpRoute),
            RouteKind::Service => None,
        }
    }

    pub fn of_policy(kind: PolicyKind) -> Self {
        match kind {
            PolicyKind::Traffic => Self::TrafficPolicy,
            PolicyKind::BackendTraffic => Self::BackendTrafficPolicy,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Service => "Service",
            Self::EndpointSlice => "EndpointSlice",
            Self::Pod => "Pod",
            Self::Namespace => "Namespace",
            Self::ServiceAccount => "ServiceAccount",
            Self::AuthorizationPolicy => "AuthorizationPolicy",
            Self::TrafficPolicy => PolicyKind::Traffic.name(),
            Self::BackendTrafficPolicy => PolicyKind::BackendTraffic.name(),
            Self::HttpRoute => "HTTPRoute",
            Self::GrpcRoute => "GRPCRoute",
            Self::TlsRoute => "TLSRoute",
            Self::TcpRoute => "TCPRoute",
            Self::ReferenceGrant => "ReferenceGrant",
        }
    }
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Name {
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    pub fn of_cluster(name: &str) -> Self {
        Self::new("", name)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.namespace {
            "" => f.write_str(&self.name),
            namespace => write!(f, "{namespace}/{}", self.name),
        }
    }
}
