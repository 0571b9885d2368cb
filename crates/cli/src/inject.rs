//! `leno inject` and `leno uninject`: add proxies to Kubernetes manifests, and remove them.
//!
//! The crate `leno_install` changes the objects. This module reads the files, writes the output and prints the
//! messages.

use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;
use leno_install::inject::{
    Options as InjectOptions, parse_cluster_domain, parse_image, parse_trust_domain, parse_version,
};
use leno_install::manifest::{Format, Namespaces, Report, Rewritten, inject_file, uninject_file};
use leno_install::yaml::Fault;

/// Name of the command in messages.
const INJECT: &str = "leno inject";

/// File name that stands for standard input.
const STDIN: &str = "-";

/// Options of `leno inject`.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    files: Files,
    /// Namespace of objects that do not name one
    #[arg(long, short, value_name = "NAME", default_value = "default")]
    namespace: String,
    /// Image of the proxy, without the tag
    #[arg(long, value_name = "IMAGE", value_parser = parse_image)]
    proxy_image: Option<String>,
    /// Tag of the proxy's image
    #[arg(long, value_name = "TAG", value_parser = parse_version)]
    proxy_version: Option<String>,
    /// DNS domain of the cluster
    #[arg(long, value_name = "DOMAIN", value_parser = parse_cluster_domain)]
    cluster_domain: Option<String>,
    /// Trust domain of the mesh
    #[arg(long, value_name = "DOMAIN", value_parser = parse_trust_domain)]
    trust_domain: Option<String>,
}

/// Options of `leno uninject`.
#[derive(clap::Args)]
pub(crate) struct UninjectOptions {
    #[command(flatten)]
    files: Files,
}

