//! Replaces an AuthorizationPolicy with mistakes by a policy that allows no caller.
//!
//! Without the replacement, the default inbound policy would apply, which may allow every caller. The replacement
//! selects as little as the text permits:
//!
//! - the policy's target if the target can be read, otherwise the whole namespace;
//! - the policy's ports if the ports can be read, otherwise every port.

use std::collections::BTreeSet;

use super::decode::decode;
use super::review::{Findings, Review};
use super::tree::Node;
use super::{Refused, SourceFile};
use crate::object::{AuthorizationPolicy, Identity, Object, authorization_policy, is_dns_label, is_dns_subdomain};
use crate::policy;
use crate::problem::{Mark, Problem};

/// Name of the replacement policy if the name of the original policy cannot be read.
const UNNAMED: &str = "unreadable";

/// Returns the replacement for the policy in a document. `None` if the policy's mode is `Audit`, because a policy in
/// this mode rejects no call.
pub(super) fn of_document(document: &Node, file: &str, default_namespace: &str) -> Option<AuthorizationPolicy> {
    let spec = document.get("spec");
    let field = |key: &str| spec.and_then(|spec| spec.get(key));
    if field("mode").and_then(Node::text) == Some("Audit") {
        return None;
    }
    let metadata = |key: &str| document.get("metadata")?.get(key)?.text();
    let namespace = metadata("namespace").filter(|name| is_dns_label(name)).unwrap_or(default_namespace);
    let Some(name) = metadata("name").filter(|name| is_dns_subdomain(name)) else {
        return Some(of_namespace(namespace, UNNAMED, file, document.mark));
    };
    let target = field("targetRef").and_then(|node| decode(node).ok());
    let account = target.and_then(|target| {
        without_mistake(document, file, |review| authorization_policy::service_account(target, namespace, review))
    });
    let ports = field("ports").and_then(|node| decode::<Vec<i32>>(node).ok());
    let ports = ports.and_then(|written| {
        without_mistake(document, file, |review| Some(authorization_policy::ports(&written, review)))
    });
    let policy = policy::AuthorizationPolicy::unreadable(namespace, name, account, ports);
    Some(object(policy, file, document.mark))
}

/// Returns the result of `read`, but `None` if `read` reports a mistake.
fn without_mistake<T>(document: &Node, file: &str, read: impl FnOnce(&mut Review<'_>) -> Option<T>) -> Option<T> {
    let mut findings = Findings::new(file);
    let mut review = Review::new(&mut findings, document, authorization_policy::KIND, "");
    read(&mut review).filter(|_| review.is_clean())
}

/// Returns replacements for the policies in a text that cannot be parsed or is too large.
///
/// A document may contain a policy if it contains the kind and the API group of AuthorizationPolicies. Each namespace
/// that such a document names gets a replacement.
pub(super) fn of_text(text: &str, file: &str, default_namespace: &str) -> Vec<Object> {
    let mut named = BTreeSet::new();
    for document in text.split("\n---") {
        if !document.contains(authorization_policy::KIND) || !document.contains(authorization_policy::GROUP) {
            continue;
        }
        let mut found = namespaces(document).peekable();
        if found.peek().is_none() {
            named.insert(default_namespace);
        }
        named.extend(found);
    }
    let mark = Mark { line: 1, column: 1 };
    named.into_iter().map(|name| Object::AuthorizationPolicy(of_namespace(name, UNNAMED, file, mark))).collect()
}

/// Returns every word that is the value of a key `namespace` in the text.
fn namespaces(text: &str) -> impl Iterator<Item = &str> {
    text.split("namespace").skip(1).filter_map(|after| {
        let value = after.trim_start_matches(['"', '\'']).trim_start().strip_prefix(':')?;
        let value = value.trim_start().trim_start_matches(['"', '\'']);
        let end =
            value.find(|c: char| !c.is_ascii_lowercase() && !c.is_ascii_digit() && c != '-').unwrap_or(value.len());
        value.get(..end).filter(|name| is_dns_label(name))
    })
}

/// Returns a replacement that selects the whole namespace, for a policy whose target is unknown.
fn of_namespace(namespace: &str, name: &str, file: &str, mark: Mark) -> AuthorizationPolicy {
    object(policy::AuthorizationPolicy::unreadable(namespace, name, None, None), file, mark)
}

fn object(policy: policy::AuthorizationPolicy, file: &str, mark: Mark) -> AuthorizationPolicy {
    let (namespace, name) = (policy.namespace.clone(), policy.name.clone());
    let identity = Identity { namespace, name, file: file.into(), mark, created_s: 0 };
    AuthorizationPolicy { identity, policy: policy.into() }
}

impl Refused {
    /// Creates the result for a text that cannot be parsed.
    ///
    /// A document may contain an AuthorizationPolicy if it contains the kind and the API group of this kind. Each
    /// namespace that such a document names gets a replacement policy.
    pub fn of_text(problem: Problem, file: &SourceFile, default_namespace: &str) -> Self {
        let policies = of_text(&file.text, &file.path, default_namespace);
        Self { problems: vec![problem], policies, is_tree: false }
    }

    /// Returns the replacement for a rejected policy. It selects as little as the policy's text permits, or the whole
    /// namespace if the text cannot be parsed. `None` if the policy's mode is `Audit`.
    pub fn into_policy(self, namespace: &str, name: &str) -> Option<Object> {
        match self.policies.into_iter().next() {
            Some(policy) => Some(policy),
            None if self.is_tree => None,
            None => Some(Object::AuthorizationPolicy(of_namespace(namespace, name, "", Mark::default()))),
        }
    }
}

impl From<Vec<Problem>> for Refused {
    fn from(problems: Vec<Problem>) -> Self {
        Self { problems, policies: Vec::new(), is_tree: true }
    }
}

#[cfg(test)]
#[path = "stand_in_tests.rs"]
mod tests;
