//! References from routes to backends. They are resolved in a later step, because that needs all objects.

use super::names::check_reference;
use super::written::{BackendRef as WrittenBackend, MirrorRef as WrittenMirror};
use super::{Reading, Spot, filter};
use crate::object::{is_core, port_number};
use crate::route::Filters;
use crate::route::status::Reason;

/// The only kind of backend that Leno supports.
pub(crate) const SERVICE: &str = "Service";
/// Maximum weight.
const WEIGHT_MAX: u32 = 1_000_000;

/// One backend of a rule.
#[derive(Clone, Debug)]
pub struct BackendRef {
    pub to: Reference,
    /// The backend's weight, 0 to 1,000,000. A rule distributes its requests over its backends in proportion to their
    /// weights.
    pub weight: u32,
    /// Filters that apply only to requests to this backend.
    pub filters: RouteFilters,
}

/// The filters of a rule or of a backend. The mirrors are still references, which a later step resolves.
#[derive(Clone, Debug, Default)]
pub struct RouteFilters {
    /// All filters except mirrors.
    pub fixed: Filters,
    /// The backends that get copies of requests.
    pub mirrors: Vec<MirrorRef>,
}

/// A backend that gets copies of requests.
#[derive(Clone, Debug)]
pub struct MirrorRef {
    pub to: Reference,
    /// The mirror gets a copy of `numerator` out of every `denominator` requests.
    pub numerator: u32,
    /// At least 1.
    pub denominator: u32,
}

/// A reference to a backend object.
#[derive(Clone, Debug)]
pub struct Reference {
    /// The API group as written; the core group if it is missing.
    pub group: Box<str>,
    pub kind: Box<str>,
    /// The namespace as written; `None` means the route's namespace.
    pub namespace: Option<Box<str>>,
    pub name: Box<str>,
    /// The port of the Service. Present in every reference to a Service; `None` is possible only for other kinds.
    pub port: Option<u16>,
    /// The field of the route that contains the reference.
    pub spot: Spot,
}

impl Reference {
    /// Returns whether the referenced object is a Service.
    pub fn is_service(&self) -> bool {
        is_core(&self.group) && &*self.kind == SERVICE
    }
}

pub(super) fn read(field: &str, written: WrittenBackend, reading: &mut Reading<'_, '_>) -> Option<BackendRef> {
    let WrittenBackend { group, kind, namespace, name, port, weight, filters } = written;
    let weight = weight.unwrap_or(1);
    let valid_weight = u32::try_from(weight).ok().filter(|weight| *weight <= WEIGHT_MAX);
    if valid_weight.is_none() {
        let what = format!("{weight} is not a weight");
        reading.problem(&format!("{field}.weight"), what, format!("use 0 to {WEIGHT_MAX}"));
    }
    let to = reference(field, WrittenMirror { group, kind, namespace, name, port }, reading);
    let filters_field = format!("{field}.filters");
    let filters = filter::read(&filters_field, filters.unwrap_or_default(), reading);
    if filter::needs_no_backend(&filters) {
        let what = "a backend receives the request and cannot redirect it";
        let fix = "move the RequestRedirect to a rule without backendRefs";
        reading.refuse(&filters_field, Reason::IncompatibleFilters, what, fix);
    }
    Some(BackendRef { to, weight: valid_weight?, filters })
}

pub(super) fn reference(field: &str, written: WrittenMirror, reading: &mut Reading<'_, '_>) -> Reference {
    let WrittenMirror { group, kind, namespace, name, port } = written;
    if name.is_empty() {
        reading.problem(&format!("{field}.name"), "missing", "name the Service");
    }
    check_reference(field, group.as_deref(), kind.as_deref(), namespace.as_deref(), reading);
    let reference = Reference {
        group: group.unwrap_or_default().into(),
        kind: kind.unwrap_or_else(|| SERVICE.to_owned()).into(),
        namespace: namespace.map(Into::into),
        name: name.into(),
        port: port.and_then(port_number),
        spot: reading.spot(field),
    };
    match port {
        None if reference.is_service() => {
            reading.problem(&format!("{field}.port"), "missing", "add the Service's port");
        }
        Some(port) if reference.port.is_none() => {
            reading.problem(&format!("{field}.port"), format!("{port} is not a port"), "use 1 to 65535");
        }
        _ => {}
    }
    reference
}
