use std::io::Write;
use std::net::Ipv4Addr;

use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;

/// Runs `client` with the URL of a server on this machine, which answers each request with the bytes that `reply`
/// returns for the request's text.
pub(in super::super) async fn with_server<T, F: Future<Output = T>>(
    reply: impl Fn(&str) -> Vec<u8>,
    client: impl FnOnce(String) -> F,
) -> T {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("its address"));
    let serve = async {
        loop {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let request = request_from(&mut stream).await;
            // Ignore an error: the client may close the connection before it has read the whole response.
            let _ = stream.write_all(&reply(&request)).await;
        }
    };
    tokio::select! {
        result = client(url) => result,
        () = serve => panic!("the server does not end"),
    }
}

async fn request_from(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let (mut request, mut buffer) = (String::new(), [0; 4096]);
    // Read until the field `limit`, with which our requests end.
    while !request.ends_with(&format!("limit={}", SERIES_MAX + 1)) {
        let length = stream.read(&mut buffer).await.expect("a request");
        if length == 0 {
            break;
        }
        request += std::str::from_utf8(&buffer[..length]).expect("ASCII");
    }
    request
}

/// A response with this status and content.
pub(in super::super) fn response(status: &str, content: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{content}", content.len()).into_bytes()
}

pub(in super::super) fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(test)
}

fn server(url: &str, token: Option<&Path>) -> Server {
    Server::new(url.parse().expect("a URL"), token).expect("it can be used")
}

/// Returns the error that the user sees if the server sends these bytes. Replaces the server's URL by `URL`.
fn error(bytes: &[u8]) -> String {
    run(with_server(
        |_| bytes.to_vec(),
        async |url| {
            let error = server(&url, None).ask("up").await.expect_err("no answer").to_string();
            assert!(!error.contains(char::is_control) && error.chars().count() < 700, "{error:?}");
            error.replace(&url, "URL")
        },
    ))
}

#[test]
fn a_url_may_have_a_path_and_has_no_user_name_and_no_query() {
    let page = |text: &str| text.parse::<Url>().map(|url| (url.host().to_owned(), url.port(), url.page()));
    let of = |host: &str, port: u16, page: &str| Ok((host.to_owned(), port, page.to_owned()));
    assert_eq!(page("http://127.0.0.1:9090"), of("127.0.0.1", 9090, "/api/v1/query"));
    assert_eq!(page("https://example.org/prometheus/"), of("example.org", 443, "/prometheus/api/v1/query"));
    assert_eq!(page("http://[::1]/a/b"), of("::1", 80, "/a/b/api/v1/query"));
    for wrong in ["", "localhost:9090", "/x", "ftp://a", "http://", "http://a?b", "http://a#b", "http://u:p@a"] {
        page(wrong).expect_err(wrong);
    }
}

#[test]
fn a_query_is_sent_as_a_form_to_the_path_with_the_token() {
    let mut token = tempfile::NamedTempFile::new().expect("a file");
    writeln!(token, "s3cret").expect("it is ours");
    let seen = std::cell::RefCell::new(String::new());
    let reply = |request: &str| {
        seen.replace(request.to_owned());
        response("200 OK", r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#)
    };
    let answer = run(with_server(reply, async |url| {
        server(&format!("{url}/prometheus/"), Some(token.path())).ask("a{b=\"c\"}").await
    }));
    assert_eq!(answer.expect("an answer"), Answer::default());
    let seen = seen.into_inner();
    assert!(seen.starts_with("POST /prometheus/api/v1/query HTTP/1.1\r\n"), "{seen}");
    assert!(seen.contains("\r\nauthorization: Bearer s3cret\r\n"), "{seen}");
    assert!(seen.ends_with("\r\n\r\nquery=a%7Bb%3D%22c%22%7D&timeout=30s&limit=100001"), "{seen}");
}

#[test]
fn a_token_is_one_word_and_is_not_sent_over_http_to_another_machine() {
    let token = |content: &[u8]| {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(content).expect("it is ours");
        Server::new("http://127.0.0.1:1".parse().expect("a URL"), Some(file.path())).map(|_| ())
    };
    token(b"  abc\r\n").expect("a token");
    for wrong in [&b""[..], b"\n", b"a b", b"a\r\nhost: b", b"\xff", "é".as_bytes(), &[b'a'; 20_000]] {
        let error = token(wrong).expect_err("no token").to_string();
        assert!(error.contains(" has no token: ") && error.contains("--prometheus-token-file"), "{error}");
    }
    // Use a non-loopback address of this machine in place of another machine.
    let Some(address) = outer_address() else { return };
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    writeln!(file, "s3cret").expect("it is ours");
    let error = run(async {
        let listener = TcpListener::bind((address, 0)).await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("its address"));
        let error = server(&url, Some(file.path())).ask("up").await.expect_err("it is refused");
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let mut sent = Vec::new();
        let _ = stream.read_to_end(&mut sent).await;
        assert!(sent.is_empty(), "{sent:?}");
        error.to_string()
    });
    assert!(error.contains("http would show the token to the network; use https"), "{error}");
}

