//! Unmodified programs that talk through a mesh of proxies, each in a network namespace of its own.

mod admin;
mod connections;
mod databases;
mod doors;
mod example;
mod grpc;
mod http1;
mod opaque;
mod policy;
mod review;
mod strangers;
mod websocket;
mod wire;

use leno_tests::mesh::{Mesh, MeshService, Workload};

/// A client and the server of a service, both meshed.
struct Pair {
    client: Workload,
    server: Workload,
    mesh: Mesh,
}

impl Pair {
    /// Makes them, as workloads that are called `client` and `server`; `None` where only root could.
    fn new(service: impl for<'a> FnOnce(&'a Workload) -> MeshService<'a>) -> Option<Self> {
        Self::with(&[], service)
    }

    /// The same, where their proxies have these arguments more.
    fn with(arguments: &[&str], service: impl for<'a> FnOnce(&'a Workload) -> MeshService<'a>) -> Option<Self> {
        let mesh = Mesh::new()?;
        let (client, server) = (mesh.meshed("client", arguments), mesh.meshed("server", arguments));
        mesh.serve(&service(&server), &[&client, &server]);
        Some(Self { client, server, mesh })
    }

    /// Checks that the connections to the server which the client's proxy made were all of mutual TLS.
    fn assert_encrypted(&self) {
        let opened =
            |labels: &[&str]| self.client.scrape().sum("tcp_open_total", &[&[r#"peer="dst""#], labels].concat());
        let mutual = [r#"tls="true""#, &format!("server_id=\"{}\"", self.server.spiffe_id())];
        assert!(opened(&mutual) >= 1.0, "{}", self.client.admin("/metrics"));
        assert_eq!(opened(&mutual), opened(&[]), "{}", self.client.admin("/metrics"));
    }
}
