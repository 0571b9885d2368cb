//! Request head: the parts of a request that route rules match.

use leno_http2::FieldSection;
use leno_http2::fields::Known;
use leno_model::route::RequestHead;

/// A request's fields, in the form that route rules match.
pub(crate) struct Head<'a>(pub(crate) &'a FieldSection);

impl RequestHead for Head<'_> {
    fn method(&self) -> &[u8] {
        self.0.get(Known::Method).unwrap_or_default()
    }

    fn path(&self) -> &[u8] {
        self.0.get(Known::Path).unwrap_or_default()
    }

    fn authority(&self) -> &[u8] {
        self.0.get(Known::Authority).unwrap_or_default()
    }

    fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.0.iter().filter(move |line| line.name == name.as_bytes()).map(|line| line.value)
    }
}

#[cfg(test)]
#[path = "request_head_tests.rs"]
mod tests;
