//! The error for a control plane's resource that the proxy rejects.

/// The error in a resource. Its text is one line, so that it can be sent back to the control plane.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{resource}: {field}: {what}")]
pub struct Unreadable {
    /// The resource's name, shortened; empty if it has none.
    pub resource: String,
    /// The field's name in its proto file.
    pub field: &'static str,
    /// What is wrong with the field.
    pub what: String,
}

impl Unreadable {
    pub fn new(resource: &str, field: &'static str, what: impl Into<String>) -> Self {
        const SHOWN_MAX_CHARS: usize = 100;
        // Replace control characters, because a peer's text may contain line breaks.
        let in_line = |c: char| if c.is_control() { ' ' } else { c };
        let resource = resource.chars().take(SHOWN_MAX_CHARS).map(in_line).collect();
        Self { resource, field, what: what.into().chars().map(in_line).collect() }
    }
}
