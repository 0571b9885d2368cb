//! Reads the files of an experiment.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::error::{Error, Result, io};
use crate::experiment::record::{Experiment, Run};

/// An experiment and its runs.
#[derive(Debug, Clone)]
pub(crate) struct Recorded {
    pub(crate) experiment: Experiment,
    pub(crate) runs: Vec<Run>,
    /// Notes about damaged files, which the report shows to its reader.
    pub(crate) notes: Vec<String>,
}

/// Reads `lab.json` and `runs.jsonl` of `dir`.
pub(crate) fn read(dir: &Path) -> Result<Recorded> {
    let path = dir.join("lab.json");
    let experiment = serde_json::from_str(&text_of(&path)?).map_err(|error| {
        let path = path.display();
        Error::Usage(format!("{path}: {error}; is it from another version of leno? Run the experiment again"))
    })?;
    let path = dir.join("runs.jsonl");
    let (runs, notes) = runs(&text_of(&path)?, &path)?;
    Ok(Recorded { experiment, runs, notes })
}

fn text_of(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            let path = path.display();
            Error::Usage(format!("{path} does not exist; `leno lab run ... --out DIR` writes it into DIR"))
        }
        _ => io(format!("reading {}", path.display()))(error),
    })
}

/// Parses the runs in `text`. Returns a note if the last line is truncated, as it may be after an interrupted
/// experiment.
fn runs(text: &str, path: &Path) -> Result<(Vec<Run>, Vec<String>)> {
    let mut runs = Vec::new();
    let mut notes = Vec::new();
    for (index, line) in text.split_inclusive('\n').enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        match serde_json::from_str(line) {
            Ok(run) => runs.push(run),
            Err(_) if !line.ends_with('\n') => {
                let number = index + 1;
                notes.push(format!("The last line of runs.jsonl ({number}) was cut off and is left out."));
            }
            Err(error) => {
                // The parser counts lines from the start of `line`, not of the file. Report the line's number in the
                // file instead.
                let reason = error.to_string();
                let reason = reason.split(" at line ").next().unwrap_or_default();
                let (path, number, column) = (path.display(), index + 1, error.column());
                let fix = "remove the line, or run the experiment again";
                return Err(Error::Usage(format!("{path}:{number}:{column}: {reason}; {fix}")));
            }
        }
    }
    Ok((runs, notes))
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
