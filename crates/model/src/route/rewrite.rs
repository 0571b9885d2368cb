//! Changing a request's host and path.

use std::borrow::Cow;

use serde::Serialize;

use super::PathMatch;
use super::path::{after_prefix, split_query};

/// What a request is changed to before it goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Rewrite {
    /// The new authority, a host name.
    pub hostname: Option<Box<str>>,
    /// The new path.
    pub path: Option<PathRewrite>,
}

/// How a path is changed; the query stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PathRewrite {
    /// To this path.
    Full(Box<str>),
    /// The prefix that matched becomes this one.
    Prefix(Box<str>),
}

impl Rewrite {
    /// The path, with its query, to go on with; `matched` is what the request's path matched.
    pub fn path<'a>(&self, path: &'a [u8], matched: &PathMatch) -> Cow<'a, [u8]> {
        rewritten(path, self.path.as_ref(), matched)
    }
}

/// Changes `path`, which has its query. A prefix is replaced only in a path that matched a prefix: routes in which it
/// might be otherwise are not accepted.
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
