//! The configuration directory: reads its files, parses them into objects, and builds the mesh from the objects.
//!
//! Manifests are the files named *.yaml, *.yml and *.json; links are followed. Hidden files and sub-directories are
//! ignored, as in `kubectl apply -f DIR`. A file takes effect as a whole. While a file has an error, its last valid
//! version stays in force. If a file never was valid, only its AuthorizationPolicies are in force, so that an error
//! does not open a port that a policy protects. A policy that cannot be parsed allows no caller.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use leno_model::manifest::{self, DEFAULT_NAMESPACE, FILE_MAX_BYTES, Refused, SourceFile};
use leno_model::mesh::Mesh;
use leno_model::object::Object;
use leno_model::problem::{Mark, Notice, Place, Problem};
use leno_model::translate::translate;
use serde::Serialize;

/// Limit on the number of manifests in one directory.
const FILES_MAX: usize = 10_000;

/// The mesh in force, the errors and notices about its files, and which version of each file is in force.
#[derive(Debug, Clone, Serialize)]
pub struct Configuration {
    pub mesh: Arc<Mesh>,
    /// Every error in the files as they are on disk, and in the directory itself.
    pub problems: Vec<Problem>,
    pub notices: Vec<Notice>,
    pub files: Vec<FileStatus>,
}

/// A manifest file, and which of its versions is in force.
#[derive(Debug, Clone, Serialize)]
pub struct FileStatus {
    path: String,
    serving: Serving,
    /// A sentence for `leno problems` about what is in force; `None` for a valid file.
    #[serde(skip_serializing_if = "Option::is_none")]
    until_corrected: Option<&'static str>,
}

/// The version of a manifest file that is in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Serving {
    /// The version on disk.
    Current,
    /// An earlier version, because the version on disk has an error.
    LastGood,
    /// No version was ever valid. Only the AuthorizationPolicies on disk are in force, and an unreadable policy allows
    /// no caller.
    OnlyPolicies,
    /// No version was ever valid, and the version on disk has no AuthorizationPolicy. No part of the file is in force.
    Nothing,
}

/// A configuration directory, and its files as they were last read.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    /// The error if the last attempt to list the directory failed; `None` if it succeeded.
    fault: Option<Problem>,
    files: BTreeMap<String, ManifestFile>,
}

#[derive(Debug, Default)]
struct ManifestFile {
    /// Digest of the file's bytes as last read, so that an unchanged file is not parsed again.
    digest: Option<u64>,
    /// The last valid version.
    good: Option<manifest::Manifest>,
    /// The AuthorizationPolicies of the version on disk; empty once a version has been valid.
    policies: Vec<Object>,
    /// Errors in the version on disk; empty if it is valid.
    problems: Vec<Problem>,
}

impl Configuration {
    /// Creates the configuration of a mesh without files.
    pub fn of_mesh(mesh: Arc<Mesh>) -> Self {
        Self { mesh, problems: Vec::new(), notices: Vec::new(), files: Vec::new() }
    }

    /// Logs the problems and notices that are new since `before`. For each file with a new problem, also logs which of
    /// its versions is in force. Finally logs a summary of the configuration.
    pub fn log(&self, before: Option<&Self>) {
        for problem in &self.problems {
            if before.is_none_or(|before| !before.problems.contains(problem)) {
                tracing::error!("{problem}");
            }
        }
        for line in self.in_force_of_invalid(before) {
            tracing::warn!("{line}");
        }
        for notice in &self.notices {
            if before.is_none_or(|before| !before.notices.contains(notice)) {
                tracing::info!("{notice}");
            }
        }
        let clusters = self.mesh.clusters();
        let endpoints: usize = clusters.iter().map(|cluster| cluster.endpoints.len()).sum();
        let problems = self.problems.len();
        tracing::info!(clusters = clusters.len(), endpoints, problems, "configuration read");
    }

    /// Returns a line for each file that has a problem that is not in `before`. The line states what of the file is in
    /// force.
    fn in_force_of_invalid(&self, before: Option<&Self>) -> Vec<String> {
        let is_new = |problem: &&Problem| before.is_none_or(|before| !before.problems.contains(problem));
        let news: BTreeSet<&str> = self.problems.iter().filter(is_new).map(|problem| &*problem.place.file).collect();
        let invalid = self.files.iter().filter(|file| news.contains(file.path.as_str()));
        invalid.filter_map(|file| Some(format!("{}: {}", file.path, file.until_corrected?))).collect()
    }
}

impl Serving {
    /// Describes which version of a file is in force until the file is corrected; `None` for a valid file.
    fn until_corrected(self) -> Option<&'static str> {
        match self {
            Self::Current => None,
            Self::LastGood => Some("the file is invalid; its last valid version stays in force until it is corrected"),
            Self::OnlyPolicies => {
                Some("the file is invalid; only its AuthorizationPolicies are in force until it is corrected")
            }
            Self::Nothing => Some("the file is invalid; no part of it is in force until it is corrected"),
        }
    }
}

