//! JSON Patch (RFC 6902): changes to an object, in order.
//!
//! The crate json-patch cannot replace this module, because it does not keep the order of an object's members. It moves
//! the last member to the position of a removed member, but the members of users' manifests must keep their order.

use serde::Serialize;
use serde_json::Value;

/// One change. Paths are JSON Pointers (RFC 6901).
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum Operation {
    /// Adds a value or replaces an object's member. In a list, inserts before the item with that index, or appends with
    /// `-`.
    Add {
        path: String,
        value: Value,
    },
    Remove {
        path: String,
    },
}

/// Error: a path of the patch does not exist in the object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no {0} to change")]
pub struct Misfit(String);

impl Operation {
    /// Returns the same change for an object that contains the original object at `prefix`.
    #[must_use]
    pub fn within(self, prefix: &str) -> Self {
        match self {
            Self::Add { path, value } => Self::Add { path: format!("{prefix}{path}"), value },
            Self::Remove { path } => Self::Remove { path: format!("{prefix}{path}") },
        }
    }
}

/// Applies the changes to `document`, in order.
///
/// # Errors
/// If the path of a change does not exist. The error has this path. `document` keeps the earlier changes.
pub fn apply(document: &mut Value, operations: &[Operation]) -> Result<(), Misfit> {
    operations.iter().try_for_each(|operation| {
        let (Operation::Add { path, .. } | Operation::Remove { path }) = operation;
        change(document, path, operation).ok_or_else(|| Misfit(path.clone()))
    })
}

fn change(document: &mut Value, path: &str, operation: &Operation) -> Option<()> {
    let (parent, last) = path.rsplit_once('/')?;
    match (document.pointer_mut(parent)?, operation) {
        (Value::Object(members), Operation::Add { value, .. }) => {
            members.insert(unescape(last), value.clone());
        }
        (Value::Object(members), Operation::Remove { .. }) => {
            members.shift_remove(&unescape(last))?;
        }
        (Value::Array(items), Operation::Add { value, .. }) => {
            let at = if last == "-" { items.len() } else { last.parse().ok().filter(|at| *at <= items.len())? };
            items.insert(at, value.clone());
        }
        (Value::Array(items), Operation::Remove { .. }) => {
            let at = last.parse().ok().filter(|at| *at < items.len())?;
            items.remove(at);
        }
        _ => return None,
    }
    Some(())
}

/// Escapes a member's name for a path (RFC 6901 section 3).
pub fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

pub(crate) fn unescape(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

#[cfg(test)]
#[path = "patch_tests.rs"]
mod tests;
