use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Mutex;
use std::time::SystemTime;

use futures_util::Stream;
use leno_identity::Validity;
use leno_identity::authority::Authority;
use leno_identity::bundle::TrustBundle;
use leno_identity::peer_id;
use leno_model::spiffe::SpiffeId;
use leno_xds::identity::v1::WatchTrustRequest;
use leno_xds::identity::v1::identity_server::{Identity, IdentityServer};
use tempfile::TempDir;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tonic::transport::server::TcpIncoming;
use tonic::{Request as Asked, Response, Status};

use super::*;

const PATIENCE: Duration = Duration::from_secs(20);
const HOUR: Duration = Duration::from_secs(3_600);

fn authority() -> Authority {
    let trust_domain: TrustDomain = "cluster.local".parse().expect("a trust domain");
    Authority::create(trust_domain, SystemTime::now()).expect("random numbers")
}

fn id() -> SpiffeId {
    "spiffe://cluster.local/ns/a/sa/b".parse().expect("an id")
}

/// Returns an issuer whose service has the address of an unused port.
fn issuer(directory: &Path) -> ServiceIssuer {
    let unused = SocketAddr::from(([127, 0, 0, 1], 1));
    ServiceIssuer { service: service(directory, unused), own: Rc::default(), signer: RefCell::default() }
}

fn service(directory: &Path, address: SocketAddr) -> IdentityService {
    IdentityService {
        address: address.to_string(),
        workload: "ns/leno/sa/leno-control".parse().expect("a workload"),
        trust_domain: "cluster.local".parse().expect("a trust domain"),
        trust_bundle: directory.join("ca.crt"),
        token: directory.join("token"),
    }
}

/// An identity service that issues certificates with this lifetime to every caller.
struct Issuing {
    authority: Arc<Authority>,
    lifetime: Duration,
}

#[tonic::async_trait]
impl Identity for Issuing {
    async fn certify(&self, request: Asked<CertifyRequest>) -> Result<Response<CertifyResponse>, Status> {
        let CertifyRequest { csr, token } = request.into_inner();
        assert_eq!(token, "abc");
        let now = SystemTime::now();
        let validity = Validity::starting(now, self.lifetime);
        let certificate = self.authority.sign(&id(), &csr, validity, now).expect("a good request");
        Ok(Response::new(CertifyResponse { chain: vec![certificate.to_vec()], trust: None }))
    }

    type WatchTrustStream = Pin<Box<dyn Stream<Item = Result<leno_xds::identity::v1::Trust, Status>> + Send>>;

    async fn watch_trust(&self, _: Asked<WatchTrustRequest>) -> Result<Response<Self::WatchTrustStream>, Status> {
        Err(Status::unimplemented("no test asks for it"))
    }
}

/// The SPIFFE ids that clients showed, in order: `None` for a client without a certificate, and the error's text if the
/// handshake failed.
type Shown = Arc<Mutex<Vec<Result<Option<SpiffeId>, String>>>>;

/// A running identity service, and the directory with the files that its clients need.
struct Served {
    authority: Arc<Authority>,
    directory: TempDir,
    address: SocketAddr,
    shown: Shown,
}

impl Served {
    /// Starts the service behind TLS, as in the control plane.
    async fn start(lifetime: Duration) -> Self {
        let (authority, shown) = (Arc::new(authority()), Shown::default());
        let service = IdentityServer::new(Issuing { authority: authority.clone(), lifetime });
        let in_clear = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let behind = in_clear.local_addr().expect("its address");
        let server = tonic::transport::Server::builder().add_service(service);
        tokio::spawn(server.serve_with_incoming(TcpIncoming::from(in_clear)));

        let control = "spiffe://cluster.local/ns/leno/sa/leno-control".parse().expect("an id");
        let own = svid(&authority, &control, SystemTime::now());
        let acceptor = TlsAcceptor::from(TlsIdentity::new(&own, &bundle(&authority)).server);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address");
        let noted = shown.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let accepted = acceptor.accept(stream).await;
                let peer =
                    accepted.as_ref().map(|tls| tls.get_ref().1.peer_certificates().and_then(|of| peer_id(of).ok()));
                noted.lock().expect("no panic").push(peer.map_err(ToString::to_string));
                let Ok(mut tls) = accepted else { continue };
                tokio::spawn(async move {
                    let mut plain = TcpStream::connect(behind).await.expect("it listens");
                    // The connection ends when the client ends it.
                    let _ = copy_bidirectional(&mut tls, &mut plain).await;
                });
            }
        });
        let directory = TempDir::new().expect("a directory");
        fs::write(directory.path().join("token"), "abc").expect("a file");
        fs::write(directory.path().join("ca.crt"), authority.certificate_pem()).expect("a file");
        Self { authority, directory, address, shown }
    }

    fn shown(&self) -> Vec<Result<Option<SpiffeId>, String>> {
        self.shown.lock().expect("no panic").clone()
    }

    /// Requests a certificate as a proxy that has the certificate `own`.
    async fn renew(&self, own: Svid) -> Result<Issued, IssueError> {
        let identity = TlsIdentity::new(&own, &bundle(&self.authority));
        let issuer = ServiceIssuer {
            service: service(self.directory.path(), self.address),
            own: Rc::new(OnceCell::from(watch::Sender::new(Arc::new(identity)).subscribe())),
            signer: RefCell::default(),
        };
        let request = Request::new(id()).expect("random numbers");
        timeout(PATIENCE, issuer.issue(&request)).await.expect("an answer")
    }
}

