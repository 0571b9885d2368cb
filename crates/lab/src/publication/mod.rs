//! Published comparisons, measured again: `leno lab publish`.
//!
//! Each publication is data in a file of its own; `definition` has the types. Its conditions are the systems that it
//! compares: meshes, other proxies, and Kubernetes without a mesh. One runner and one writer serve all publications:
//!
//! options -> plan -> (session, experiment::run) -> runs -> figures -> (standing, sheet, notes) -> document -> files

mod about;
mod cost;
mod definition;
mod document;
mod figures;
mod five_meshes;
mod interruption;
mod json;
mod kinvolk;
mod ladder;
mod markdown;
mod name;
mod notes;
mod options;
mod page;
mod plan;
mod record;
mod report;
mod runner;
mod session;
mod sheet;
mod slow_pod;
mod standing;
mod terminal;

#[cfg(test)]
#[path = "example_tests.rs"]
mod example;

pub(crate) use about::write_page;
pub use name::Name;
pub use options::{Options, Scale};
pub(crate) use report::{is_publication, write};
pub use runner::run;
