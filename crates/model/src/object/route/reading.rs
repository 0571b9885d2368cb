//! Reads the parts that all kinds of routes have in common.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::written::{BackendRef, Filter, ParentRef};
use super::{ITEMS_MAX, MATCHES_MAX, ROUTE_MATCHES_MAX, RULES_MAX, Refusal, Route, RouteFilters, RouteRule, Spot};
use super::{backend, filter, has_prefix_rewrite, needs_no_backend, parent};
use crate::manifest::Review;
use crate::object::{DNS_SUBDOMAIN_RULE, Object, identity, is_dns_subdomain};
use crate::problem::quoted;
use crate::route::status::Reason;
use crate::route::{Match, PathMatch, Pattern, RouteKind, TABLE_MAX_BYTES};
use crate::spelling::closest;
use crate::traffic::CallPolicy;

/// The state while one route is read.
pub(in crate::object) struct Reading<'r, 'a> {
    review: &'r mut Review<'a>,
    /// The kind of the route.
    pub(in crate::object) kind: RouteKind,
    /// Refusals of the rule that is being read.
    refusals: Vec<Refusal>,
    rules: Vec<RouteRule>,
    remarks: Vec<Box<str>>,
    /// Size in bytes of the patterns compiled so far.
    pattern_bytes: usize,
}

/// A rule as written, except for its matches and call settings, which the code for the route's kind has already read.
pub(in crate::object) struct RuleParts {
    pub(in crate::object) name: Option<String>,
    pub(in crate::object) matches: Vec<Match>,
    pub(in crate::object) filters: Vec<Filter>,
    pub(in crate::object) backend_refs: Vec<BackendRef>,
    pub(in crate::object) calls: CallPolicy,
}

impl<'r, 'a> Reading<'r, 'a> {
    pub(in crate::object) fn new(kind: RouteKind, review: &'r mut Review<'a>) -> Self {
        Self { review, kind, refusals: Vec::new(), rules: Vec::new(), remarks: Vec::new(), pattern_bytes: 0 }
    }

    /// Reports a mistake.
    pub(in crate::object) fn problem(&mut self, field: &str, what: impl Into<String>, fix: impl Into<String>) {
        self.review.problem(field, what, fix);
    }

    /// Adds a notice; the route stays valid.
    pub(in crate::object) fn notice(&mut self, field: &str, what: impl Into<String>) {
        self.review.notice(field, what);
    }

    /// Adds a notice that the route's status repeats; the route stays valid.
    pub(in crate::object) fn remark(&mut self, field: &str, what: String) {
        self.remarks.push(format!("{field}: {what}").into());
        self.notice(field, what);
    }

    /// Records that the mesh does not support a part of the rule that is being read.
    pub(in crate::object) fn refuse(
        &mut self,
        field: &str,
        reason: Reason,
        what: impl Into<String>,
        fix: impl Into<String>,
    ) {
        let spot = self.spot(field);
        self.refusals.push(Refusal { spot, reason, what: what.into(), fix: fix.into() });
    }

    /// Returns whether another pattern may be compiled. Once the patterns exceed the limit of any table of routes, the
    /// route will be rejected, so further patterns are not compiled. Otherwise, a route of 4,000 short patterns would
    /// take 64 MiB.
    pub(in crate::object) fn may_compile(&self) -> bool {
        self.pattern_bytes <= TABLE_MAX_BYTES
    }

    /// Adds the size of a compiled pattern to `pattern_bytes`.
    pub(in crate::object) fn compiled(&mut self, pattern: &Pattern) {
        self.pattern_bytes += pattern.size_bytes();
    }

    /// Returns the route's kind and name in the form that messages use.
    pub(in crate::object) fn object(&self) -> &str {
        self.review.object()
    }

    /// Returns the path of a field, and its position in the file.
    pub(in crate::object) fn spot(&self, field: &str) -> Spot {
        Spot { field: field.into(), mark: self.review.mark(field) }
    }

    /// Reports a mistake if a list has more than `max` items.
    pub(in crate::object) fn check_length<T>(&mut self, field: &str, list: &[T], max: usize) {
        if list.len() > max {
            let what = format!("{} items", list.len());
            self.problem(field, what, format!("use at most {max}"));
        }
    }

    /// Returns the value in `known` whose name is `written`. If no name is equal, reports a problem in `field`.
    pub(in crate::object) fn choose<T: Copy>(&mut self, field: &str, written: &str, known: &[(&str, T)]) -> Option<T> {
        if let Some((_, value)) = known.iter().find(|(name, _)| *name == written) {
            return Some(*value);
        }
        let names = known.iter().map(|(name, _)| *name);
        if written.is_empty() {
            let fix = format!("write one of {}", names.collect::<Vec<_>>().join(", "));
            self.problem(field, "missing", fix);
            return None;
        }
        let fix = match closest(written, names.clone()) {
            Some(meant) => format!("did you mean {meant}?"),
            None => format!("use one of {}", names.collect::<Vec<_>>().join(", ")),
        };
        self.problem(field, format!("{} is not one of its values", quoted(written)), fix);
        None
    }

