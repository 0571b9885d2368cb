//! Filter: the changes that route rules make to requests and responses.

use leno_http2::FieldSection;
use leno_http2::fields::Known;
use leno_model::route::{HeaderModifier, PathMatch, Rewrite};

/// Changes header fields. Does not change fields that frame a message, or fields that proxies send each other.
pub(crate) fn modify(fields: &mut FieldSection, modifier: &HeaderModifier) {
    for name in modifier.remove.iter().filter(|name| is_modifiable(name)) {
        fields.remove_named(name.as_bytes());
    }
    for header in modifier.set.iter().filter(|header| is_modifiable(&header.name)) {
        fields.remove_named(header.name.as_bytes());
        fields.push(header.name.as_bytes(), header.value.as_bytes());
    }
    for header in modifier.add.iter().filter(|header| is_modifiable(&header.name)) {
        fields.push(header.name.as_bytes(), header.value.as_bytes());
    }
}

/// Returns whether a rule may change a field of that name.
fn is_modifiable(name: &str) -> bool {
    let known = Known::of(name.as_bytes());
    let frames = known.is_pseudo() || known.is_connection_specific();
    !frames && !matches!(known, Known::ContentLength | Known::Host | Known::Te) && !name.starts_with("leno-")
}

/// Changes a request's host and path. `matched` is the path match that selected the rule.
pub(crate) fn rewrite(request: &mut FieldSection, rewrite: &Rewrite, matched: &PathMatch) {
    if let Some(hostname) = &rewrite.hostname {
        request.remove(Known::Host);
        request.set(Known::Authority, hostname.as_bytes());
    }
    if rewrite.path.is_some()
        && let Some(path) = request.get(Known::Path)
    {
        let path = rewrite.path(path, matched).into_owned();
        request.set(Known::Path, &path);
    }
}

#[cfg(test)]
#[path = "filter_tests.rs"]
mod tests;
