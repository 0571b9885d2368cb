//! The description of a measured publication: the file `publish.json`. The lab makes the reports from this file and the
//! experiments' own files alone.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::cost::Prices;
use super::name::Name;
use super::options::Scale;
use crate::error::{Error, Result, io};
use crate::experiment::record::{Machine, Skipped, Version};

/// Name of the file that holds the description.
pub(super) const FILE: &str = "publish.json";

/// The description of a measurement: its publication, options and machine, and the state of each experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Description {
    pub(super) publication: Name,
    pub(super) scale: Scale,
    /// The command line that repeats the measurement.
    pub(super) command: String,
    /// Start and end in UTC, in the format of RFC 3339. `ended` is `None` during the measurement, and after a crash.
    pub(super) started: String,
    pub(super) ended: Option<String>,
    pub(super) machine: Machine,
    /// The versions of the measured targets.
    pub(super) versions: Vec<Version>,
    /// The conditions that were not measured.
    pub(super) skipped: Vec<Skipped>,
    /// Whether the load was a debug build. The figures of a debug build are meaningless.
    pub(super) is_debug_build: bool,
    /// The options that replaced durations or the number of repeats, each as a sentence.
    pub(super) changes: Vec<String>,
    pub(super) prices: Prices,
    pub(super) steps: Vec<StepRecord>,
    /// Whether Ctrl-C, SIGTERM or SIGHUP ended the measurement.
    pub(super) is_interrupted: bool,
}

/// An experiment of the publication.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct StepRecord {
    /// The experiment's subdirectory.
    pub(super) name: String,
    /// The command line that repeats this experiment alone.
    pub(super) command: String,
    pub(super) state: State,
}

/// The state of an experiment of a publication.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum State {
    Waiting,
    Running,
    Done,
    /// The experiment failed; the text is the reason.
    Failed(String),
}

/// Reads the description in `dir`.
///
/// # Errors
/// If the description is missing or cannot be parsed.
pub(super) fn read(dir: &Path) -> Result<Description> {
    let path = dir.join(FILE);
    let text = fs::read_to_string(&path).map_err(io(format!("reading {}", path.display())))?;
    serde_json::from_str(&text).map_err(|error| {
        let path = path.display();
        Error::Usage(format!("{path}: {error}; is it from another version of leno? Run leno lab publish again"))
    })
}

/// Writes the description, and replaces an earlier version of the file.
pub(super) fn write(dir: &Path, description: &Description) -> Result<()> {
    let json =
        serde_json::to_string_pretty(description).map_err(|error| io("describing the publication")(error.into()))?;
    replace(&dir.join(FILE), &(json + "\n"))
}

/// Replaces a file as a whole, so that no reader sees only a part of the new text.
pub(super) fn replace(path: &Path, text: &str) -> Result<()> {
    let unfinished = path.with_extension("new");
    let written = fs::write(&unfinished, text).and_then(|()| fs::rename(&unfinished, path));
    written.map_err(io(format!("--out: writing {}", path.display())))
}
