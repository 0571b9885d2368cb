//! The configuration directory: files to objects, objects to a mesh.
//!
//! Manifests are the files named *.yaml, *.yml and *.json, links followed; hidden files and sub-directories
//! are left out, as `kubectl apply -f DIR` does. A file is taken whole or not at all: while it has a mistake,
//! what it last said without one stays in force. Of a file that never was without one, the AuthorizationPolicies are in
//! force alone, and those that cannot be read allow no caller: a mistake must not open what a policy protects.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use leno_model::manifest::{self, FILE_MAX_BYTES, Refused, SourceFile};
use leno_model::mesh::Mesh;
use leno_model::object::Object;
use leno_model::problem::{Mark, Notice, Place, Problem};
use leno_model::translate::translate;
use serde::Serialize;

/// Most manifests in one directory.
const FILES_MAX: usize = 10_000;

/// The namespace of objects that name none.
const DEFAULT_NAMESPACE: &str = "default";

/// What is in force, and what is wrong with the files it comes from.
#[derive(Debug, Clone, Serialize)]
pub struct Configuration {
    /// What all files say.
    pub mesh: Arc<Mesh>,
    /// Every mistake in the files as they are now.
    pub problems: Vec<Problem>,
    /// What is worth knowing about them.
    pub notices: Vec<Notice>,
    /// The files themselves.
    pub files: Vec<FileStatus>,
}

/// One file of the directory.
#[derive(Debug, Clone, Serialize)]
pub struct FileStatus {
    path: String,
    serving: Serving,
}

/// Which version of a file is in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Serving {
    /// The one on disk.
    Current,
    /// An earlier one, since the one on disk has a mistake.
    LastGood,
    /// None: there was never one without a mistake. Of the one on disk only the AuthorizationPolicies are in force,
    /// and those that cannot be read allow no caller.
    OnlyPolicies,
    /// None: there was never one without a mistake, and there is no AuthorizationPolicy in it.
    Nothing,
}

/// The files as they were last read.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    /// Why the directory itself could not be read last time.
    fault: Option<Problem>,
    files: BTreeMap<String, ManifestFile>,
}

#[derive(Debug, Default)]
struct ManifestFile {
    /// Of the bytes last read, so that a file that did not change is not read as YAML again.
    digest: Option<u64>,
    /// What the last version without a mistake said.
    good: Option<manifest::Manifest>,
    /// While there was none: the policies of the version on disk.
    policies: Vec<Object>,
    /// Mistakes of the version on disk.
    problems: Vec<Problem>,
}

impl Configuration {
    /// A mesh that comes from no files.
    pub fn of_mesh(mesh: Arc<Mesh>) -> Self {
        Self { mesh, problems: Vec::new(), notices: Vec::new(), files: Vec::new() }
    }

    /// Logs a line for each problem and notice that was not in `before`, and one for the whole.
    pub fn log(&self, before: Option<&Self>) {
        for problem in &self.problems {
            if before.is_none_or(|before| !before.problems.contains(problem)) {
                tracing::error!("{problem}");
            }
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
}

impl Directory {
    /// Reads the directory for the first time. Mistakes in files are no error.
    ///
    /// # Errors
    /// When there is no such directory or it cannot be listed.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut directory = Self { path: path.to_owned(), fault: None, files: BTreeMap::new() };
        let paths = list(path)?;
        directory.read(paths);
        Ok(directory)
    }

    /// Reads what is on disk now; says whether anything changed.
    ///
    /// A directory that is gone changes nothing but the problems: the mesh stays as it was.
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

    /// Joins what all files say.
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
                // Removed since the directory was listed, or a link to nothing.
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
    /// Takes in what the file holds now; says whether that is news.
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
                // The bytes changed, and policies may have, even where the mistakes are the same.
                let news = self.problems != problems || self.good.is_none();
                if self.good.is_none() {
                    self.policies = policies;
                }
                self.problems = problems;
                news
            }
        }
    }

    /// What is in force.
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
        FileStatus { path: path.to_owned(), serving }
    }
}

/// The manifests of a directory, sorted.
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
    // A named pipe would block whoever opens it. What cannot be looked at is reported when it is read.
    let is_other = || fs::metadata(path).is_ok_and(|metadata| !metadata.is_file());
    !hidden && matches!(extension, Some("yaml" | "yml" | "json")) && !is_other()
}

/// Reads a file, or as much of it as shows that it is too large.
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
    // A text that cannot be read may still have the words of a policy.
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

/// A problem of a whole file.
fn problem(path: &str, what: String, fix: &str) -> Problem {
    let mark = Mark { line: 1, column: 1 };
    let place = Place { file: path.into(), mark, field: String::new(), object: String::new() };
    Problem { place, what, fix: fix.to_owned() }
}

#[cfg(test)]
#[path = "directory_tests.rs"]
mod tests;
