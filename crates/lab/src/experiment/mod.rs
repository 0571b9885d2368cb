//! Experiments: real proxies between a load and real servers, run after run, and their records.

mod bytes;
mod capacity;
mod cases;
mod ceiling;
mod description;
mod findings;
mod footprint;
mod graph;
mod limits;
mod list;
mod machine;
mod measure;
mod memory;
mod meter;
mod methods;
mod options;
mod output;
mod progress;
pub mod record;
mod recovery;
mod refusals;
mod rollout;
mod runner;
mod scenario;
mod schedule;
mod search;
mod steady;
mod traffic_options;
mod turn;

pub use list::{ListOptions, Listed, list};
pub(crate) use machine::started;
pub use options::{Options, Rate};
pub(crate) use output::Output;
pub use runner::run;
pub(crate) use runner::{command, expected_duration, prepare, run_as};
pub use traffic_options::TrafficOptions;
