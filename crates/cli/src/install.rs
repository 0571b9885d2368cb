//! `leno install`: the objects of an installation, for kubectl.

use std::error::Error;
use std::io::{self, Write};
use std::path::PathBuf;

use leno_install::chart::{ChartError, default_values, merge, objects, set_value};
use leno_install::names::{CONFIG, VERSION_LABEL};
use leno_install::yaml;
use serde_json::{Map, Value, json};

/// Annotation of the ConfigMap leno-config: what the installation's values differ in from the chart's, as JSON. By it
/// `leno upgrade` keeps what was chosen.
pub(crate) const VALUES_ANNOTATION: &str = "leno.dev/install-values";

/// Options of `leno install`.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    values: ValueOptions,
    /// Write the custom resource definitions alone
    #[arg(long, conflicts_with = "skip_crds")]
    crds: bool,
    /// Leave the custom resource definitions out
    #[arg(long)]
    skip_crds: bool,
}

/// What an installation is told.
#[derive(Default, clap::Args)]
pub(crate) struct ValueOptions {
    /// For production: three replicas of the control plane, apart from each other, and Pods wait for their proxies
    #[arg(long)]
    ha: bool,
    /// A file of values, as charts/leno/values.yaml; may be repeated
    #[arg(long, short = 'f', value_name = "FILE")]
    values: Vec<PathBuf>,
    /// Set one value, as control.replicas=2; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
}

/// Which objects are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parts {
    All,
    Definitions,
    AllButDefinitions,
}

/// An installation as text.
pub(crate) struct Rendered {
    /// Every object, as YAML.
    pub(crate) text: String,
    /// The version of its control plane.
    pub(crate) version: String,
}

impl Options {
    /// Writes the objects as YAML.
    pub(crate) fn run(&self) -> Result<(), Box<dyn Error>> {
        io::stdout().write_all(self.text()?.as_bytes())?;
        Ok(())
    }

    fn text(&self) -> Result<String, Box<dyn Error>> {
        let mut values = default_values(false)?;
        self.values.put_on(&mut values)?;
        let parts = match (self.crds, self.skip_crds) {
            (true, _) => Parts::Definitions,
            (_, true) => Parts::AllButDefinitions,
            _ => Parts::All,
        };
        Ok(render(&values, parts)?.text)
    }
}

impl ValueOptions {
    /// Puts what is told on top of `values`: single values over files, and files over --ha.
    pub(crate) fn put_on(&self, values: &mut Value) -> Result<(), Box<dyn Error>> {
        if self.ha {
            merge(values, difference(&default_values(true)?, &default_values(false)?));
        }
        for file in &self.values {
            let name = file.display();
            let text = std::fs::read_to_string(file).map_err(|error| format!("{name}: {error}"))?;
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

/// The objects that these values make.
///
/// # Errors
/// A value that may not be what it is.
pub(crate) fn render(values: &Value, parts: Parts) -> Result<Rendered, ChartError> {
    let mut rendered = Rendered { text: String::new(), version: String::new() };
    let chosen = difference(values, &default_values(false)?).to_string();
    for mut object in objects(values)? {
        if object["kind"] == "Deployment" {
            let version = object["metadata"]["labels"][VERSION_LABEL].as_str();
            rendered.version = version.unwrap_or_default().to_owned();
        }
        if object["metadata"]["name"] == CONFIG {
            object["metadata"]["annotations"] = json!({VALUES_ANNOTATION: chosen});
        }
        let is_definition = object["kind"] == "CustomResourceDefinition";
        if parts == Parts::All || is_definition == (parts == Parts::Definitions) {
            rendered.text += &format!("---\n{}", yaml::write(&object));
        }
    }
    Ok(rendered)
}

/// What has to be merged into `base` to make `values` of it.
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
