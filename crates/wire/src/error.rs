//! Why a resource of a control plane was not taken.

/// What is wrong in a resource; its text is one line that may go back to the control plane.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{resource}: {field}: {what}")]
pub struct Unreadable {
    /// The resource's name, cut to what a line should have; empty where it has none.
    pub resource: String,
    /// The field, in the words of its proto file.
    pub field: &'static str,
    /// What it should be.
    pub what: String,
}

impl Unreadable {
    /// What is wrong with a field of a resource.
    pub fn new(resource: &str, field: &'static str, what: impl Into<String>) -> Self {
        const SHOWN_MAX_CHARS: usize = 100;
        // What others wrote may have lines of its own.
        let in_line = |c: char| if c.is_control() { ' ' } else { c };
        let resource = resource.chars().take(SHOWN_MAX_CHARS).map(in_line).collect();
        Self { resource, field, what: what.into().chars().map(in_line).collect() }
    }
}
