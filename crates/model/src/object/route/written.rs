//! Parts of route manifests that several kinds of routes share, as users write them.
//!
//! These are our own types, because Kubernetes' Rust types have two faults. They repeat a type for each field in which
//! it occurs, and they cannot represent unknown values. A test compares our types with Kubernetes' types.

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny};

/// A field that is allowed, but whose content Leno ignores.
#[derive(Debug)]
pub(crate) struct Unread;

impl<'de> Deserialize<'de> for Unread {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(IgnoredAny).map(|_| Self)
    }
}

/// A parent of a route.
#[derive(Debug, Default, Deserialize)]
#[serde(rename = "ParentReference", rename_all = "camelCase", default)]
pub(crate) struct ParentRef {
    pub(super) group: Option<String>,
    pub(super) kind: Option<String>,
    pub(super) namespace: Option<String>,
    pub(super) name: String,
    pub(super) section_name: Option<String>,
    pub(super) port: Option<i32>,
}

/// A backend of requests.
#[derive(Debug, Default, Deserialize)]
#[serde(rename = "BackendRef", rename_all = "camelCase", default)]
pub(crate) struct BackendRef {
    pub(super) group: Option<String>,
    pub(super) kind: Option<String>,
    pub(super) namespace: Option<String>,
    pub(super) name: String,
    pub(super) port: Option<i32>,
    pub(super) weight: Option<i32>,
    pub(super) filters: Option<Vec<Filter>>,
}

/// A filter of an HTTPRoute or a GRPCRoute.
#[derive(Debug, Default, Deserialize)]
#[serde(rename = "Filter", rename_all = "camelCase", default)]
pub(crate) struct Filter {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) request_header_modifier: Option<HeaderModifier>,
    pub(super) response_header_modifier: Option<HeaderModifier>,
    pub(super) request_mirror: Option<Mirror>,
    pub(super) request_redirect: Option<Redirect>,
    pub(super) url_rewrite: Option<Rewrite>,
    pub(super) cors: Option<Unread>,
    pub(super) external_auth: Option<Unread>,
    pub(super) extension_ref: Option<Unread>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename = "HTTPHeaderFilter", default)]
pub(crate) struct HeaderModifier {
    pub(super) set: Option<Vec<Header>>,
    pub(super) add: Option<Vec<Header>>,
    pub(super) remove: Option<Vec<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename = "HTTPHeader", default)]
pub(crate) struct Header {
    pub(super) name: String,
    pub(super) value: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename = "HTTPRequestMirrorFilter", rename_all = "camelCase", default)]
pub(crate) struct Mirror {
    pub(super) backend_ref: Option<MirrorRef>,
    pub(super) percent: Option<i32>,
    pub(super) fraction: Option<Fraction>,
}

/// The destination of copied requests.
#[derive(Debug, Default, Deserialize)]
#[serde(rename = "BackendObjectReference", default)]
pub(crate) struct MirrorRef {
    pub(super) group: Option<String>,
    pub(super) kind: Option<String>,
    pub(super) namespace: Option<String>,
    pub(super) name: String,
    pub(super) port: Option<i32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename = "Fraction", default)]
pub(crate) struct Fraction {
    pub(super) numerator: i32,
    pub(super) denominator: Option<i32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename = "HTTPRequestRedirectFilter", rename_all = "camelCase", default)]
pub(crate) struct Redirect {
    pub(super) scheme: Option<String>,
    pub(super) hostname: Option<String>,
    pub(super) path: Option<PathModifier>,
    pub(super) port: Option<i32>,
    pub(super) status_code: Option<i32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename = "HTTPURLRewriteFilter", default)]
pub(crate) struct Rewrite {
    pub(super) hostname: Option<String>,
    pub(super) path: Option<PathModifier>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename = "HTTPPathModifier", rename_all = "camelCase", default)]
pub(crate) struct PathModifier {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) replace_full_path: Option<String>,
    pub(super) replace_prefix_match: Option<String>,
}

/// A condition of a match, as written: a header field or query parameter, and its required value.
#[derive(Debug, Default, Deserialize)]
#[serde(rename = "HeaderMatch", default)]
pub(crate) struct NamedMatch {
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) name: String,
    pub(super) value: String,
}
