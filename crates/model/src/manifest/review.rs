//! Collects mistakes and notices while a file or an object is read.

use std::sync::Arc;

use super::FINDINGS_MAX;
use super::tree::Node;
use crate::problem::{Mark, Notice, Place, Problem};

/// The findings in one file so far.
#[derive(Debug)]
pub(crate) struct Findings {
    file: Arc<str>,
    problems: Vec<Problem>,
    /// Number of problems, including those beyond [`FINDINGS_MAX`], which are not reported. An object is invalid even
    /// if none of its mistakes is reported.
    problem_count: usize,
    notices: Vec<Notice>,
}

impl Findings {
    pub(crate) fn new(path: &str) -> Self {
        Self { file: path.into(), problems: Vec::new(), problem_count: 0, notices: Vec::new() }
    }

    /// Returns the number of problems so far, reported or not.
    pub(super) fn problem_count(&self) -> usize {
        self.problem_count
    }

    /// Adds a problem of the whole file, not of one object.
    pub(super) fn file_problem(&mut self, mark: Mark, what: String, fix: String) {
        // The parser may return line 0 or column 0, but positions in messages begin at line 1, column 1.
        let mark = mark.max(Mark { line: 1, column: 1 });
        let place = Place { file: self.file.clone(), mark, field: String::new(), object: String::new() };
        self.add(Problem { place, what, fix });
    }

    pub(crate) fn into_parts(self) -> (Vec<Problem>, Vec<Notice>) {
        (self.problems, self.notices)
    }

    fn add(&mut self, problem: Problem) {
        self.problem_count += 1;
        if self.problems.len() < FINDINGS_MAX {
            self.problems.push(problem);
        }
    }
}

/// Collects the findings about one object, and looks up the position of each field that a finding names.
#[derive(Debug)]
pub(crate) struct Review<'a> {
    findings: &'a mut Findings,
    /// The object's tree, in which positions are looked up; `None` if the object does not come from text.
    root: Option<&'a Node>,
    object: String,
    default_namespace: &'a str,
    problems_before: usize,
}

impl<'a> Review<'a> {
    pub(super) fn new(findings: &'a mut Findings, root: &'a Node, kind: &str, default_namespace: &'a str) -> Self {
        let metadata = |key: &str| root.get("metadata")?.get(key)?.text();
        let namespace = metadata("namespace").unwrap_or(default_namespace);
        let object = match metadata("name") {
            Some(name) => one_line(&format!("{kind} {namespace}/{name}")),
            None => one_line(kind),
        };
        let problems_before = findings.problem_count;
        Self { findings, root: Some(root), object, default_namespace, problems_before }
    }

    /// Creates a review of an object that does not come from text. `name` has the form `namespace/name`.
    pub(crate) fn of_typed(findings: &'a mut Findings, kind: &str, name: &str) -> Self {
        let object = one_line(&format!("{kind} {name}"));
        // There is no default namespace, because the API server has set the namespace of each object.
        Self { findings, root: None, object, default_namespace: "", problems_before: 0 }
    }

    /// Returns the namespace of objects whose metadata contain no namespace.
    pub(crate) fn default_namespace(&self) -> &'a str {
        self.default_namespace
    }

    /// Returns whether the object comes from an API server and not from text.
    pub(crate) fn is_typed(&self) -> bool {
        self.root.is_none()
    }

    /// Returns the object's kind and name in the form that messages use.
    pub(crate) fn object(&self) -> &str {
        &self.object
    }

    /// The file being reviewed.
    pub(crate) fn file(&self) -> Arc<str> {
        self.findings.file.clone()
    }

    /// Returns the position of `field`. If the field does not exist, returns the position of its nearest existing
    /// parent.
    pub(crate) fn mark(&self, field: &str) -> Mark {
        self.root.map(|root| root.locate(field)).unwrap_or_default()
    }

    /// Returns whether no mistake in this object has been reported so far.
    pub(crate) fn is_clean(&self) -> bool {
        self.findings.problem_count == self.problems_before
    }

    /// Reports a mistake in `field`, a path such as `spec.ports[0].port`.
    pub(crate) fn problem(&mut self, field: &str, what: impl Into<String>, fix: impl Into<String>) {
        self.problem_at(self.mark(field), field, what.into(), fix.into());
    }

    pub(super) fn problem_at(&mut self, mark: Mark, field: &str, what: String, fix: String) {
        let place = self.place(mark, field);
        self.findings.add(Problem { place, what, fix });
    }

    /// Adds a notice about `field`; the object stays valid.
    pub(crate) fn notice(&mut self, field: &str, what: impl Into<String>) {
        let place = self.place(self.mark(field), field);
        if self.findings.notices.len() < FINDINGS_MAX {
            self.findings.notices.push(Notice { place, what: what.into() });
        }
    }

    fn place(&self, mark: Mark, field: &str) -> Place {
        Place { file: self.file(), mark, field: one_line(field), object: self.object.clone() }
    }
}

/// Replaces control characters in a name from a file, so that the name cannot break a log line, and truncates a long
/// name.
fn one_line(text: &str) -> String {
    const NAME_MAX_CHARS: usize = 200;
    let printable = |c: char| if c.is_control() { '?' } else { c };
    text.chars().take(NAME_MAX_CHARS).map(printable).collect()
}
