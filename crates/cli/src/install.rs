//! `leno install`: renders the objects of an installation for kubectl.
//!
//! Rendering needs no cluster. If a cluster can be reached, the command first asks whether Leno is installed there, so
//! that the new objects do not reset the installation's values by mistake. If the cluster does not answer, the command
//! renders the objects anyway.

use std::error::Error;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use leno_install::chart::{ChartError, default_values, merge, objects, set_value};
use leno_install::names::{CONFIG, VERSION_LABEL};
use leno_install::yaml;
use serde_json::{Map, Value};

use crate::cluster::block_on;
use crate::cluster::connect::{ClusterError, Connect};
use crate::cluster::running::Running;

/// Maximum time to wait for the cluster's answer.
const ASK_MAX: Duration = Duration::from_secs(10);

/// Annotation of the ConfigMap leno-config that records, as JSON, the values that differ from the chart's defaults.
/// `leno upgrade` reads it to keep these values.
pub(crate) const VALUES_ANNOTATION: &str = "leno.dev/install-values";

/// Annotation of the ConfigMap leno-config that records the version of the chart, which is the version of the `leno` that
/// rendered the installation. The label of the Deployment has the version of the images, which `image.version` may pin to
/// another version. The chart writes this annotation, so an installation by Helm has it too.
pub(crate) const VERSION_ANNOTATION: &str = "leno.dev/install-version";

/// Annotation of the ConfigMap leno-config that records `image.version`, if it is set. The chart writes it too.
pub(crate) const PINNED_ANNOTATION: &str = "leno.dev/image-version";

/// Options of `leno install`.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    values: ValueOptions,
    /// Write only the custom resource definitions
    #[arg(long, conflicts_with = "skip_crds")]
    crds: bool,
    /// Omit the custom resource definitions
    #[arg(long)]
    skip_crds: bool,
    /// Do not ask the cluster whether Leno is installed already
    #[arg(long)]
    offline: bool,
    #[command(flatten)]
    connect: Connect,
}

/// Options for the chart's values.
#[derive(Default, clap::Args)]
pub(crate) struct ValueOptions {
    /// Settings for production: three replicas of the control plane with a high priority and a memory limit, and larger
    /// resource requests for proxies
    #[arg(long)]
    ha: bool,
    /// File of values, with the structure of charts/leno/values.yaml; may be repeated
    #[arg(long, short = 'f', value_name = "FILE")]
    values: Vec<PathBuf>,
    /// Set one value, as control.replicas=2; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
}

/// The objects to write.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parts {
    All,
    Definitions,
    AllButDefinitions,
}

/// A rendered installation.
pub(crate) struct Rendered {
    /// The objects of the chosen [`Parts`], as YAML.
    pub(crate) text: String,
    pub(crate) versions: Versions,
    /// The objects in `text`, as values.
    pub(crate) objects: Vec<Value>,
}

/// The versions of a rendered installation. They differ if `image.version` pins the images.
#[derive(Clone, Debug)]
pub(crate) struct Versions {
    /// The version of the `leno` that renders the objects.
    pub(crate) objects: String,
    /// The tag of the images.
    pub(crate) images: String,
}

impl Options {
    /// Writes the objects as YAML.
    ///
    /// # Errors
    /// If a value is not allowed, if the objects would reset the values of an existing installation, replace it by an
    /// older version or change its trust domain, or if standard output cannot be written.
    pub(crate) fn run(&self) -> Result<(), Box<dyn Error>> {
        let values = self.chosen()?;
        let rendered = render(&values, self.parts())?;
        if !self.offline {
            match self.installed(&values)? {
                Ok(running) => self.refuse(&running, &values, &rendered.versions)?,
                Err(unknown) => eprintln!(
                    "leno: cannot tell whether Leno is installed already: {}; --offline skips this check",
                    unknown.what
                ),
            }
        }
        io::stdout().write_all(rendered.text.as_bytes())?;
        Ok(())
    }

