//! `leno install`: the objects of an installation, for kubectl.

use std::error::Error;
use std::io::{self, Write};
use std::path::PathBuf;

use leno_install::chart::{default_values, merge, objects, set_value};
use leno_install::yaml;
use serde_json::Value;

/// Options of `leno install`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// For production: three replicas of the control plane, apart from each other, and Pods wait for their proxies
    #[arg(long)]
    ha: bool,
    /// A file of values, as charts/leno/values.yaml; may be repeated
    #[arg(long, short = 'f', value_name = "FILE")]
    values: Vec<PathBuf>,
    /// Set one value, as control.replicas=2; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Write the custom resource definitions alone
    #[arg(long, conflicts_with = "skip_crds")]
    crds: bool,
    /// Leave the custom resource definitions out
    #[arg(long)]
    skip_crds: bool,
}

impl Options {
    /// Writes the objects as YAML.
    pub(crate) fn run(&self) -> Result<(), Box<dyn Error>> {
        io::stdout().write_all(self.text()?.as_bytes())?;
        Ok(())
    }

    fn text(&self) -> Result<String, Box<dyn Error>> {
        let mut values = default_values(self.ha)?;
        for file in &self.values {
            let name = file.display();
            let text = std::fs::read_to_string(file).map_err(|error| format!("{name}: {error}"))?;
            let over = yaml::read(&text).map_err(|fault| format!("{name}: {fault}"))?;
            if !over.is_null() {
                merge(&mut values, over);
            }
        }
        for set in &self.set {
            set_value(&mut values, set)?;
        }
        let is_crd = |object: &Value| object["kind"] == "CustomResourceDefinition";
        let chosen = objects(&values)?.into_iter().filter(|object| match is_crd(object) {
            true => !self.skip_crds,
            false => !self.crds,
        });
        Ok(chosen.map(|object| format!("---\n{}", yaml::write(&object))).collect())
    }
}

#[cfg(test)]
#[path = "install_tests.rs"]
mod tests;
