//! Results in the formats of other load generators.
//!
//! [`read()`] turns files of Fortio, ghz and others, and the lab's own directories, into [`Measured`] runs, so that
//! [`crate::compare`] can place them side by side. [`export`] and `leno lab run` write the lab's runs for other tools.
//!
//! ```text
//! file -> form -> fortio, ghz, brief, own -> Measured
//! lab.json and runs.jsonl -> fortio, smp -> files in OUT/fortio and OUT/smp
//! ```

mod brief;
pub mod export;
pub(crate) mod fortio;
mod ghz;
mod go_duration;
mod measured;
mod name;
mod own;
mod read;
mod smp;

#[cfg(test)]
pub(crate) mod fixtures;

pub use measured::{Form, Measured};
pub use read::read;
