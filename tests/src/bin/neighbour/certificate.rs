//! Obtains a certificate of the mesh for a Pod without a proxy. The Pod requests it as a proxy does, with its own
//! ServiceAccount's token.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::BytesMut;
use leno_identity::TlsIdentity;
use leno_identity::bundle::TrustBundle;
use leno_identity::svid::Request;
use leno_xds::identity::v1::{CertifyRequest, CertifyResponse};
use prost::Message;
use rustls::ClientConfig;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::encrypted::{self, PATIENCE};
use super::requests::{Working, framed, grpc};

/// The insider's SPIFFE ID.
const ID: &str = "spiffe://cluster.local/ns/neighbours/sa/insider";
/// The path at which the test mounts the token of the insider's ServiceAccount.
const TOKEN: &str = "/token/token";

/// The TLS configuration with a mesh workload's certificate, for connections to other workloads.
#[derive(Clone)]
pub(super) struct Certificate(Arc<ClientConfig>);

impl Certificate {
    /// Requests a certificate from the control plane.
    pub(super) async fn ask(control: SocketAddr) -> io::Result<Self> {
        let request = Request::new(ID.parse().map_err(io::Error::other)?).map_err(io::Error::other)?;
        let token = std::fs::read_to_string(TOKEN)?;
        let asked = CertifyRequest { csr: request.csr().to_vec(), token };
        let CertifyResponse { chain, trust } = certify(control, &asked).await?;
        let anchors = trust.unwrap_or_default().anchors.into_iter().map(CertificateDer::from).collect();
        let bundle = TrustBundle::new(anchors).map_err(io::Error::other)?;
        let chain = chain.into_iter().map(CertificateDer::from).collect();
        let svid = request.accept(chain, &bundle, SystemTime::now()).map_err(io::Error::other)?;
        Ok(Self(TlsIdentity::new(&svid, &bundle).client))
    }

    /// Connects with this certificate.
    pub(super) async fn connect(&self, address: SocketAddr, name: &str) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
        timeout(PATIENCE, async {
            let stream = TcpStream::connect(address).await?;
            TlsConnector::from(self.0.clone()).connect(name, stream).await
        })
        .await?
    }
}

async fn certify(control: SocketAddr, request: &CertifyRequest) -> io::Result<CertifyResponse> {
    let stream = encrypted::connect(control, "leno-control.leno.svc", b"h2").await?;
    let (requests, connection) = h2::client::handshake(stream).await.map_err(io::Error::other)?;
    let _working = Working::on(connection);
    let mut requests = requests.ready().await.map_err(io::Error::other)?;
    let head = grpc(&format!("https://{control}/leno.identity.v1.Identity/Certify"));
    let (response, mut content) = requests.send_request(head, false).map_err(io::Error::other)?;
    content.send_data(framed(&request.encode_to_vec()), true).map_err(io::Error::other)?;
    let response = response.await.map_err(io::Error::other)?;
    let refused = format!("no certificate: {response:?}");
    let (mut body, mut message) = (response.into_body(), BytesMut::new());
    while let Some(part) = body.data().await {
        let part = part.map_err(io::Error::other)?;
        body.flow_control().release_capacity(part.len()).map_err(io::Error::other)?;
        message.extend_from_slice(&part);
    }
    let message = message.get(5..).ok_or_else(|| io::Error::other(refused))?;
    CertifyResponse::decode(message).map_err(io::Error::other)
}
