//! Reads objects from the Kubernetes API into [`Object`]s, with the same checks as [`crate::manifest`] for text.
//!
//! An API server may be newer than our types, and has already checked the objects that it stores. So this module
//! ignores unknown fields, whereas [`crate::manifest::read_object`] reports them as mistakes in the kinds that it
//! reads. Kubernetes allows some objects that a mesh cannot use, such as a Service of the type ExternalName. Such an
//! object is not an error: a Service has no ports in the result, and an EndpointSlice is left out.

use k8s_openapi::Metadata;
use k8s_openapi::api::{core::v1::Service, discovery::v1::EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::manifest::{Findings, Manifest, Review};
use crate::object::{Object, annotations, endpoint_slice, service};
use crate::problem::{Notice, Problem};

/// Why an object was refused, and what to use in its place.
#[derive(Debug)]
pub struct Invalid {
    /// Every mistake found.
    pub problems: Vec<Problem>,
    /// Remarks about the object that are not mistakes.
    pub notices: Vec<Notice>,
    /// If there is no earlier valid version, use this stand-in: the object without its invalid annotations. Without the
    /// Service, callers would reach its endpoints without TLS. `None` if the object has other mistakes.
    pub stand_in: Option<Box<Object>>,
    /// If there is an earlier valid version, keep its annotations, and use the addresses and ports of this object: the
    /// Service or EndpointSlice without any of its annotations ([`renewed`](Object::renewed)). `None` if the object has
    /// other mistakes.
    pub bare: Option<Box<Object>>,
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
        // Keep the Service's name, so that a route that refers to it gets the right reason.
        let (name, mut findings) = (name_of(&service.metadata), Findings::new(""));
        let mut review = Review::of_typed(&mut findings, "Service", &name);
        let object = service::without_ports(&service.metadata, &mut review);
        return Ok(Manifest { objects: vec![object], notices: Vec::new() });
    }
    read("Service", service, service::review)
}

/// Reads an EndpointSlice.
///
/// # Errors
/// Every mistake found. The stand-in has only the endpoints that name a Pod: if the invalid annotation names a proxy,
/// the user expects encrypted calls, and calls to other endpoints are not encrypted.
pub fn endpoint_slice(slice: EndpointSlice) -> Result<Manifest, Invalid> {
    if slice.address_type == "FQDN" {
        return Ok(Manifest::default());
    }
    read("EndpointSlice", slice, endpoint_slice::review)
}

fn read<T: Metadata<Ty = ObjectMeta> + Clone>(
    kind: &str,
    written: T,
    review: fn(T, &mut Review<'_>) -> Option<Object>,
) -> Result<Manifest, Invalid> {
    let name = name_of(written.metadata());
    let mut findings = Findings::new("");
    // Copy only an object with annotations of ours: no other object can have invalid ones.
    let has_ours = annotations::ours(written.metadata().annotations.as_ref()).next().is_some();
    let bare = has_ours.then(|| without_annotations(&written));
    let object = review(written, &mut Review::of_typed(&mut findings, kind, &name));
    let (problems, notices) = findings.into_parts();
    if problems.is_empty() {
        return Ok(Manifest { objects: object.into_iter().collect(), notices });
    }
    let mut findings = Findings::new("");
    let bare = bare.and_then(|bare| review(bare, &mut Review::of_typed(&mut findings, kind, &name)));
    Err(Invalid { problems, notices, stand_in: object.map(Box::new), bare: bare.map(Box::new) })
}

fn without_annotations<T: Metadata<Ty = ObjectMeta> + Clone>(object: &T) -> T {
    let mut bare = object.clone();
    bare.metadata_mut().annotations = None;
    bare
}

fn name_of(metadata: &ObjectMeta) -> String {
    let text = |text: &Option<String>| text.as_deref().unwrap_or_default().to_owned();
    format!("{}/{}", text(&metadata.namespace), text(&metadata.name))
}

#[cfg(test)]
#[path = "typed_tests.rs"]
mod tests;
