//! Extracts the needed part of an object of each kind.

use std::borrow::Cow;
use std::net::IpAddr;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Namespace, Service, ServiceAccount};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{ApiResource, DynamicObject, PartialObjectMeta, TypeMeta};
use kube::{Resource, ResourceExt};
use leno_install::annotations::{INJECT, MIRROR_POD};
use leno_install::inject::{InboundPorts, Traits, Wish, inbound_ports};
use leno_install::names::{DEFAULT_SERVICE_ACCOUNT, GRPC, PROXY};
use leno_model::manifest::read_object;
use leno_model::mesh::Controller;
use leno_model::object::{self, route};
use leno_model::typed;
use serde::Deserialize;

use crate::index::{self, Content, Kind, Name, Revision, Stage};

/// The part of a Pod that is deserialized.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Pod {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: PodSpec,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodSpec {
    service_account_name: Option<Box<str>>,
    #[serde(default)]
    host_network: bool,
    os: Option<Os>,
    node_selector: Option<NodeSelector>,
    init_containers: Option<Vec<Container>>,
}

#[derive(Clone, Debug, Deserialize)]
struct Os {
    name: String,
}

/// The part of a Pod's node selector that names the nodes' operating system.
#[derive(Clone, Debug, Deserialize)]
struct NodeSelector {
    #[serde(rename = "kubernetes.io/os")]
    os: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
struct Container {
    name: String,
    #[serde(default)]
    args: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct PodStatus {
    phase: Option<String>,
    #[serde(rename = "podIPs")]
    pod_ips: Option<Vec<PodIp>>,
}

#[derive(Clone, Debug, Deserialize)]
struct PodIp {
    ip: String,
}

impl Resource for Pod {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Pod".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "pods".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

pub(super) fn service(_: &Name, mut service: Service) -> Content {
    Content::Object(revision(&mut service.metadata), typed::service(service))
}

pub(super) fn endpoint_slice(_: &Name, mut slice: EndpointSlice) -> Content {
    Content::Object(revision(&mut slice.metadata), typed::endpoint_slice(slice))
}

/// Returns the revision of an object whose status we do not write. Its generation does not matter, so it is 0.
fn revision(metadata: &mut ObjectMeta) -> Revision {
    Revision { uid: uid(metadata), generation: 0 }
}

fn uid(metadata: &mut ObjectMeta) -> Box<str> {
    metadata.uid.take().unwrap_or_default().into()
}

/// Extracts the needed part of a Pod. A Pod has a proxy if it has the proxy's container, which cannot change after the
/// Pod's creation. We do not look at labels: a user who may label Pods could remove a label, and callers would then
/// reach the Pod unencrypted.
pub(super) fn pod(_: &Name, mut pod: Pod) -> Content {
    let containers = pod.spec.init_containers.as_deref().unwrap_or_default();
    let has = |name: &str| containers.iter().any(|container| container.name == name);
    let (is_injected, has_grpc) = (has(PROXY), has(GRPC));
    // A Pod on the host network shares the node's ports with other processes, so the Pod's proxy does not receive the
    // Pod's connections.
    let is_injected = is_injected && !pod.spec.host_network;
    let ports = match is_injected {
        true => inbound_ports(containers.iter().map(|container| (&*container.name, &*container.args))),
        false => InboundPorts::default(),
    };
    let wish = wish(&pod);
    let controller = controller(&pod.metadata);
    let uid = uid(&mut pod.metadata);
    let bare = (!is_injected && wish != Wish::NoProxy).then_some(index::Bare { wish, has_grpc, uid });
    let service_account = pod.spec.service_account_name.unwrap_or_else(|| DEFAULT_SERVICE_ACCOUNT.into());
    let ips = pod.status.pod_ips.iter().flatten().filter_map(|address| address.ip.parse::<IpAddr>().ok());
    let ips = ips.map(|ip| ip.to_canonical()).collect();
    let stage = match (pod.status.phase.as_deref(), &pod.metadata.deletion_timestamp) {
        (Some("Succeeded" | "Failed"), _) => Stage::Ended,
        (_, Some(_)) => Stage::Terminating,
        (_, None) => Stage::Active,
    };
    Content::Pod(index::Pod {
        injected_as: is_injected.then_some(service_account),
        bare,
        controller,
        ports,
        ips,
        has_host_network: pod.spec.host_network,
        created_s: pod.metadata.creation_timestamp.as_ref().map(|created| created.0.as_second()),
        stage,
    })
}

fn controller(metadata: &ObjectMeta) -> Option<Controller> {
    let owner = metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))?;
    let hash = metadata.labels.as_ref().and_then(|labels| labels.get("pod-template-hash"));
    Controller::of_pod(&owner.kind, &owner.name, hash.map(String::as_str))
}

fn wish(pod: &Pod) -> Wish {
    let selected_os = pod.spec.node_selector.as_ref().and_then(|selector| selector.os.as_deref());
    let systems = [pod.spec.os.as_ref().map(|os| os.name.as_str()), selected_os];
    let traits = Traits {
        inject: pod.annotations().get(INJECT).map(String::as_str),
        has_host_network: pod.spec.host_network,
        is_windows: systems.contains(&Some("windows")),
        is_mirror: pod.annotations().contains_key(MIRROR_POD),
    };
    traits.wish()
}

pub(super) fn namespace(_: &Name, namespace: PartialObjectMeta<Namespace>) -> Content {
    Content::Namespace(index::Namespace::new(namespace.metadata.annotations.unwrap_or_default()))
}

pub(super) fn service_account(_: &Name, _: PartialObjectMeta<ServiceAccount>) -> Content {
    Content::ServiceAccount
}

/// A kind that a CustomResourceDefinition defines.
#[derive(Clone, Copy)]
pub(super) struct Custom {
    pub(super) kind: Kind,
    group: &'static str,
    version: &'static str,
    plural: &'static str,
}

pub(super) const CUSTOM: [Custom; 8] = [
    Custom {
        kind: Kind::AuthorizationPolicy,
        group: object::GROUP,
        version: "v1alpha1",
        plural: "authorizationpolicies",
    },
    Custom { kind: Kind::TrafficPolicy, group: object::GROUP, version: "v1alpha1", plural: "trafficpolicies" },
    Custom {
        kind: Kind::BackendTrafficPolicy,
        group: object::EXPERIMENTAL_GROUP,
        version: "v1alpha1",
        plural: "xbackendtrafficpolicies",
    },
    Custom { kind: Kind::HttpRoute, group: route::GROUP, version: "v1", plural: "httproutes" },
    Custom { kind: Kind::GrpcRoute, group: route::GROUP, version: "v1", plural: "grpcroutes" },
    Custom { kind: Kind::TlsRoute, group: route::GROUP, version: "v1", plural: "tlsroutes" },
    Custom { kind: Kind::TcpRoute, group: route::GROUP, version: "v1", plural: "tcproutes" },
    Custom { kind: Kind::ReferenceGrant, group: route::GROUP, version: "v1beta1", plural: "referencegrants" },
];

/// The API resource of a kind that a CustomResourceDefinition defines; `None` for other kinds.
pub(crate) fn resource(kind: Kind) -> Option<ApiResource> {
    CUSTOM.iter().find(|custom| custom.kind == kind).map(Custom::resource)
}

impl Custom {
    pub(super) fn resource(&self) -> ApiResource {
        ApiResource {
            group: self.group.to_owned(),
            version: self.version.to_owned(),
            api_version: format!("{}/{}", self.group, self.version),
            kind: self.kind.to_string(),
            plural: self.plural.to_owned(),
        }
    }

    pub(super) fn definition(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }

    /// Extracts the needed part of one object.
    pub(super) fn read(&self) -> impl Fn(&Name, DynamicObject) -> Content + use<> {
        let api = self.resource();
        move |_, mut object| {
            // Drop managedFields: we never read it, and it doubles the object's size.
            object.metadata.managed_fields = None;
            let generation = object.metadata.generation.unwrap_or_default();
            let revision = Revision { uid: uid(&mut object.metadata), generation };
            // The items of a list do not contain their kind, so add it.
            object.types = Some(TypeMeta { api_version: api.api_version.clone(), kind: api.kind.clone() });
            Content::Custom(revision, read_object(serde_json::to_value(object).unwrap_or_default()))
        }
    }
}

#[cfg(test)]
#[path = "kinds_tests.rs"]
mod tests;