/// A non-loopback address of this machine, if it has one.
fn outer_address() -> Option<std::net::IpAddr> {
    let socket = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    // Connecting a UDP socket sends nothing.
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    socket.local_addr().ok().map(|address| address.ip()).filter(|ip| !ip.is_loopback())
}

#[test]
fn each_failure_names_the_url_and_the_fix() {
    assert_eq!(
        error(&response("401 Unauthorized", "no")),
        "URL rejected the request: it answered 401; give a bearer token that it accepts with --prometheus-token-file"
    );
    assert_eq!(
        error(&response("404 Not Found", "<html>")),
        "URL is not Prometheus: it answered 404 without a result; give --prometheus the URL whose path /api/v1/query \
         answers, with the path before it"
    );
    assert_eq!(
        error(b"HTTP/1.1 302 Found\r\nlocation: /login\r\ncontent-length: 0\r\n\r\n"),
        "URL redirects to /login; give --prometheus the URL of Prometheus itself, with the path before /api/v1"
    );
    let refused = r#"{"status":"error","errorType":"execution","error":"too many \u001b[31msamples\n"}"#;
    assert_eq!(
        error(&response("422 Unprocessable Entity", refused)),
        "Prometheus at URL refused the query: too many ?[31msamples; choose a shorter --window, or fewer workloads with -n \
         or KIND/NAME, or see the log of Prometheus"
    );
}

#[test]
fn bytes_of_a_hostile_server_end_in_one_line() {
    for bytes in [&b""[..], b"\x16\x03\x01", b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{"] {
        assert!(error(bytes).starts_with("URL is not Prometheus: "), "{bytes:?}");
    }
    let location = format!("HTTP/1.1 302 Found\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", "x".repeat(50_000));
    assert!(error(location.as_bytes()).starts_with("URL redirects to xxx"));
    let long = error(&[&b"HTTP/1.1 200 OK\r\n\r\n"[..], &vec![b' '; CONTENT_MAX_BYTES + 1]].concat());
    assert!(long.starts_with("an answer of Prometheus at URL is longer than 64 MiB; "), "{long}");
}

#[test]
fn a_server_that_is_away_is_named() {
    let away = run(async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("its address"));
        drop(listener);
        server(&url, None).ask("up").await.expect_err("no server").to_string()
    });
    assert!(away.starts_with("Prometheus at http://127.0.0.1:") && away.contains(" cannot be reached: "), "{away}");
}

/// The result of a query over https to a server on this machine. The server's certificate names the server. `trust`
/// chooses the trusted authorities.
fn over_https(trust: impl Fn(&rcgen::CertifiedKey<rcgen::KeyPair>) -> RootCertStore) -> Result<Answer, ClusterError> {
    let pair = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
    let key = PrivateKeyDer::try_from(pair.signing_key.serialize_der()).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let config = config.with_safe_default_protocol_versions().expect("versions").with_no_client_auth();
    let config = config.with_single_cert(vec![pair.cert.der().clone()], key).expect("a certificate");
    let content = r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#;
    run(async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let url: Url = format!("https://{}", listener.local_addr().expect("its address")).parse().expect("a URL");
        let serve = async {
            let (stream, _) = listener.accept().await.expect("a connection");
            let Ok(mut stream) = TlsAcceptor::from(Arc::new(config)).accept(stream).await else { return };
            request_from(&mut stream).await;
            stream.write_all(&response("200 OK", content)).await.expect("it is read");
        };
        let server = Server { url, token: None, tls: Some(tls(trust(&pair)).expect("TLS")) };
        tokio::join!(server.ask("up"), serve).0
    })
}

#[test]
fn https_needs_a_certificate_that_this_machine_trusts() {
    let roots = |trusted: &CertificateDer<'static>| {
        let mut roots = RootCertStore::empty();
        roots.add(trusted.clone()).expect("a certificate");
        roots
    };
    assert_eq!(over_https(|pair| roots(pair.cert.der())), Ok(Answer::default()));
    let other = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
    let error = over_https(|_| roots(other.cert.der())).expect_err("it is not trusted").to_string();
    assert!(error.starts_with("the TLS handshake with https://127.0.0.1:"), "{error}");
    assert!(error.contains("SSL_CERT_FILE"), "{error}");
    assert!(tls(RootCertStore::empty()).is_err_and(|error| error.what.contains("no certificates of authorities")));
}
