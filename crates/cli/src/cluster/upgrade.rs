//! `leno upgrade`: renders this version's objects for an existing installation, and keeps the installation's values.
//!
//! `leno install` and `leno upgrade` record the values that differ from the chart's defaults, in an annotation of the
//! ConfigMap leno-config. So an upgrade keeps the values that users chose, and takes the newer chart's defaults for all
//! others.
//!
//! `kubectl apply` deletes nothing, so the command also names the installed objects that this version no longer
//! renders.

use std::error::Error;
use std::io::{self, Write};

use clap::Args;
use leno_install::chart::{default_values, merge};
use leno_install::names::CONTROL_NAMESPACE;
use serde_json::Value;

use super::connect::Connect;
use super::running::Running;
use super::uninstall::{CHART_LABEL, Found, find, sort};
use crate::install::{Parts, Rendered, ValueOptions, Versions, render};

/// Options of `leno upgrade`.
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    values: ValueOptions,
    /// Start from the chart's default values, not from those of the installation
    #[arg(long)]
    reset_values: bool,
    #[command(flatten)]
    connect: Connect,
}

impl Options {
    /// Writes the objects as YAML. On standard error, writes how to delete the installed objects that this version no
    /// longer renders.
    pub(crate) fn run(&self) -> Result<(), Box<dyn Error>> {
        let (running, values, found) = super::block_on(async {
            let cluster = self.connect.cluster().await?;
            let mut running = Running::read(&cluster).await?;
            let values = self.chosen(&running)?;
            running.read_authority(&cluster, &values).await;
            Ok::<_, Box<dyn Error>>((running, values, find(&cluster, &[CHART_LABEL]).await))
        })??;
        let rendered = rendered(&running, &values)?;
        for warning in running.unchecked_trust_domain().into_iter().chain(kept_images(&rendered.versions)) {
            eprintln!("leno: {warning}");
        }
        io::stdout().write_all(rendered.text.as_bytes())?;
        match found {
            Ok(inventory) => {
                let unseen = inventory.unseen();
                for line in leftovers(inventory.objects, &rendered.objects) {
                    eprintln!("leno: {line}");
                }
                if let Some(unseen) = unseen {
                    eprintln!("leno: {unseen}; ask an administrator of the cluster for that right");
                }
            }
            Err(error) => eprintln!("leno: cannot tell which objects this installation no longer has: {error}"),
        }
        Ok(())
    }

    /// The values of the installation, with the values of the command line in place of those that it sets.
    fn chosen(&self, running: &Running) -> Result<Value, Box<dyn Error>> {
        let mut values = default_values(false)?;
        if let Some(kept) = running.values(self.reset_values)? {
            merge(&mut values, kept);
        }
        self.values.put_on(&mut values)?;
        Ok(values)
    }
}

fn rendered(running: &Running, values: &Value) -> Result<Rendered, Box<dyn Error>> {
    let rendered = render(values, Parts::All)?;
    running.refuse_older(&rendered.versions)?;
    running.refuse_trust_domain(values)?;
    Ok(rendered)
}

/// The warning to print if `image.version` keeps the images at another version than the objects, so that this upgrade
/// does not upgrade the programs.
fn kept_images(versions: &Versions) -> Option<String> {
    let Versions { objects, images } = versions;
    (images != objects).then(|| {
        format!(
            "image.version pins the images to {images}, so this upgrade does not install the programs of {objects}; --set \
             image.version= installs them"
        )
    })
}

/// Returns a line for each installed object of the chart that is not among the rendered objects. Each line ends with
/// the command that deletes the object. Objects that can make the API server refuse Pods come first.
fn leftovers(mut found: Vec<Found>, rendered: &[Value]) -> Vec<String> {
    let is_rendered = |found: &Found| {
        rendered.iter().any(|object| {
            let metadata = &object["metadata"];
            object["kind"] == found.kind.as_str()
                && metadata["name"] == found.name.as_str()
                && metadata["namespace"].as_str() == found.namespace.as_deref()
        })
    };
    found.retain(|object| {
        // Ignore objects in other namespaces: the chart's own objects are cluster-wide or in the control plane's
        // namespace.
        let is_charts =
            object.is_lenos() && object.namespace.as_deref().is_none_or(|namespace| namespace == CONTROL_NAMESPACE);
        // Never suggest to delete a CustomResourceDefinition: Kubernetes would delete all objects of its kind with it.
        is_charts && object.kind != "CustomResourceDefinition" && !is_rendered(object)
    });
    sort(&mut found);
    let line = |object: &Found| {
        let (kind, name) = (object.kind.to_lowercase(), &object.name);
        let within = object.namespace.as_ref().map(|namespace| format!("-n {namespace} ")).unwrap_or_default();
        format!(
            "{} {name} is no longer part of this installation, and kubectl apply does not delete it: kubectl delete {within}{kind} {name}",
            object.kind
        )
    };
    found.iter().map(line).collect()
}

#[cfg(test)]
#[path = "upgrade_tests.rs"]
mod tests;
