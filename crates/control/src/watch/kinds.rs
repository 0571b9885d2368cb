//! What is taken of an object of each kind.

use std::borrow::Cow;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};
use kube::{Resource, ResourceExt};
use leno_model::problem::Problem;
use leno_model::typed::{self, Reading};
use serde::Deserialize;
use serde_json::Value;

use crate::index::{self, Content, Kind, Name};

/// The label of Pods that have a proxy.
const INJECTED: &str = "leno.dev/injected";
/// The annotation of Namespaces whose Pods get one.
const INJECT: &str = "leno.dev/inject";
/// The service account of a Pod that names none.
const DEFAULT_SERVICE_ACCOUNT: &str = "default";

/// As much of a Pod as is read off the wire.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Pod {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: PodSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodSpec {
    service_account_name: Option<Box<str>>,
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

/// When an object was created, in seconds since 1970.
fn created(metadata: &ObjectMeta) -> i64 {
    metadata.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second())
}

pub(super) fn service(_: &Name, service: Service) -> Content {
    let created = created(&service.metadata);
    Content::Object(typed::service(service), created)
}

pub(super) fn endpoint_slice(_: &Name, slice: EndpointSlice) -> Content {
    let created = created(&slice.metadata);
    Content::Object(typed::endpoint_slice(slice), created)
}

pub(super) fn pod(_: &Name, pod: Pod) -> Content {
    let is_injected = pod.labels().get(INJECTED).is_some_and(|value| value == "true");
    let service_account = pod.spec.service_account_name.unwrap_or_else(|| DEFAULT_SERVICE_ACCOUNT.into());
    Content::Pod(index::Pod { injected_as: is_injected.then_some(service_account) })
}

pub(super) fn namespace(_: &Name, namespace: PartialObjectMeta<Namespace>) -> Content {
    let injects = namespace.annotations().get(INJECT).is_some_and(|value| value == "enabled");
    Content::Namespace(index::Namespace { injects })
}

/// A kind that a CustomResourceDefinition makes.
#[derive(Clone, Copy)]
pub(super) struct Custom {
    pub(super) kind: Kind,
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    read: fn(&Name, Value) -> Result<Reading, Vec<Problem>>,
}

/// Gateway API's group.
const GATEWAY: &str = "gateway.networking.k8s.io";

/// Every one of them.
pub(super) const CUSTOM: [Custom; 4] = [
    Custom {
        kind: Kind::AuthorizationPolicy,
        group: "leno.dev",
        version: "v1alpha1",
        plural: "authorizationpolicies",
        read: |name, written| typed::authorization_policy(&name.namespace, &name.name, written),
    },
    Custom {
        kind: Kind::HttpRoute,
        group: GATEWAY,
        version: "v1",
        plural: "httproutes",
        read: |name, written| typed::http_route(&name.namespace, &name.name, written),
    },
    Custom {
        kind: Kind::GrpcRoute,
        group: GATEWAY,
        version: "v1",
        plural: "grpcroutes",
        read: |name, written| typed::grpc_route(&name.namespace, &name.name, written),
    },
    Custom {
        kind: Kind::ReferenceGrant,
        group: GATEWAY,
        version: "v1beta1",
        plural: "referencegrants",
        read: |name, written| typed::reference_grant(&name.namespace, &name.name, written),
    },
];

impl Custom {
    /// What it is called in the API.
    pub(super) fn resource(&self) -> ApiResource {
        ApiResource {
            group: self.group.to_owned(),
            version: self.version.to_owned(),
            api_version: format!("{}/{}", self.group, self.version),
            kind: self.kind.to_string(),
            plural: self.plural.to_owned(),
        }
    }

    /// The name of its CustomResourceDefinition.
    pub(super) fn definition(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }

    /// Takes what is needed of one object.
    pub(super) fn read(&self) -> impl Fn(&Name, DynamicObject) -> Content + use<> {
        let read = self.read;
        move |name, mut object| {
            // Nobody here wants it, and it is as long as the rest.
            object.metadata.managed_fields = None;
            let created = created(&object.metadata);
            let written = serde_json::to_value(object).unwrap_or_default();
            Content::Object(read(name, written), created)
        }
    }
}

#[cfg(test)]
#[path = "kinds_tests.rs"]
mod tests;
