//! Reads the parents of a route: the objects to which the route asks to be attached.

use super::names::check_reference;
use super::written::ParentRef as Written;
use super::{GROUP, PARENTS_MAX, Reading, SERVICE, Spot};
use crate::object::{is_core, port_number};
use crate::route::status::ParentRef;

/// A parent of a route: an object to which the route asks to be attached.
#[derive(Clone, Debug)]
pub struct Parent {
    /// The reference as written.
    pub reference: ParentRef,
    /// The field of the route that contains the reference.
    pub spot: Spot,
}

impl Parent {
    /// Returns whether the parent is a Service. Leno ignores parents of other kinds.
    pub fn is_service(&self) -> bool {
        let ParentRef { group, kind, .. } = &self.reference;
        is_core(group.as_deref().unwrap_or(GROUP)) && kind.as_deref() == Some(SERVICE)
    }

    /// Returns whether the parent names a Service in Gateway API's own group, which has no such kind. The author
    /// probably left out the group, and the group's default applies.
    pub(crate) fn lacks_group(&self) -> bool {
        let ParentRef { group, kind, .. } = &self.reference;
        group.as_deref().unwrap_or(GROUP) == GROUP && kind.as_deref() == Some(SERVICE)
    }
}

pub(super) fn read(written: Vec<Written>, reading: &mut Reading<'_, '_>) -> Box<[Parent]> {
    const FIELD: &str = "spec.parentRefs";
    reading.check_length(FIELD, &written, PARENTS_MAX);
    if written.is_empty() {
        // A route without parents is not a mistake. If it were, an author could not detach a route from its Services:
        // the last valid version of the route, with its parents, would stay in force.
        let what = "a route without a parent matches no call; name the Service: \
                    `parentRefs: [{group: \"\", kind: Service, name: echo}]`";
        reading.notice(FIELD, what);
    }
    let mut parents: Vec<Parent> = Vec::new();
    for (index, written) in written.into_iter().enumerate() {
        let field = format!("{FIELD}[{index}]");
        if written.name.is_empty() {
            reading.problem(&format!("{field}.name"), "missing", "name the Service");
        }
        let (group, kind) = (written.group.as_deref(), written.kind.as_deref());
        check_reference(&field, group, kind, written.namespace.as_deref(), reading);
        let port = written.port.and_then(|port| {
            let number = port_number(port);
            if number.is_none() {
                reading.problem(&format!("{field}.port"), format!("{port} is not a port"), "use 1 to 65535");
            }
            number
        });
        let reference = ParentRef {
            group: written.group.map(Into::into),
            kind: written.kind.map(Into::into),
            namespace: written.namespace.map(Into::into),
            name: written.name.into(),
            section_name: written.section_name.map(Into::into),
            port,
        };
        if let Some(first) = parents.iter().find(|first| is_same(&first.reference, &reference)) {
            let what = format!("the same as {}", first.spot.field);
            reading.problem(&field, what, "remove it, or give both a port or a sectionName");
        }
        let spot = reading.spot(&field);
        parents.push(Parent { reference, spot });
    }
    parents.into()
}

/// Returns whether two parents overlap. They must refer to the same object. In addition, their ports and sections must
/// be equal, or one of them must refer to the whole object.
fn is_same(a: &ParentRef, b: &ParentRef) -> bool {
    fn object(parent: &ParentRef) -> (&str, Option<&str>, Option<&str>, &str) {
        let ParentRef { group, kind, namespace, name, .. } = parent;
        let group = group.as_deref().unwrap_or(GROUP);
        (if is_core(group) { "" } else { group }, kind.as_deref(), namespace.as_deref(), name)
    }
    let is_whole = |parent: &ParentRef| parent.port.is_none() && parent.section_name.is_none();
    let is_same_port = a.port == b.port && a.section_name == b.section_name;
    object(a) == object(b) && (is_same_port || is_whole(a) || is_whole(b))
}