    /// Adds a notice that `hostnames` have no effect in a route that is attached to a Service.
    pub(in crate::object) fn hostnames(&mut self, hostnames: &[String]) {
        if !hostnames.is_empty() {
            let what =
                "ignored: a Service's routes apply to all calls to it; to distinguish names, match the header host";
            self.notice("spec.hostnames", what);
        }
    }

    /// Checks the rule at `index` of `spec.rules`, and adds it to the route.
    pub(in crate::object) fn rule(&mut self, index: usize, parts: RuleParts) {
        let field = format!("spec.rules[{index}]");
        let name = parts.name.map(|name| self.rule_name(&field, name));
        let filters_field = format!("{field}.filters");
        if self.kind.is_of_requests() {
            self.check_length(&format!("{field}.matches"), &parts.matches, MATCHES_MAX);
        }
        let filters = filter::read(&filters_field, parts.filters, self);
        let backends_field = format!("{field}.backendRefs");
        self.check_length(&backends_field, &parts.backend_refs, ITEMS_MAX);
        let mut backends = Vec::new();
        for (index, written) in parts.backend_refs.into_iter().enumerate() {
            backends.extend(backend::read(&format!("{backends_field}[{index}]"), written, self));
        }
        if needs_no_backend(&filters) && !backends.is_empty() {
            let what = "a rule that redirects cannot have backends";
            self.problem(&backends_field, what, "remove the backendRefs or the RequestRedirect");
        }
        if needs_no_backend(&filters) && !filters.mirrors.is_empty() {
            let what = "the RequestMirror has no effect: a rule that redirects sends no requests that could be copied";
            self.notice(&filters_field, what);
        }
        let rewrites = |filters: &RouteFilters| filters.fixed.rewrite.is_some();
        if rewrites(&filters) && backends.iter().any(|backend| rewrites(&backend.filters)) {
            let what = "both the rule and a backend have a URLRewrite";
            self.refuse(&filters_field, Reason::IncompatibleFilters, what, "move the rule's to each of its backends");
        }
        let has_prefix = matches!(parts.matches.as_slice(), [Match { path: PathMatch::Prefix(_), .. }]);
        let replaces = has_prefix_rewrite(&filters) || backends.iter().any(|b| has_prefix_rewrite(&b.filters));
        if replaces && !has_prefix {
            let what = "ReplacePrefixMatch needs exactly one match, a PathPrefix";
            self.problem(&filters_field, what, "write one rule for each PathPrefix, or use ReplaceFullPath");
        }
        self.rules.push(RouteRule {
            name,
            matches: parts.matches.into_iter().map(Arc::new).collect(),
            filters,
            backends: backends.into(),
            calls: parts.calls,
            refusals: std::mem::take(&mut self.refusals),
        });
    }

    fn rule_name(&mut self, rule: &str, name: String) -> Box<str> {
        let field = format!("{rule}.name");
        if !is_dns_subdomain(&name) {
            self.problem(&field, format!("{} is not a name", quoted(&name)), DNS_SUBDOMAIN_RULE);
        }
        if self.rules.iter().any(|other| other.name.as_deref() == Some(&*name)) {
            let what = format!("{} is the name of another rule already", quoted(&name));
            self.problem(&field, what, "use another name");
        }
        name.into()
    }

    /// Returns the route, if it is valid.
    pub(in crate::object) fn finish(mut self, metadata: &ObjectMeta, parents: Vec<ParentRef>) -> Option<Object> {
        let parents = parent::read(parents, &mut self);
        let rules = std::mem::take(&mut self.rules);
        self.check_length("spec.rules", &rules, RULES_MAX);
        let route = Route {
            identity: identity(metadata, self.review, is_dns_subdomain, DNS_SUBDOMAIN_RULE),
            kind: self.kind,
            created: metadata.creation_timestamp.as_ref().map(|created| created.0.as_second()),
            parents,
            rules: rules.into(),
            remarks: std::mem::take(&mut self.remarks).into(),
            pattern_bytes: self.pattern_bytes,
        };
        let matches = route.match_count();
        if self.kind.is_of_requests() && matches > ROUTE_MATCHES_MAX {
            let what = format!("{matches} matches in all rules");
            self.problem("spec.rules", what, format!("use at most {ROUTE_MATCHES_MAX}, or several routes"));
        }
        self.review.is_clean().then_some(Object::Route(route))
    }
}
