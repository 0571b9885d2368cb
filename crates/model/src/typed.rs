//! Objects as the Kubernetes API gives them, to [`Object`]s: the checks of [`crate::manifest`], for what is not a text.
//!
//! An API server has checked what it stores, so fields that we do not know are its own business. Mistakes have no file
//! and no line here, but the name of the object and of the field. What Kubernetes allows and a mesh has no use for, as
//! Services that are aliases, is no mistake: there is no object then.

use k8s_openapi::api::{core::v1::Service, discovery::v1::EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde::de::Deserializer;

use crate::manifest::{Findings, Review};
use crate::object::{
    Object, authorization_policy, endpoint_slice, grpc_route, http_route, reference_grant, service,
};
use crate::problem::{Notice, Problem};

/// What an object without mistakes says.
#[derive(Debug, Default)]
pub struct Reading {
    /// What the mesh keeps of it; nothing if it is of no use to a mesh.
    pub object: Option<Object>,
    /// What is worth telling.
    pub notices: Vec<Notice>,
}

/// Reads a Service.
///
/// # Errors
/// Every mistake found.
pub fn service(service: Service) -> Result<Reading, Vec<Problem>> {
    let spec = service.spec.as_ref();
    let is_alias = spec.and_then(|spec| spec.type_.as_deref()) == Some("ExternalName");
    let has_ports = spec.and_then(|spec| spec.ports.as_ref()).is_some_and(|ports| !ports.is_empty());
    if is_alias || !has_ports {
        return Ok(Reading::default());
    }
    let name = name_of(&service.metadata);
    read("Service", &name, service, service::review)
}

/// Reads an EndpointSlice.
///
/// # Errors
/// Every mistake found.
pub fn endpoint_slice(slice: EndpointSlice) -> Result<Reading, Vec<Problem>> {
    if slice.address_type == "FQDN" {
        return Ok(Reading::default());
    }
    let name = name_of(&slice.metadata);
    read("EndpointSlice", &name, slice, endpoint_slice::review)
}

/// Reads an AuthorizationPolicy, whose name is `name` in `namespace`.
///
/// # Errors
/// Every mistake found, or that it does not have the fields of one.
pub fn authorization_policy<'de, D: Deserializer<'de>>(
    namespace: &str,
    name: &str,
    written: D,
) -> Result<Reading, Vec<Problem>> {
    deserialize(authorization_policy::KIND, &format!("{namespace}/{name}"), written, authorization_policy::review)
}

/// Reads an HTTPRoute, whose name is `name` in `namespace`.
///
/// # Errors
/// Every mistake found, or that it does not have the fields of one.
pub fn http_route<'de, D: Deserializer<'de>>(namespace: &str, name: &str, written: D) -> Result<Reading, Vec<Problem>> {
    deserialize(http_route::KIND, &format!("{namespace}/{name}"), written, http_route::review)
}

/// Reads a GRPCRoute, whose name is `name` in `namespace`.
///
/// # Errors
/// Every mistake found, or that it does not have the fields of one.
pub fn grpc_route<'de, D: Deserializer<'de>>(namespace: &str, name: &str, written: D) -> Result<Reading, Vec<Problem>> {
    deserialize(grpc_route::KIND, &format!("{namespace}/{name}"), written, grpc_route::review)
}

/// Reads a ReferenceGrant, whose name is `name` in `namespace`.
///
/// # Errors
/// Every mistake found, or that it does not have the fields of one.
pub fn reference_grant<'de, D: Deserializer<'de>>(
    namespace: &str,
    name: &str,
    written: D,
) -> Result<Reading, Vec<Problem>> {
    deserialize(reference_grant::KIND, &format!("{namespace}/{name}"), written, reference_grant::review)
}

/// Reads an object of a type that an API server knows by a schema only.
fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    kind: &str,
    name: &str,
    written: D,
    review: fn(T, &mut Review<'_>) -> Option<Object>,
) -> Result<Reading, Vec<Problem>> {
    match T::deserialize(written) {
        Ok(written) => read(kind, name, written, review),
        Err(error) => read(kind, name, error, |error, review| {
            review.problem(
                "",
                error.to_string(),
                "write it as the CustomResourceDefinition of this version of Leno has it",
            );
            None
        }),
    }
}

fn read<T>(
    kind: &str,
    name: &str,
    written: T,
    review: fn(T, &mut Review<'_>) -> Option<Object>,
) -> Result<Reading, Vec<Problem>> {
    let mut findings = Findings::new("");
    let object = review(written, &mut Review::of_typed(&mut findings, kind, name));
    let (problems, notices) = findings.into_parts();
    if problems.is_empty() { Ok(Reading { object, notices }) } else { Err(problems) }
}

fn name_of(metadata: &ObjectMeta) -> String {
    let text = |text: &Option<String>| text.as_deref().unwrap_or_default().to_owned();
    format!("{}/{}", text(&metadata.namespace), text(&metadata.name))
}

#[cfg(test)]
#[path = "typed_tests.rs"]
mod tests;
