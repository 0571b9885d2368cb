//! Service Mesh Performance (SMP): YAML documents of the schema's four messages.
//!
//! The schema defines messages and no files. So each file has one message, and the file's name contains the message's
//! kind: `RUN.test.yaml`, `RUN.result.yaml`, `RUN.mesh.yaml`, `RUN.environment.yaml`. The result refers to the other
//! three messages by their ids.

mod documents;
mod environment;

use std::fs;
use std::path::{Path, PathBuf};

use leno_install::yaml;

use super::{name, own};
use crate::error::{Result, io};
use crate::experiment::record::{Experiment, Run};

/// Directory for the SMP files within an experiment's directory.
pub(super) const DIR: &str = "smp";

/// Writes the files of a run. Returns the path of its result, or `None` for a run without latencies.
///
/// # Errors
/// If a file cannot be written.
pub(super) fn write(out: &Path, experiment: &Experiment, run: &Run) -> Result<Option<PathBuf>> {
    if !own::has_latencies(run) {
        return Ok(None);
    }
    let dir = out.join(DIR);
    fs::create_dir_all(&dir).map_err(io(format!("writing {}", dir.display())))?;
    let path = |kind: &str| dir.join(format!("{}.{kind}.yaml", name::file_stem(run)));
    for (kind, _, document) in documents::of(experiment, run) {
        let path = path(kind);
        fs::write(&path, yaml::write(&document)).map_err(io(format!("writing {}", path.display())))?;
    }
    Ok(Some(path(documents::RESULT)))
}
