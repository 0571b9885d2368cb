//! Reads objects from the Kubernetes API into [`Object`]s, with the same checks as [`crate::manifest`] for text.
//!
//! An API server may be newer than our types, and has already checked the objects that it stores. So this module
//! ignores unknown fields, whereas [`crate::manifest::read_object`] reports them as mistakes in the kinds that it
//! reads. Kubernetes allows some objects that a mesh cannot use, such as a Service of the type ExternalName. For such
//! an object, the result is empty, and not an error.

use k8s_openapi::api::{core::v1::Service, discovery::v1::EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::manifest::{Findings, Manifest, Review};
use crate::object::{Object, endpoint_slice, service};
use crate::problem::{Notice, Problem};

/// Why an object was refused, and what to use in its place.
#[derive(Debug)]
pub struct Invalid {
    /// Every mistake found.
    pub problems: Vec<Problem>,
    /// Remarks about the object that are not mistakes.
    pub notices: Vec<Notice>,
    /// The stand-in: the object without its invalid annotations. `None` if the object has other mistakes.
    ///
    /// If there is no earlier valid version, use the stand-in: without the Service, callers would reach its endpoints
    /// without TLS. If there is an earlier valid version of a Service, keep its annotations, and use the addresses and
    /// ports of the stand-in ([`with_spec_of`](crate::object::Service::with_spec_of)).
    pub stand_in: Option<Box<Object>>,
}

/// Reads a Service.
///
/// # Errors
/// Every mistake found.
pub fn service(service: Service) -> Result<Manifest, Invalid> {
    let spec = service.spec.as_ref();
    let is_alias = spec.and_then(|spec| spec.type_.as_deref()) == Some("ExternalName");
    let has_ports = spec.and_then(|spec| spec.ports.as_ref()).is_some_and(|ports| !ports.is_empty());
    if is_alias || !has_ports {
        return Ok(Manifest::default());
    }
    let name = name_of(&service.metadata);
    read("Service", &name, service, service::review)
}

/// Reads an EndpointSlice.
///
/// # Errors
/// Every mistake found. The stand-in has only the endpoints that name a Pod. For other endpoints, an annotation gives
/// the identity of the proxies, and this annotation may be the invalid one.
pub fn endpoint_slice(slice: EndpointSlice) -> Result<Manifest, Invalid> {
    if slice.address_type == "FQDN" {
        return Ok(Manifest::default());
    }
    let name = name_of(&slice.metadata);
    read("EndpointSlice", &name, slice, endpoint_slice::review)
}

fn read<T>(
    kind: &str,
    name: &str,
    written: T,
    review: fn(T, &mut Review<'_>) -> Option<Object>,
) -> Result<Manifest, Invalid> {
    let mut findings = Findings::new("");
    let object = review(written, &mut Review::of_typed(&mut findings, kind, name));
    let (problems, notices) = findings.into_parts();
    if problems.is_empty() {
        return Ok(Manifest { objects: object.into_iter().collect(), notices });
    }
    Err(Invalid { problems, notices, stand_in: object.map(Box::new) })
}

fn name_of(metadata: &ObjectMeta) -> String {
    let text = |text: &Option<String>| text.as_deref().unwrap_or_default().to_owned();
    format!("{}/{}", text(&metadata.namespace), text(&metadata.name))
}

#[cfg(test)]
#[path = "typed_tests.rs"]
mod tests;
