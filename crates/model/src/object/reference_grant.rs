//! Reads a gateway.networking.k8s.io ReferenceGrant, which allows objects in other namespaces to refer to objects in
//! the grant's namespace.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use super::route::SERVICE;
use super::route::written::Unread;
use super::{DNS_LABEL_RULE, DNS_SUBDOMAIN_RULE, Identity, Object, identity, is_core, is_dns_label, is_dns_subdomain};
use crate::manifest::Review;
use crate::problem::quoted;

/// The `kind` of a ReferenceGrant.
pub(crate) const KIND: &str = "ReferenceGrant";
/// Maximum number of entries in each list of a grant.
const ITEMS_MAX: usize = 16;

/// The parts of a ReferenceGrant that the mesh keeps.
#[derive(Clone, Debug)]
pub struct ReferenceGrant {
    /// The grant's name, and the position of its definition.
    pub identity: Identity,
    /// Selects the objects that may refer to the objects in `to`.
    pub from: Box<[GrantFrom]>,
    /// Selects the objects in the grant's namespace to which the objects in `from` may refer.
    pub to: Box<[GrantTo]>,
}

/// Selects the objects of a group, kind and namespace that may refer to objects in the grant's namespace.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename = "ReferenceGrantFrom", default)]
pub struct GrantFrom {
    pub group: Box<str>,
    pub kind: Box<str>,
    pub namespace: Box<str>,
}

/// Selects objects in the grant's namespace to which other objects may refer.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename = "ReferenceGrantTo", default)]
pub struct GrantTo {
    /// API group; the core group for Services.
    pub group: Box<str>,
    pub kind: Box<str>,
    /// The name of one object; `None` selects all objects of the kind.
    pub name: Option<Box<str>>,
}

/// The object as written.
#[derive(Debug, Deserialize)]
#[serde(rename = "ReferenceGrant", rename_all = "camelCase")]
pub(crate) struct Written {
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Spec,
    // These fields exist only so that they are not reported as unknown.
    #[serde(default, rename = "apiVersion")]
    _api_version: Option<Unread>,
    #[serde(default, rename = "kind")]
    _kind: Option<Unread>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename = "ReferenceGrantSpec", default)]
struct Spec {
    from: Vec<GrantFrom>,
    to: Vec<GrantTo>,
}

impl ReferenceGrant {
    /// The kinds and namespaces of the objects of this group that may refer to [`ReferenceGrant::services`].
    pub fn referrers(&self, group: &str) -> impl Iterator<Item = (&str, &str)> {
        let of_group = self.from.iter().filter(move |from| *from.group == *group);
        of_group.map(|from| (&*from.kind, &*from.namespace))
    }

    /// The names of the Services in the grant's namespace to which [`ReferenceGrant::referrers`] may refer; `None` for
    /// all Services.
    pub fn services(&self) -> impl Iterator<Item = Option<&str>> {
        let services = self.to.iter().filter(|to| is_core(&to.group) && &*to.kind == SERVICE);
        services.map(|to| to.name.as_deref())
    }
}

/// Checks a ReferenceGrant, and extracts the parts that the mesh keeps.
pub(crate) fn review(written: Written, review: &mut Review<'_>) -> Option<Object> {
    let identity = identity(&written.metadata, review, is_dns_subdomain, DNS_SUBDOMAIN_RULE);
    let Spec { from, mut to } = written.spec;
    for (field, length) in [("spec.from", from.len()), ("spec.to", to.len())] {
        match length {
            0 => review.problem(field, "missing", "a grant needs both lists, from and to"),
            1..=ITEMS_MAX => {}
            _ => review.problem(field, format!("{length} items"), format!("use at most {ITEMS_MAX}")),
        }
    }
    for (index, from) in from.iter().enumerate() {
        let field = format!("spec.from[{index}]");
        if from.kind.is_empty() {
            review.problem(&format!("{field}.kind"), "missing", "write the kind of the routes, as HTTPRoute");
        }
        if !is_dns_label(&from.namespace) {
            let what = format!("{} is not a namespace", quoted(&from.namespace));
            review.problem(&format!("{field}.namespace"), what, DNS_LABEL_RULE);
        }
    }
    for (index, to) in to.iter_mut().enumerate() {
        if to.kind.is_empty() {
            review.problem(&format!("spec.to[{index}].kind"), "missing", "write Service");
        }
        // Treat an empty name like a missing name, as Kubernetes does.
        to.name = to.name.take().filter(|name| !name.is_empty());
    }
    let grant = ReferenceGrant { identity, from: from.into(), to: to.into() };
    review.is_clean().then_some(Object::ReferenceGrant(grant))
}

#[cfg(test)]
#[path = "reference_grant_tests.rs"]
mod tests;