fn bundle(authority: &Authority) -> TrustBundle {
    TrustBundle::from_pem(authority.certificate_pem().as_bytes()).expect("an anchor")
}

/// Returns an SVID that was issued at `then` for one hour.
fn svid(authority: &Authority, id: &SpiffeId, then: SystemTime) -> Svid {
    let request = Request::new(id.clone()).expect("random numbers");
    let certificate = authority.sign(id, request.csr(), Validity::starting(then, HOUR), then).expect("a good request");
    request.accept(vec![certificate], &bundle(authority), then).expect("it was good then")
}

#[tokio::test(flavor = "current_thread")]
async fn a_renewal_shows_the_certificate_that_it_renews_and_the_first_request_none() {
    // A certificate is renewed after two thirds of its lifetime, here after 2 s.
    let served = Served::start(Duration::from_secs(3)).await;
    let workload = id().workload;
    let upkeep = timeout(PATIENCE, start(&service(served.directory.path(), served.address), &workload)).await;
    let upkeep = upkeep.expect("a certificate");
    let mut identity = upkeep.identity();
    let renewed = async {
        tokio::select! {
            never = upkeep.run() => match never {},
            changed = identity.changed() => changed.expect("it is kept"),
        }
    };
    timeout(PATIENCE, renewed).await.expect("a renewal");
    assert_eq!(served.shown(), [Ok(None), Ok(Some(id()))]);
}

#[tokio::test(flavor = "current_thread")]
async fn a_certificate_that_has_expired_is_renewed_without_showing_it() {
    let served = Served::start(HOUR).await;
    let expired = svid(&served.authority, &id(), SystemTime::now() - 2 * HOUR);
    served.renew(expired).await.expect("a new certificate");
    let shown = served.shown();
    assert!(matches!(&shown[..], [Err(why), Ok(None)] if why.contains("expired")), "{shown:?}");
}

#[tokio::test(flavor = "current_thread")]
async fn a_certificate_whose_anchor_is_gone_is_renewed_without_showing_it() {
    let served = Served::start(HOUR).await;
    let of_another = svid(&authority(), &id(), SystemTime::now());
    served.renew(of_another).await.expect("a new certificate");
    let shown = served.shown();
    assert!(matches!(&shown[..], [Err(_), Ok(None)]), "{shown:?}");
}

#[test]
fn whom_to_trust_is_what_the_file_says_now() {
    let directory = TempDir::new().expect("a directory");
    let issuer = issuer(directory.path());
    let missing = issuer.trust().expect_err("there is no file").to_string();
    assert!(missing.contains("--trust-bundle") && missing.contains("ca.crt"), "{missing}");

    let (first, second) = (authority(), authority());
    let write = |text: &str| fs::write(directory.path().join("ca.crt"), text).expect("a file");
    write(first.certificate_pem());
    assert_eq!(issuer.trust().expect("one anchor").bundle.anchors(), first.certificates());
    write(&[first.certificate_pem(), second.certificate_pem()].concat());
    assert_eq!(issuer.trust().expect("two anchors").bundle.anchors().len(), 2);
    issuer.signer.replace(Some(Signer("an intermediate".to_owned())));
    assert_eq!(issuer.trust().expect("two anchors").signer, Signer("an intermediate".to_owned()));
}

#[test]
fn a_token_without_text_is_refused_with_the_name_of_its_file() {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("token");
    for text in [None, Some(""), Some(" \n")] {
        if let Some(text) = text {
            fs::write(&path, text).expect("a file");
        }
        let error = read_token(&path).expect_err("no token");
        assert!(error.contains("--token") && error.contains("token:"), "{error}");
    }
    fs::write(&path, "abc.def\n").expect("a file");
    assert_eq!(read_token(&path).as_deref(), Ok("abc.def"));
}

#[tokio::test(flavor = "current_thread")]
async fn a_service_that_is_not_there_is_an_error_that_says_so() {
    let directory = TempDir::new().expect("a directory");
    fs::write(directory.path().join("token"), "abc").expect("a file");
    fs::write(directory.path().join("ca.crt"), authority().certificate_pem()).expect("a file");
    let request = Request::new(id()).expect("random numbers");
    let error = issuer(directory.path()).issue(&request).await.expect_err("nobody listens").to_string();
    assert!(error.contains("refused"), "{error}");
}
