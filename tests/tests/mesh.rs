//! Unmodified programs that communicate through a mesh of proxies, each in its own network namespace.

mod admin;
mod connections;
mod databases;
mod declared;
mod doors;
mod example;
mod grpc;
mod http1;
mod opaque;
mod policy;
mod review;
mod strangers;
mod taps;
mod undeclared;
mod websocket;
mod wire;

use leno_tests::mesh::{Mesh, MeshService, Workload};

/// A client and a server of a service, both meshed.
struct Pair {
    client: Workload,
    server: Workload,
    mesh: Mesh,
}

impl Pair {
    /// Creates the workloads `client` and `server`. Returns `None` if this process does not run as root.
    fn new(service: impl for<'a> FnOnce(&'a Workload) -> MeshService<'a>) -> Option<Self> {
        Self::with(&[], service)
    }

    /// Creates the workloads `client` and `server`, with additional arguments for both proxies. Returns `None` if this
    /// process does not run as root.
    fn with(arguments: &[&str], service: impl for<'a> FnOnce(&'a Workload) -> MeshService<'a>) -> Option<Self> {
        let mesh = Mesh::new()?;
        let (client, server) = (mesh.meshed("client", arguments), mesh.meshed("server", arguments));
        mesh.serve(&service(&server), &[&client, &server]);
        Some(Self { client, server, mesh })
    }

    /// Checks that the client's proxy used mutual TLS for all connections to the server.
    fn assert_encrypted(&self) {
        let opened =
            |labels: &[&str]| self.client.scrape().sum("tcp_open_total", &[&[r#"peer="dst""#], labels].concat());
        let mutual = [r#"tls="true""#, &format!("server_id=\"{}\"", self.server.spiffe_id())];
        assert!(opened(&mutual) >= 1.0, "{}", self.client.admin("/metrics"));
        assert_eq!(opened(&mutual), opened(&[]), "{}", self.client.admin("/metrics"));
    }
}
