//! A chain of services in a mesh of Leno. Each service has one proxy beside it. This proxy handles the calls to the
//! service (inbound) and the calls that the service makes (outbound).

use std::net::SocketAddr;
use std::path::PathBuf;

use super::{Setting, Target, leno_mesh};
use crate::child::{Child, free_address};
use crate::error::Result;
use crate::experiment::record::TargetKind;
use crate::manifest::Endpoint;
use crate::tls::Credentials;

/// The proxies of a chain. The lab starts them in reverse order: first at the end of the chain, last beside the client.
pub(crate) struct LenoSidecars<'a> {
    kind: TargetKind,
    setting: Setting<'a>,
    /// The directory of the mesh's authority.
    issuer: PathBuf,
    client: Credentials,
    /// The endpoints that the next added proxy will call: at first the backends, later the service that was added last.
    called: Vec<Endpoint>,
    processes: Vec<Child>,
}

impl<'a> LenoSidecars<'a> {
    /// Prepares a chain that ends with the backends. If `kind` is a mesh, also starts a proxy in front of each backend.
    pub(crate) fn before_backends(kind: TargetKind, setting: Setting<'a>) -> Result<Self> {
        let (issuer, client) = leno_mesh::credentials(&setting)?;
        let (called, processes) = match kind.is_mesh() {
            true => leno_mesh::start_servers(&setting, &issuer, &client)?,
            false => (setting.backends.iter().copied().map(Endpoint::from).collect(), Vec::new()),
        };
        Ok(Self { kind, setting, issuer, client, called, processes })
    }

    /// Starts the proxy beside the service `name`, which will listen on the address `service`. Returns the address on
    /// which the proxy accepts the service's own calls to the next service.
    pub(crate) fn add(&mut self, name: &str, service: SocketAddr) -> Result<SocketAddr> {
        let outbound = free_address()?;
        let sides = (Some(outbound), &*self.called);
        let proxy = leno_mesh::start_inbound(&format!("{name}-proxy"), service, &self.setting, &self.issuer, sides)?;
        let (endpoint, process) = proxy.wait(self.setting.protocol.wire(), &self.client)?;
        self.called = vec![endpoint];
        self.processes.push(process);
        Ok(outbound)
    }

    /// Starts the proxy beside the client. It calls the service that was added last.
    pub(crate) fn start_client_side(self) -> Result<Target> {
        let address = free_address()?;
        let client_side = leno_mesh::start_client_side(&self.setting, &self.issuer, (address, address), &self.called)?;
        Ok(Target::mesh(self.kind, address, client_side, self.processes))
    }
}
