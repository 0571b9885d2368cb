//! What the index is told.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::net::IpAddr;

use leno_install::annotations::{INJECT, PREFIX};
use leno_install::inject::{InboundPorts, Wish};
use leno_model::manifest::{Manifest, Refused};
use leno_model::problem::Problem;
use leno_model::route::RouteKind;
use serde::{Serialize, Serializer};

/// A kind of object that is watched.
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
    /// gateway.networking.k8s.io/v1
    HttpRoute,
    /// gateway.networking.k8s.io/v1
    GrpcRoute,
    /// gateway.networking.k8s.io/v1
    TlsRoute,
    /// gateway.networking.k8s.io/v1
    TcpRoute,
    /// gateway.networking.k8s.io/v1beta1, which every version of it serves
    ReferenceGrant,
}

/// An object's name; the namespace is empty for one that belongs to the cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    /// Its namespace.
    pub namespace: Box<str>,
    /// Its own name.
    pub name: Box<str>,
}

/// What happened to objects of one kind.
#[derive(Debug)]
pub enum Change {
    /// One is there, and this is what it says.
    Applied(Name, Content),
    /// One is gone.
    Removed(Name),
    /// Every one has been applied; others are gone.
    Listed(HashSet<Name>),
    /// The API server does not know the kind: there are none.
    NotInstalled,
    /// A Pod that has a proxy is about to be made in this namespace.
    Expected(Box<str>),
}

/// What an object says.
#[derive(Debug)]
pub enum Content {
    /// One that a mesh is made of, or what is wrong with it.
    Object(Result<Manifest, Vec<Problem>>),
    /// The same of an object that has a status of ours, and its generation.
    Custom(i64, Result<Manifest, Refused>),
    /// A Pod.
    Pod(Pod),
    /// A Namespace.
    Namespace(Namespace),
    /// A ServiceAccount, of which the name is all that matters.
    ServiceAccount,
}

/// What is kept of a Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// The service account of a Pod with a proxy; nothing for one without.
    pub injected_as: Option<Box<str>>,
    /// What a Pod without a proxy says about that.
    pub bare: Option<Bare>,
    /// How its proxy treats its ports.
    pub ports: InboundPorts,
    /// Its addresses, if it has them already.
    pub ips: Box<[IpAddr]>,
}

/// What is kept of a Pod without a proxy that could have one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bare {
    /// Whether it asks for a proxy.
    pub wish: Wish,
    /// The Pod's UID, by which an Event names it.
    pub uid: Box<str>,
}

/// What is kept of a Namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespace {
    annotations: BTreeMap<String, String>,
}

impl Namespace {
    /// One with these annotations, of which ours are kept.
    pub fn new(mut annotations: BTreeMap<String, String>) -> Self {
        annotations.retain(|name, _| name.starts_with(PREFIX));
        Self { annotations }
    }

    /// Our annotations.
    pub fn annotations(&self) -> &BTreeMap<String, String> {
        &self.annotations
    }

    /// The value of the annotation that asks for proxies or refuses them.
    pub fn inject(&self) -> Option<&str> {
        self.annotations.get(INJECT).map(String::as_str)
    }

    /// Whether new Pods get a proxy unless they say otherwise.
    pub fn injects(&self) -> bool {
        self.inject().is_some_and(|value| value.trim() == "enabled")
    }
}

impl Kind {
    /// Every one.
    pub const ALL: [Self; 11] = [
        Self::Service,
        Self::EndpointSlice,
        Self::Pod,
        Self::Namespace,
        Self::ServiceAccount,
        Self::AuthorizationPolicy,
        Self::HttpRoute,
        Self::GrpcRoute,
        Self::TlsRoute,
        Self::TcpRoute,
        Self::ReferenceGrant,
    ];

    /// The kind of a route.
    pub fn of_route(kind: RouteKind) -> Self {
        match kind {
            RouteKind::Http => Self::HttpRoute,
            RouteKind::Grpc => Self::GrpcRoute,
            RouteKind::Tls => Self::TlsRoute,
            RouteKind::Tcp => Self::TcpRoute,
        }
    }

    /// Its name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Service => "Service",
            Self::EndpointSlice => "EndpointSlice",
            Self::Pod => "Pod",
            Self::Namespace => "Namespace",
            Self::ServiceAccount => "ServiceAccount",
            Self::AuthorizationPolicy => "AuthorizationPolicy",
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
    /// The name of an object within a namespace.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The name of an object that belongs to the cluster.
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