impl Directory {
    /// Reads the directory for the first time. Invalid files are reported as problems, not as errors.
    ///
    /// # Errors
    /// If the directory does not exist, cannot be listed, or has more than 10,000 manifests.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut directory = Self { path: path.to_owned(), fault: None, files: BTreeMap::new() };
        let paths = list(path)?;
        directory.read(paths);
        Ok(directory)
    }

    /// Reads the files that changed. Returns whether a file or the list of problems changed.
    ///
    /// If the directory cannot be listed, for example because it was removed, the mesh does not change, and the
    /// configuration reports a problem.
    pub fn refresh(&mut self) -> bool {
        match list(&self.path) {
            Ok(paths) => {
                let was_at_fault = self.fault.take().is_some();
                self.read(paths) || was_at_fault
            }
            Err(error) => {
                let fix = "put the directory back; until then its last content stays in force";
                let fault = Some(problem(&self.path.to_string_lossy(), error.to_string(), fix));
                let changed = self.fault != fault;
                self.fault = fault;
                changed
            }
        }
    }

    /// Builds the configuration from the objects of all files.
    pub fn configuration(&self) -> Configuration {
        let good = || self.files.values().filter_map(|file| file.good.as_ref());
        let objects = self.files.values().flat_map(ManifestFile::objects);
        let translation = translate(objects, DEFAULT_NAMESPACE);
        let file_problems = self.files.values().flat_map(|file| &file.problems);
        let file_notices = good().flat_map(|manifest| &manifest.notices);
        Configuration {
            mesh: Arc::new(translation.mesh),
            problems: self.fault.iter().chain(file_problems).cloned().chain(translation.problems).collect(),
            notices: file_notices.cloned().chain(translation.notices).collect(),
            files: self.files.iter().map(|(path, file)| file.status(path)).collect(),
        }
    }

    fn read(&mut self, paths: Vec<PathBuf>) -> bool {
        let mut left = std::mem::take(&mut self.files);
        let mut changed = false;
        for path in paths {
            let bytes = match read_bounded(&path) {
                // Ignore a file that was removed after the directory was listed, or that is a link to a missing file.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                other => other,
            };
            let name = path.to_string_lossy().into_owned();
            let mut file = left.remove(&name).unwrap_or_default();
            changed |= file.update(&name, bytes);
            self.files.insert(name, file);
        }
        changed || !left.is_empty()
    }
}

impl ManifestFile {
    /// Applies the current content of a file; returns whether anything changed.
    fn update(&mut self, path: &str, bytes: io::Result<Vec<u8>>) -> bool {
        let digest = bytes.as_deref().ok().map(digest);
        if digest.is_some() && digest == self.digest {
            return false;
        }
        self.digest = digest;
        match bytes.map_err(|error| vec![unreadable(path, &error)].into()).and_then(|bytes| parse(path, bytes)) {
            Ok(manifest) => {
                self.good = Some(manifest);
                self.policies.clear();
                self.problems.clear();
                true
            }
            Err(Refused { problems, policies, .. }) => {
                // Without a valid version, the policies of the latest version that could be read are in force. Report a
                // change of the bytes even if the errors are the same: the policies may have changed.
                let is_in_force = self.good.is_none() && self.digest.is_some();
                let news = is_in_force || self.problems != problems;
                if is_in_force {
                    self.policies = policies;
                }
                self.problems = problems;
                news
            }
        }
    }

    /// Returns the objects of this file that are in force.
    fn objects(&self) -> &[Object] {
        self.good.as_ref().map_or(&self.policies, |manifest| &manifest.objects)
    }

    fn status(&self, path: &str) -> FileStatus {
        let serving = match (&self.good, self.problems.is_empty()) {
            (Some(_), true) => Serving::Current,
            (Some(_), false) => Serving::LastGood,
            (None, _) if self.policies.is_empty() => Serving::Nothing,
            (None, _) => Serving::OnlyPolicies,
        };
        FileStatus { path: path.to_owned(), serving, until_corrected: serving.until_corrected() }
    }
}

/// Lists the manifests of a directory, sorted.
fn list(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if is_manifest(&path) {
            paths.push(path);
        }
        if paths.len() > FILES_MAX {
            return Err(io::Error::other(format!("more than {FILES_MAX} manifests in one directory")));
        }
    }
    paths.sort();
    Ok(paths)
}

fn is_manifest(path: &Path) -> bool {
    let hidden = path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
    let extension = path.extension().and_then(|extension| extension.to_str());
    // Skip other file types: opening a named pipe, for example, would block. If the type is unknown, keep the file;
    // reading it reports the error.
    let is_other = || fs::metadata(path).is_ok_and(|metadata| !metadata.is_file());
    !hidden && matches!(extension, Some("yaml" | "yml" | "json")) && !is_other()
}

/// Reads a file, but at most one byte more than the size limit, which shows that a file is too large.
fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

fn parse(path: &str, bytes: Vec<u8>) -> Result<manifest::Manifest, Refused> {
    // Search even a file that is too large or not UTF-8 for policies: such a policy must be in force and allow no
    // caller.
    let refused = |problem: Problem, text: String| {
        Refused::of_text(problem, &SourceFile { path: path.to_owned(), text }, DEFAULT_NAMESPACE)
    };
    if bytes.len() > FILE_MAX_BYTES {
        let fix = format!("split it into files of at most {FILE_MAX_BYTES} bytes");
        let text = String::from_utf8_lossy(&bytes).into_owned();
        return Err(refused(problem(path, "the file is too large".to_owned(), &fix), text));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let problem = problem(path, format!("byte {at} is not UTF-8 text"), "save the file as UTF-8");
        refused(problem, String::from_utf8_lossy(error.as_bytes()).into_owned())
    })?;
    manifest::parse_file(&SourceFile { path: path.to_owned(), text }, DEFAULT_NAMESPACE)
}

fn unreadable(path: &str, error: &io::Error) -> Problem {
    problem(path, format!("cannot be read: {error}"), "let Leno's user read it")
}

/// Returns a problem that concerns a whole file, not a line in it.
fn problem(path: &str, what: String, fix: &str) -> Problem {
    let mark = Mark { line: 1, column: 1 };
    let place = Place { file: path.into(), mark, field: String::new(), object: String::new() };
    Problem { place, what, fix: fix.to_owned() }
}

#[cfg(test)]
#[path = "directory_tests.rs"]
mod tests;
