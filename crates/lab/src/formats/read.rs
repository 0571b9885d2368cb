//! Reads results in every supported file format.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::measured::{Form, Measured};
use super::{brief, fortio, ghz, own};
use crate::error::{Error, Result, io as io_error};

/// Largest file of another tool, in bytes. ghz writes 130 bytes for each call, so the limit allows 2 million calls.
const FILE_MAX_BYTES: u64 = 256 << 20;
/// Maximum number of files in a directory of other tools' files.
const FILES_MAX: usize = 10_000;
/// Maximum length of a parser's message, in characters. The message may quote the file.
const WHY_MAX_CHARS: usize = 200;

const FIX: &str =
    "use a directory of `leno lab run`, or a file of `fortio load -json FILE` or `ghz --format json --output FILE`";

/// Reads the runs of a file or of a directory.
///
/// `path` may be a directory of `leno lab run`, or the file `runs.jsonl` in it. It may also be a file of another tool,
/// or a directory of such files, whose names end with `.json`.
///
/// # Errors
/// If the file or directory
/// - cannot be read,
/// - has no run with latencies,
/// - is over a limit (256 MiB for a file, 10,000 files in a directory), or
/// - has an unknown format or an impossible figure.
///
/// The error names the file.
pub fn read(path: &Path) -> Result<Vec<Measured>> {
    let runs = if path.is_dir() {
        directory(path)?
    } else if path.file_name() == Some(OsStr::new("runs.jsonl")) {
        own::read(path.parent().unwrap_or(Path::new("")))?
    } else {
        vec![file(path)?]
    };
    match &runs[..] {
        [] => Err(Error::Usage(format!("{} has no run with latencies; {FIX}", path.display()))),
        _ => Ok(runs),
    }
}

fn directory(dir: &Path) -> Result<Vec<Measured>> {
    if dir.join("runs.jsonl").exists() {
        return own::read(dir);
    }
    let entries = || -> io::Result<Vec<PathBuf>> {
        let paths = fs::read_dir(dir)?.map(|entry| entry.map(|entry| entry.path()));
        // Keep an unreadable entry, so that its error ends the reading.
        let is_json = |path: &io::Result<PathBuf>| {
            path.as_ref().map_or(true, |path| path.extension() == Some(OsStr::new("json")))
        };
        paths.filter(is_json).take(FILES_MAX + 1).collect()
    };
    let mut paths = entries().map_err(io_error(format!("reading {}", dir.display())))?;
    let refused = |why: &str| Err(Error::Usage(format!("{} {why}", dir.display())));
    if paths.is_empty() {
        return refused(&format!("has neither runs.jsonl nor files whose names end with .json; {FIX}"));
    }
    if paths.len() > FILES_MAX {
        return refused(&format!("has more than {FILES_MAX} files; name the files instead"));
    }
    paths.sort();
    paths.iter().map(|path| file(path)).collect()
}

fn file(path: &Path) -> Result<Measured> {
    let text = text_of(path).map_err(io_error(format!("reading {}", path.display())))?;
    let refused = |why: String| Error::Usage(format!("{}: {}; {FIX}", path.display(), clipped(&why)));
    if text.len() as u64 > FILE_MAX_BYTES {
        return Err(refused(format!("longer than {FILE_MAX_BYTES} bytes")));
    }
    measured(&text).map_err(refused)
}

/// Reads a file, up to one byte more than the limit, so that the caller notices a file that is too long.
fn text_of(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(FILE_MAX_BYTES + 1).read_to_string(&mut text)?;
    Ok(text)
}

/// The fields by which the file formats are distinguished.
#[derive(Deserialize)]
struct Fields {
    #[serde(rename = "DurationHistogram")]
    fortio: Option<IgnoredAny>,
    #[serde(rename = "statusCodeDistribution")]
    ghz: Option<IgnoredAny>,
    #[serde(rename = "Result")]
    brief: Option<IgnoredAny>,
}

/// Reads a file of another tool.
///
/// # Errors
/// The missing or invalid part, without the file's name.
fn measured(text: &str) -> std::result::Result<Measured, String> {
    if text.trim().is_empty() {
        return Err("the file is empty".to_owned());
    }
    let fields: Fields = serde_json::from_str(text).map_err(|error| format!("not a JSON object: {error}"))?;
    let (form, read) = match fields {
        Fields { fortio: Some(_), .. } => (Form::Fortio, fortio::read(text)),
        Fields { ghz: Some(_), .. } => (Form::Ghz, ghz::read(text)),
        Fields { brief: Some(_), .. } => (Form::Brief, brief::read(text)),
        _ => {
            return Err("no known form: for Fortio's the field DurationHistogram is missing, for ghz's \
                        statusCodeDistribution, for the brief form Result.Latency"
                .to_owned());
        }
    };
    read.map_err(|why| format!("wrong in the form {form}: {why}"))
}

fn clipped(text: &str) -> String {
    match text.char_indices().nth(WHY_MAX_CHARS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
