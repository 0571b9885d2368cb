//! `leno lab clean`: removes the objects that killed runs have left in a cluster.
//!
//! A namespace does not show whether its run has ended. So the command deletes the namespaces of all runs, also of runs
//! that have not ended.

use std::path::PathBuf;

use super::access::Access;
use super::objects::is_of_the_lab;
use crate::error::{Result, io};
use crate::foreground::Foreground;
use crate::namespaces::delete_namespaces;

/// Options of `leno lab clean`.
#[derive(Debug, Clone, clap::Args)]
pub struct CleanOptions {
    /// Kubeconfig of the cluster [default: KUBECONFIG, else ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: the current context]
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

/// Deletes all namespaces with the lab's label, and writes their names to `out`. Runs that have not ended lose their
/// namespaces too.
///
/// # Errors
/// If the cluster cannot be reached or rejects a request.
pub fn clean(options: &CleanOptions, out: &mut impl std::io::Write) -> Result<()> {
    let mut foreground = Foreground::new()?;
    let namespaces = foreground.wait(async {
        let access = Access::connect(options.kubeconfig.as_deref(), options.context.as_deref()).await?;
        let namespaces = access.lab_namespaces().await?;
        delete_namespaces(&access.client, &namespaces, is_of_the_lab).await?;
        Ok(namespaces)
    })?;
    let text = match &namespaces[..] {
        [] => "the cluster has nothing of the lab".to_owned(),
        some => format!("deleted the namespaces {}", some.join(", ")),
    };
    writeln!(out, "{text}").map_err(io("writing to the terminal"))
}