#[derive(clap::Args)]
struct Files {
    /// Files of Kubernetes objects, YAML or JSON; - is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Write all objects in this format; default: YAML for changed objects, and the others unchanged
    #[arg(long, short, value_enum, value_name = "FORMAT")]
    output: Option<Output>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Output {
    /// YAML.
    Yaml,
    /// JSON, one object after the other.
    Json,
}

/// A file that the command line names.
struct Input {
    /// Name of the file in messages.
    name: String,
    text: String,
}

/// The reason why the command wrote nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{file}: {source}")]
    Read { file: String, source: io::Error },
    /// A file is not YAML.
    #[error("{file}: {fault}")]
    Yaml { file: String, fault: Fault },
    /// A file contains template actions, which are not YAML: parsing would lose them.
    #[error(
        "{file}:{line}: this is a Helm template ({{{{...}}}}), not a Kubernetes object; render it first: helm template CHART | {command} -"
    )]
    Template { file: String, line: usize, command: &'static str },
    /// Writing the output failed, for example because its reader closed the pipe or the disk is full.
    #[error("standard output: {0}")]
    Write(#[source] io::Error),
}

impl Options {
    /// Writes the files with proxies added to their workloads. Writes nothing if the user must first correct a problem.
    pub(crate) fn run(self) -> Result<ExitCode, Error> {
        let defaults = InjectOptions::default();
        let mut options = InjectOptions { injector_version: Some(defaults.proxy.version.clone()), ..defaults };
        let given = |option: Option<String>, setting: &mut String| {
            if let Some(value) = option {
                *setting = value;
            }
        };
        given(self.proxy_image, &mut options.proxy.image);
        given(self.proxy_version, &mut options.proxy.version);
        given(self.cluster_domain, &mut options.cluster_domain);
        given(self.trust_domain, &mut options.trust_domain);
        let inputs = self.files.read()?;
        let namespaces = namespaces(&inputs, &self.namespace)?;
        self.files.rewrite(INJECT, &inputs, |text, format| inject_file(text, &namespaces, &options, format))
    }
}

impl UninjectOptions {
    /// Writes the files without Leno's proxies.
    pub(crate) fn run(self) -> Result<ExitCode, Error> {
        self.files.rewrite("leno uninject", &self.files.read()?, uninject_file)
    }
}

impl Input {
    /// Explains why the file cannot be parsed.
    fn refuse(&self, command: &'static str, fault: Fault) -> Error {
        let file = self.name.clone();
        match template_line(&self.text) {
            Some(line) => Error::Template { file, line, command },
            None => Error::Yaml { file, fault },
        }
    }
}

impl Files {
    fn read(&self) -> Result<Vec<Input>, Error> {
        self.files.iter().map(|file| Ok(Input { name: name(file), text: read(file)? })).collect()
    }

    fn rewrite(
        &self,
        command: &'static str,
        inputs: &[Input],
        rewrite: impl Fn(&str, Option<Format>) -> Result<Rewritten, Fault>,
    ) -> Result<ExitCode, Error> {
        let format = self.output.map(|output| match output {
            Output::Yaml => Format::Yaml,
            Output::Json => Format::Json,
        });
        let mut text = String::new();
        let mut reports = Vec::new();
        for input in inputs {
            let rewritten = rewrite(&input.text, format).map_err(|fault| input.refuse(command, fault))?;
            append(&mut text, &rewritten.text, format);
            reports.extend(rewritten.reports);
        }
        let is_failure = reports.iter().any(Report::is_failure);
        if !is_failure {
            io::stdout().write_all(text.as_bytes()).map_err(Error::Write)?;
        }
        if io::stdout().is_terminal() && !is_failure {
            eprintln!();
        }
        for report in &reports {
            eprintln!("{report}");
        }
        if reports.is_empty() {
            eprintln!("leno: no object here runs Pods; the input is written unchanged");
        }
        if is_failure {
            eprintln!("leno: nothing is written until you correct these");
        }
        Ok(if is_failure { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

/// Reads the Namespace objects in all files. Workloads that name no namespace belong to `default`.
fn namespaces(inputs: &[Input], default: &str) -> Result<Namespaces, Error> {
    let mut namespaces = Namespaces::new(default);
    for input in inputs {
        namespaces.read(&input.text).map_err(|fault| input.refuse(INJECT, fault))?;
    }
    Ok(namespaces)
}

/// Appends the objects of the next file, `next`, to the objects of the earlier files, `text`.
fn append(text: &mut String, next: &str, format: Option<Format>) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    if !text.is_empty() && !next.starts_with("---") && format != Some(Format::Json) {
        text.push_str("---\n");
    }
    text.push_str(next);
}

fn read(file: &Path) -> Result<String, Error> {
    let read = if file == Path::new(STDIN) {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(file)
    };
    read.map_err(|source| Error::Read { file: name(file), source })
}

/// Returns the number of the first line with an action of a Helm template (`{{...}}`), counted from 1. Templates cannot
/// be parsed: YAML reads an action as a mapping that is the key of another mapping, and the parser accepts no such key.
///
/// Valid objects may contain `{{` in their values too, for example Prometheus rules and Argo workflows. So this
/// function matches only lines that YAML would misread: lines that begin with an action, and lines whose unquoted value
/// does.
fn template_line(text: &str) -> Option<usize> {
    let is_action = |line: &str| {
        let line = line.trim_start().trim_start_matches("- ");
        if line.starts_with('#') {
            return false;
        }
        let line = line.split(" #").next().unwrap_or_default();
        let value = line.split_once(": ").map_or("", |(_, value)| value.trim_start());
        line.starts_with("{{") || value.starts_with("{{")
    };
    // Skip block scalars, in which `{{` is plain text. So the search misses templates whose actions are all in block
    // scalars, but these are rare.
    let mut scalar_indent = None;
    for (number, line) in text.lines().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let is_blank = line.trim().is_empty();
        if scalar_indent.is_some_and(|outer| indent > outer || is_blank) {
            continue;
        }
        scalar_indent = None;
        if is_action(line) {
            return Some(number + 1);
        }
        let header = line.rsplit(' ').next().unwrap_or_default();
        let is_scalar = matches!(header.as_bytes(), [b'|' | b'>', rest @ ..] if rest.iter().all(|byte| b"+-123456789".contains(byte)));
        if is_scalar && !line.trim_start().starts_with('#') {
            scalar_indent = Some(indent);
        }
    }
    None
}

/// Returns the name of a file as messages show it.
fn name(file: &Path) -> String {
    if file == Path::new(STDIN) { "standard input".to_owned() } else { file.display().to_string() }
}

#[cfg(test)]
#[path = "inject_tests.rs"]
mod tests;
