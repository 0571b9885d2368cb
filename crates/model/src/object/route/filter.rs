//! Reads the filters of a rule or a backend. Filters change requests and responses.

use super::backend::{RouteFilters, reference};
use super::names::PATH_MAX_BYTES;
use super::written::{Filter, Fraction, Mirror, MirrorRef as WrittenRef, PathModifier, Redirect as WrittenRedirect};
use super::{ITEMS_MAX, MirrorRef, Reading, headers};
use crate::object::{HOSTNAME_RULE, is_hostname, port_number};
use crate::problem::quoted;
use crate::route::status::Reason;
use crate::route::{PathRewrite, Redirect, Rewrite, RouteKind, Scheme};

/// The types of filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    RequestHeaders,
    ResponseHeaders,
    Mirror,
    Redirect,
    Rewrite,
    Cors,
    ExternalAuth,
    Extension,
}

/// The name of each filter type, and its [`Kind`]. HTTPRoutes allow all of them, GRPCRoutes only the first
/// [`GRPC_KINDS`].
const KINDS: [(&str, Kind); 8] = [
    ("RequestHeaderModifier", Kind::RequestHeaders),
    ("ResponseHeaderModifier", Kind::ResponseHeaders),
    ("RequestMirror", Kind::Mirror),
    ("ExtensionRef", Kind::Extension),
    ("RequestRedirect", Kind::Redirect),
    ("URLRewrite", Kind::Rewrite),
    ("CORS", Kind::Cors),
    ("ExternalAuth", Kind::ExternalAuth),
];
const GRPC_KINDS: usize = 4;

/// Returns whether the filters contain a redirect. A redirect answers every request, so the rule needs no backend.
pub(in crate::object) fn needs_no_backend(filters: &RouteFilters) -> bool {
    filters.fixed.redirect.is_some()
}

/// Returns whether a filter replaces the prefix of the path that the path match has matched.
pub(in crate::object) fn has_prefix_rewrite(filters: &RouteFilters) -> bool {
    let redirect = filters.fixed.redirect.as_ref().and_then(|redirect| redirect.path.as_ref());
    let rewrite = filters.fixed.rewrite.as_ref().and_then(|rewrite| rewrite.path.as_ref());
    redirect.or(rewrite).is_some_and(|path| matches!(path, PathRewrite::Prefix(_)))
}

pub(super) fn read(field: &str, written: Vec<Filter>, reading: &mut Reading<'_, '_>) -> RouteFilters {
    reading.check_length(field, &written, ITEMS_MAX);
    let mut filters = RouteFilters::default();
    let mut seen = Vec::new();
    for (index, filter) in written.into_iter().enumerate() {
        let field = format!("{field}[{index}]");
        let known = match reading.kind {
            RouteKind::Http => &KINDS[..],
            RouteKind::Grpc => &KINDS[..GRPC_KINDS],
            RouteKind::Tls | RouteKind::Tcp | RouteKind::Service => &[],
        };
        let Some(kind) = reading.choose(&format!("{field}.type"), &filter.kind, known) else {
            continue;
        };
        check_fields(&field, kind, &filter, reading);
        if kind != Kind::Mirror && kind != Kind::Extension && seen.contains(&kind) {
            let what = format!("a second {}", filter.kind);
            reading.problem(&field, what, "make one of the two");
        }
        seen.push(kind);
        read_one(&field, filter, reading, &mut filters);
    }
    if filters.fixed.redirect.is_some() && filters.fixed.rewrite.is_some() {
        let what = "a request is either redirected or sent on";
        reading.problem(field, what, "remove the RequestRedirect or the URLRewrite");
    }
    filters
}

/// Reports a mistake if a filter lacks the field for its type, or has a field for another type. Records a refusal if
/// Leno does not support the type.
fn check_fields(field: &str, kind: Kind, filter: &Filter, reading: &mut Reading<'_, '_>) {
    let present = [
        ("requestHeaderModifier", Kind::RequestHeaders, filter.request_header_modifier.is_some()),
        ("responseHeaderModifier", Kind::ResponseHeaders, filter.response_header_modifier.is_some()),
        ("requestMirror", Kind::Mirror, filter.request_mirror.is_some()),
        ("requestRedirect", Kind::Redirect, filter.request_redirect.is_some()),
        ("urlRewrite", Kind::Rewrite, filter.url_rewrite.is_some()),
        ("cors", Kind::Cors, filter.cors.is_some()),
        ("externalAuth", Kind::ExternalAuth, filter.external_auth.is_some()),
        ("extensionRef", Kind::Extension, filter.extension_ref.is_some()),
    ];
    for (name, of, is_present) in present {
        if of == kind && !is_present {
            reading.problem(&format!("{field}.{name}"), format!("missing of a {}", filter.kind), "add it");
        } else if of != kind && is_present {
            let what = format!("not a field of a {}", filter.kind);
            reading.problem(&format!("{field}.{name}"), what, "remove it, or correct the type");
        }
    }
    if matches!(kind, Kind::Cors | Kind::ExternalAuth | Kind::Extension) {
        let what =
            format!("Leno does not support the filter {}; requests that match the rule are rejected", filter.kind);
        reading.refuse(&format!("{field}.type"), Reason::UnsupportedValue, what, "remove it");
    }
}

