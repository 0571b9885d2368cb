//! `leno upgrade`: renders this version's objects for an existing installation, and keeps the installation's values.
//!
//! `leno install` and `leno upgrade` record the values that differ from the chart's defaults in an annotation of the
//! ConfigMap leno-config. An upgrade thus takes the newer chart's defaults, and keeps the values that people chose.

use std::error::Error;
use std::io::{self, Write};

use clap::Args;
use leno_install::chart::{default_values, merge};

use super::connect::Connect;
use super::running::Running;
use crate::install::{Parts, ValueOptions, render};

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
    /// Writes the objects as YAML.
    pub(crate) fn run(&self) -> Result<(), Box<dyn Error>> {
        let running = super::block_on(async {
            let cluster = self.connect.cluster().await?;
            Running::read(&cluster).await
        })??;
        io::stdout().write_all(self.text(&running)?.as_bytes())?;
        Ok(())
    }

    fn text(&self, running: &Running) -> Result<String, Box<dyn Error>> {
        let mut values = default_values(false)?;
        if let Some(kept) = running.values(self.reset_values)? {
            merge(&mut values, kept);
        }
        self.values.put_on(&mut values)?;
        let rendered = render(&values, Parts::All)?;
        running.refuse_older(&rendered.version)?;
        Ok(rendered.text)
    }
}

#[cfg(test)]
#[path = "upgrade_tests.rs"]
mod tests;
