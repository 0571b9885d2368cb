use super::super::{Authority, CLIENT};
use super::*;
use crate::load::{Client, Exchange, Hello, Load, NAMELESS, Pattern, Plan, Traffic};
use crate::tls::client_config;

/// Certificates of one authority.
struct Certificates {
    client: Credentials,
    server: Credentials,
    _dir: tempfile::TempDir,
}

fn certificates() -> Certificates {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let authority = Authority::create(dir.path()).expect("a writable directory");
    let [client, server] = [CLIENT, SERVER].map(|workload| authority.issue(workload).expect("a certificate"));
    Certificates { client, server, _dir: dir }
}

/// Starts one end of a tunnel, which runs until the test's runtime ends.
async fn start(side: Side, credentials: &Credentials, connect: Option<SocketAddr>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("a bound listener");
    let Credentials { authority, certificate, key, .. } = credentials.clone();
    let options = Options { side, listen: address, connect, authority, certificate, key };
    let end = End::new(&options).expect("valid files");
    tokio::spawn(async move { carry_all(&listener, end).await });
    address
}

#[tokio::test]
async fn bytes_cross_the_tunnel_both_ways_and_so_does_their_end() {
    let certificates = certificates();
    let far = start(Side::Server, &certificates.server, None).await;
    let near = start(Side::Client, &certificates.client, Some(far)).await;
    let mut stream = TcpStream::connect(near).await.expect("it listens");
    stream.write_all(b"hello").await.expect("it reads");
    stream.shutdown().await.expect("it is open");
    let mut came = Vec::new();
    stream.read_to_end(&mut came).await.expect("it ends");
    assert_eq!(came, b"hello");
}

#[tokio::test]
async fn a_load_of_handshakes_is_served_with_the_right_certificate_and_not_with_one_of_another_authority() {
    let (certificates, others) = (certificates(), self::certificates());
    let address = start(Side::Server, &certificates.server, None).await;
    let plan = |config| Plan {
        clients: vec![Client { address, authority: "tunnel".to_owned() }; 2],
        servers: vec![NAMELESS.to_owned()],
        exchange: Exchange::Handshake(Hello::new(config, SERVER_NAME).expect("a name")),
        traffic: Traffic::default(),
        pattern: Pattern::Closed { in_flight: 2 },
        warm_up: std::time::Duration::ZERO,
        measured: std::time::Duration::from_millis(300),
        cpus: Vec::new(),
        seed: 0,
    };
    let run = |credentials: Credentials| {
        let config = client_config(&credentials, SERVER, None).expect("valid files");
        let load = plan(config);
        tokio::task::spawn_blocking(|| Load::start(load).finish())
    };
    let served = run(certificates.client.clone()).await.expect("no panic").expect("a server that answers");
    assert!(served.total.calls > 0 && served.failed == 0, "{served:?}");

    let stranger = Credentials { authority: certificates.client.authority.clone(), ..others.client.clone() };
    let refused = run(stranger).await.expect("no panic").expect_err("nobody is served");
    assert!(refused.to_string().contains("tunnel"), "{refused}");
}