fn read_one(field: &str, filter: Filter, reading: &mut Reading<'_, '_>, into: &mut RouteFilters) {
    if let Some(written) = filter.request_header_modifier {
        let field = format!("{field}.requestHeaderModifier");
        into.fixed.request_headers = Some(headers::modifier(&field, written, reading));
    }
    if let Some(written) = filter.response_header_modifier {
        let field = format!("{field}.responseHeaderModifier");
        into.fixed.response_headers = Some(headers::modifier(&field, written, reading));
    }
    if let Some(written) = filter.request_mirror {
        into.mirrors.extend(mirror(&format!("{field}.requestMirror"), written, reading));
    }
    if let Some(written) = filter.request_redirect {
        into.fixed.redirect = redirect(&format!("{field}.requestRedirect"), written, reading);
    }
    if let Some(written) = filter.url_rewrite {
        let field = format!("{field}.urlRewrite");
        let path = written.path.and_then(|path| path_rewrite(&format!("{field}.path"), path, reading));
        let hostname = hostname(&format!("{field}.hostname"), written.hostname, reading);
        into.fixed.rewrite = Some(Rewrite { hostname, path });
    }
}

fn mirror(field: &str, written: Mirror, reading: &mut Reading<'_, '_>) -> Option<MirrorRef> {
    let Mirror { backend_ref, percent, fraction } = written;
    let to = reference(&format!("{field}.backendRef"), backend_ref.unwrap_or_else(WrittenRef::default), reading);
    if percent.is_some() && fraction.is_some() {
        reading.problem(field, "both a percent and a fraction", "keep one of them");
    }
    let (part, numerator, denominator) = match (percent, fraction) {
        (None, None) => ("percent", 100, 100),
        (Some(percent), _) => ("percent", percent, 100),
        (None, Some(Fraction { numerator, denominator })) => ("fraction", numerator, denominator.unwrap_or(100)),
    };
    match (u32::try_from(numerator), u32::try_from(denominator)) {
        (Ok(numerator), Ok(denominator)) if numerator <= denominator && denominator > 0 => {
            Some(MirrorRef { to, numerator, denominator })
        }
        _ => {
            let what = format!("{numerator} of {denominator} requests");
            reading.problem(&format!("{field}.{part}"), what, "copy none, some or all of them");
            None
        }
    }
}

fn redirect(field: &str, written: WrittenRedirect, reading: &mut Reading<'_, '_>) -> Option<Redirect> {
    const SCHEMES: [(&str, Scheme); 2] = [("http", Scheme::Http), ("https", Scheme::Https)];
    const STATUSES: [(&str, u16); 5] = [("301", 301), ("302", 302), ("303", 303), ("307", 307), ("308", 308)];
    let WrittenRedirect { scheme, hostname: host, path, port, status_code } = written;
    let scheme = scheme.map(|scheme| reading.choose(&format!("{field}.scheme"), &scheme, &SCHEMES));
    let status = status_code.unwrap_or(302).to_string();
    let status = reading.choose(&format!("{field}.statusCode"), &status, &STATUSES);
    let number = port.and_then(port_number);
    if let (Some(port), None) = (port, number) {
        reading.problem(&format!("{field}.port"), format!("{port} is not a port"), "use 1 to 65535");
    }
    Some(Redirect {
        scheme: scheme.flatten(),
        hostname: hostname(&format!("{field}.hostname"), host, reading),
        port: number,
        path: path.and_then(|path| path_rewrite(&format!("{field}.path"), path, reading)),
        status: status?,
    })
}

fn hostname(field: &str, written: Option<String>, reading: &mut Reading<'_, '_>) -> Option<Box<str>> {
    let hostname = written?;
    if !is_hostname(&hostname) {
        reading.problem(field, format!("{} is not the name of a host", quoted(&hostname)), HOSTNAME_RULE);
    }
    Some(hostname.into())
}

fn path_rewrite(field: &str, written: PathModifier, reading: &mut Reading<'_, '_>) -> Option<PathRewrite> {
    const KINDS: [(&str, bool); 2] = [("ReplaceFullPath", true), ("ReplacePrefixMatch", false)];
    let is_full = reading.choose(&format!("{field}.type"), &written.kind, &KINDS)?;
    let (full, prefix) = ("replaceFullPath", "replacePrefixMatch");
    let (name, value, other_name, other) = if is_full {
        (full, written.replace_full_path, prefix, written.replace_prefix_match)
    } else {
        (prefix, written.replace_prefix_match, full, written.replace_full_path)
    };
    if other.is_some() {
        let what = format!("not a field of a {}", written.kind);
        reading.problem(&format!("{field}.{other_name}"), what, "remove it, or correct the type");
    }
    let field = format!("{field}.{name}");
    let Some(path) = value else {
        reading.problem(&field, format!("missing of a {}", written.kind), "add it");
        return None;
    };
    let is_allowed = |byte: u8| byte.is_ascii_graphic() && !b"?#".contains(&byte);
    if path.len() > PATH_MAX_BYTES {
        let what = format!("{} bytes", path.len());
        reading.problem(&field, what, format!("use at most {PATH_MAX_BYTES}"));
    } else if !(path.is_empty() || path.starts_with('/') && path.bytes().all(is_allowed)) {
        let what = format!("{} is not a path", quoted(&path));
        let fix = "begin it with /, and leave the query out: a request keeps its own";
        reading.refuse(&field, Reason::UnsupportedValue, what, fix);
    }
    Some(if is_full { PathRewrite::Full(path.into()) } else { PathRewrite::Prefix(path.into()) })
}
