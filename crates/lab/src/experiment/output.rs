//! The files of an experiment, written run by run.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::{Error, Result, io as io_error};

const RUNS: &str = "runs.jsonl";
const EXPERIMENT: &str = "lab.json";
const LOGS: &str = "logs";

/// The directory of `--out`.
pub(crate) struct Output {
    dir: PathBuf,
    runs: File,
}

impl Output {
    /// Prepares the directory.
    ///
    /// # Errors
    /// If the directory already holds runs: the runs of both experiments would be mixed up, or lost.
    pub(crate) fn create(dir: &Path) -> Result<Self> {
        let runs = dir.join(RUNS);
        if fs::metadata(&runs).is_ok_and(|runs| runs.len() > 0) {
            let what = format!("--out {} already holds runs; use another directory or remove it", dir.display());
            return Err(Error::Usage(what));
        }
        fs::create_dir_all(dir.join(LOGS)).map_err(cannot_write(dir))?;
        let runs = File::options().append(true).create(true).open(&runs).map_err(cannot_write(&runs))?;
        Ok(Self { dir: dir.to_owned(), runs })
    }

    /// Directory for the programs' logs and configuration.
    pub(crate) fn logs(&self) -> PathBuf {
        self.dir.join(LOGS)
    }

    /// Appends a run in one write, so that the file has only whole lines even if the lab ends suddenly.
    pub(crate) fn append(&mut self, run: &impl Serialize) -> Result<()> {
        let mut write = || -> io::Result<()> {
            let mut line = serde_json::to_vec(run)?;
            line.push(b'\n');
            self.runs.write_all(&line)?;
            self.runs.sync_data()
        };
        write().map_err(cannot_write(&self.dir.join(RUNS)))
    }

    /// Writes the description of the experiment, and replaces an earlier description.
    pub(crate) fn describe(&self, experiment: &impl Serialize) -> Result<()> {
        let path = self.dir.join(EXPERIMENT);
        let unfinished = path.with_extension("json.new");
        let write = || -> io::Result<()> {
            fs::write(&unfinished, serde_json::to_string_pretty(experiment)? + "\n")?;
            fs::rename(&unfinished, &path)
        };
        write().map_err(cannot_write(&path))
    }

    /// Writes another file, for people to read.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.dir.join(name);
        fs::write(&path, text).map_err(cannot_write(&path))
    }
}

fn cannot_write(path: &Path) -> impl FnOnce(io::Error) -> Error {
    io_error(format!("--out: writing {}", path.display()))
}

#[cfg(test)]
#[path = "output_tests.rs"]
mod tests;
