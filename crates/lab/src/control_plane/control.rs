//! A `leno-control` that runs as a process of this machine, configured as in its Pod.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use leno_install::names::CONTROL;
use leno_model::spiffe::{SpiffeId, TrustDomain, Workload};

use super::grpc::Server;
use crate::child::{Child, Launch, free_address};
use crate::error::{Result, io};
use crate::procfs::{self, Memory};
use crate::targets::leno::built;

/// The namespace of the control plane's Secret and Lease.
pub(super) const CONTROL_NAMESPACE: &str = "leno-lab-control";
/// The default trust domain of leno-control.
const TRUST_DOMAIN: &str = "cluster.local";

/// A running control plane. Dropping it kills the process.
pub(super) struct Control {
    child: Child,
    pub(super) xds: Server,
    pub(super) identity: Server,
}

impl Control {
    /// Starts a control plane and waits until it has read the whole cluster and serves.
    ///
    /// # Errors
    /// If the program is not built, or does not serve in time.
    pub(super) fn start(program: &Path, kubeconfig: &Path, name: &str, logs: &Path) -> Result<Self> {
        let (admin, xds, identity) = (free_address()?, free_address()?, free_address()?);
        let args = [
            "--kubernetes".to_owned(),
            format!("--namespace={CONTROL_NAMESPACE}"),
            format!("--admin={admin}"),
            format!("--xds={xds}"),
            format!("--identity-service={identity}"),
        ];
        let launch = Launch::new(name, program, args).with_env("KUBECONFIG", kubeconfig);
        let mut child = Child::start(&launch, logs)?;
        child.wait_for_http_ok(admin, "/ready")?;
        let server = |address: SocketAddr| Server {
            address,
            id: SpiffeId { trust_domain: trust_domain(), workload: workload() },
        };
        Ok(Self { child, xds: server(xds), identity: server(identity) })
    }

    /// Returns an error if the process has ended.
    pub(super) fn ensure_running(&mut self) -> Result<()> {
        self.child.ensure_running()
    }

    pub(super) fn memory(&self) -> Result<Memory> {
        procfs::memory(self.child.pid())
    }

    pub(super) fn cpu_time(&self) -> Result<Duration> {
        procfs::cpu_time(self.child.pid())
    }
}

/// The mesh's trust domain.
pub(super) fn trust_domain() -> TrustDomain {
    TRUST_DOMAIN.parse().expect("a trust domain")
}

/// The identity of the control plane.
pub(super) fn workload() -> Workload {
    Workload { namespace: CONTROL_NAMESPACE.into(), service_account: CONTROL.into() }
}

/// Returns the path `given`; if it is `None`, the path of the `leno-control` binary beside this program.
///
/// # Errors
/// If the program was not built.
pub(super) fn program(given: Option<&Path>) -> Result<PathBuf> {
    let path = match given {
        Some(path) => path.to_owned(),
        None => std::env::current_exe().map_err(io("finding leno's own executable"))?.with_file_name("leno-control"),
    };
    built(path)
}
