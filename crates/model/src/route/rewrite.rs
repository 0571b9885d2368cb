//! Rewrites a request's host and path.

use std::borrow::Cow;

use serde::Serialize;

use super::PathMatch;
use super::path::{after_prefix, split_query};

/// The changes to a request before it is forwarded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Rewrite {
    /// The new authority, a host name.
    pub hostname: Option<Box<str>>,
    /// The new path.
    pub path: Option<PathRewrite>,
}

/// The change of a path. The query of the request stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PathRewrite {
    /// Replaces the whole path.
    Full(Box<str>),
    /// Replaces the matched prefix.
    Prefix(Box<str>),
}

impl Rewrite {
    /// Returns the new path with its query; `matched` is the condition that the request's path matched.
    pub fn path<'a>(&self, path: &'a [u8], matched: &PathMatch) -> Cow<'a, [u8]> {
        rewritten(path, self.path.as_ref(), matched)
    }
}

/// Returns `path`, which includes the query, with `change` applied. To replace a prefix, the rule must have matched a
/// prefix; the reader rejects other routes that replace a prefix.
pub(super) fn rewritten<'a>(path: &'a [u8], change: Option<&PathRewrite>, matched: &PathMatch) -> Cow<'a, [u8]> {
    let (old, query) = split_query(path);
    let mut new = match (change, matched) {
        (Some(PathRewrite::Full(full)), _) => full.as_bytes().to_vec(),
        (Some(PathRewrite::Prefix(replacement)), PathMatch::Prefix(prefix)) => {
            let Some(rest) = after_prefix(old, prefix) else {
                return Cow::Borrowed(path);
            };
            [replacement.trim_end_matches('/').as_bytes(), rest].concat()
        }
        _ => return Cow::Borrowed(path),
    };
    if new.is_empty() {
        new.push(b'/');
    }
    new.extend_from_slice(query);
    Cow::Owned(new)
}

#[cfg(test)]
#[path = "rewrite_tests.rs"]
mod tests;