    /// Refuses to reset the values of an installation, to replace it by an older version, and to change its trust
    /// domain.
    fn refuse(&self, running: &Running, values: &Value, versions: &Versions) -> Result<(), Box<dyn Error>> {
        // With --crds, nothing can be reset: custom resource definitions do not depend on values.
        if !self.crds {
            let defaults = default_values(false)?;
            running.refuse_reset(&difference(values, &defaults), &defaults)?;
            running.refuse_trust_domain(values)?;
            if let Some(warning) = running.unchecked_trust_domain() {
                eprintln!("leno: {warning}");
            }
        }
        Ok(running.refuse_older(versions)?)
    }

    /// Reads the installation in the cluster, and its authority's trust domain for a comparison with `values`. The outer
    /// error is that no runtime could be started; the inner error is why the installation could not be read.
    fn installed(&self, values: &Value) -> io::Result<Result<Running, ClusterError>> {
        block_on(async {
            let asked = async {
                let cluster = self.connect.cluster().await?;
                let mut running = Running::read(&cluster).await?;
                if !self.crds {
                    running.read_authority(&cluster, values).await;
                }
                Ok::<_, ClusterError>(running)
            };
            let late = |_| Err(ClusterError::new("the API server does not answer", "check that it runs"));
            tokio::time::timeout(ASK_MAX, asked).await.unwrap_or_else(late)
        })
    }

    fn chosen(&self) -> Result<Value, Box<dyn Error>> {
        let mut values = default_values(false)?;
        self.values.put_on(&mut values)?;
        Ok(values)
    }

    fn parts(&self) -> Parts {
        match (self.crds, self.skip_crds) {
            (true, _) => Parts::Definitions,
            (_, true) => Parts::AllButDefinitions,
            _ => Parts::All,
        }
    }
}

impl ValueOptions {
    /// Applies the options to `values`: single values override files, and files override --ha.
    pub(crate) fn put_on(&self, values: &mut Value) -> Result<(), Box<dyn Error>> {
        if self.ha {
            merge(values, difference(&default_values(true)?, &default_values(false)?));
        }
        for file in &self.values {
            let name = file.display();
            let text = std::fs::read_to_string(file)
                .map_err(|error| format!("{name} cannot be read: {error}; name a file of values with -f"))?;
            let over = yaml::read(&text).map_err(|fault| format!("{name}: {fault}"))?;
            if !over.is_null() {
                merge(values, over);
            }
        }
        for set in &self.set {
            set_value(values, set)?;
        }
        Ok(())
    }
}

/// Renders the objects for these values.
///
/// # Errors
/// If a value is not allowed.
pub(crate) fn render(values: &Value, parts: Parts) -> Result<Rendered, ChartError> {
    let versions = Versions { objects: env!("CARGO_PKG_VERSION").to_owned(), images: String::new() };
    let mut rendered = Rendered { text: String::new(), versions, objects: Vec::new() };
    let chosen = difference(values, &default_values(false)?).to_string();
    for mut object in objects(values)? {
        if object["kind"] == "Deployment" {
            let version = object["metadata"]["labels"][VERSION_LABEL].as_str();
            rendered.versions.images = version.unwrap_or_default().to_owned();
        }
        if object["metadata"]["name"] == CONFIG {
            object["metadata"]["annotations"][VALUES_ANNOTATION] = chosen.as_str().into();
        }
        let is_definition = object["kind"] == "CustomResourceDefinition";
        if parts == Parts::All || is_definition == (parts == Parts::Definitions) {
            rendered.text += &format!("---\n{}", yaml::write(&object));
            rendered.objects.push(object);
        }
    }
    Ok(rendered)
}

/// Returns the smallest object that turns `base` into `values` when merged into it.
fn difference(values: &Value, base: &Value) -> Value {
    let (Value::Object(values), Value::Object(base)) = (values, base) else { return values.clone() };
    let changed = values.iter().filter(|(key, value)| base.get(*key) != Some(value));
    let member =
        |(key, value): (&String, &Value)| (key.clone(), difference(value, base.get(key).unwrap_or(&Value::Null)));
    Value::Object(changed.map(member).collect::<Map<_, _>>())
}

#[cfg(test)]
#[path = "install_tests.rs"]
mod tests;
