//! Experiments: real proxies between a load and real servers, run after run, and their records.

mod bytes;
mod cases;
mod ceiling;
mod limits;
mod list;
mod machine;
mod measure;
mod memory;
mod meter;
mod options;
mod output;
mod progress;
pub mod record;
mod recovery;
mod runner;
mod scenario;
mod schedule;

pub use list::{ListOptions, list};
pub(crate) use machine::started;
pub use options::{Options, Rate};
pub(crate) use output::Output;
pub use runner::run;
