//! Sends queries to Prometheus over http or https, each on its own connection, with limits on time and size. Each error
//! message is one line that names the URL and the remedy.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, HeaderValue, LOCATION};
use hyper::http::uri::{PathAndQuery, Scheme};
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use leno_identity::explain_io;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::answer::{Answer, NoAnswer, SERIES_MAX, short};
use crate::cluster::connect::ClusterError;

/// Maximum time for Prometheus to accept a connection.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Maximum time for a query, from the start of the connection to the end of the answer.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// Maximum length of the content of an answer, in bytes.
const CONTENT_MAX_BYTES: usize = 64 << 20;
/// Maximum length of a token file, in bytes.
const TOKEN_MAX_BYTES: u64 = 16 << 10;

/// The URL of a Prometheus server. It may have a path, which then precedes `/api/v1`.
#[derive(Clone, Debug)]
pub(crate) struct Url(Uri);

/// A Prometheus.
pub(super) struct Server {
    url: Url,
    /// The header field `authorization`.
    token: Option<HeaderValue>,
    /// `None` for http.
    tls: Option<TlsConnector>,
}

/// A response: its status, the target if it is a redirect, and its content.
struct Page {
    status: u16,
    location: Option<String>,
    content: Bytes,
}

impl FromStr for Url {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || "write the URL of Prometheus, as http://127.0.0.1:9090 or https://example.org/prometheus".to_owned();
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        let is_http = uri.scheme().is_some_and(|scheme| [Scheme::HTTP, Scheme::HTTPS].contains(scheme));
        let Some(authority) = uri.authority() else { return Err(wrong()) };
        if authority.as_str().contains('@') {
            return Err(
                "a URL with a user name is not supported; give a bearer token with --prometheus-token-file".to_owned()
            );
        }
        let is_right = is_http && !authority.host().is_empty() && uri.query().is_none() && !text.contains('#');
        is_right.then_some(Self(uri)).ok_or_else(wrong)
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.to_string().trim_end_matches('/'))
    }
}

impl Url {
    fn is_https(&self) -> bool {
        self.0.scheme() == Some(&Scheme::HTTPS)
    }

    /// The host without the brackets of an IPv6 address.
    fn host(&self) -> &str {
        self.0.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']')
    }

    fn port(&self) -> u16 {
        self.0.port_u16().unwrap_or(if self.is_https() { 443 } else { 80 })
    }

    /// The path of the page that answers queries.
    fn page(&self) -> String {
        let prefix = self.0.path_and_query().map_or("", PathAndQuery::path);
        format!("{}/api/v1/query", prefix.trim_end_matches('/'))
    }
}

impl Server {
    /// Reads the token, and for https the certificates that this machine trusts. Sends nothing yet.
    ///
    /// # Errors
    /// If the file has no token, or if the URL is https and this machine trusts no authority.
    pub(super) fn new(url: Url, token_file: Option<&Path>) -> Result<Self, ClusterError> {
        let token = token_file.map(read_token).transpose()?;
        let tls = url.is_https().then(|| tls(trusted())).transpose()?;
        Ok(Self { url, token, tls })
    }

    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    /// Sends a query.
    ///
    /// # Errors
    /// If no answer arrives within 30 s, the answer is longer than 64 MiB, or it is not the result of the query.
    pub(super) async fn ask(&self, query: &str) -> Result<Answer, ClusterError> {
        let url = &self.url;
        let late = || {
            let what = format!("Prometheus at {url} has not answered within {} s", ANSWER_MAX.as_secs());
            ClusterError::new(what, "choose a shorter --window, or fewer workloads with -n or KIND/NAME")
        };
        let page = timeout(ANSWER_MAX, self.page(query)).await.map_err(|_| late())??;
        self.answer(&page)
    }

    async fn page(&self, query: &str) -> Result<Page, ClusterError> {
        let address = (self.url.host(), self.url.port());
        let connecting = timeout(CONNECT_MAX, TcpStream::connect(address)).await;
        let late = || self.unreachable(&format!("nothing within {} s", CONNECT_MAX.as_secs()));
        let stream = connecting.map_err(|_| late())?.map_err(|error| self.unreachable(&error.to_string()))?;
        let Some(tls) = &self.tls else {
            let is_here = stream.peer_addr().is_ok_and(|peer| peer.ip().is_loopback());
            if self.token.is_some() && !is_here {
                return Err(ClusterError::new(
                    format!("{} is on another machine, and http would show the token to the network", self.url),
                    "use https, or reach Prometheus through an address of this machine, as kubectl port-forward gives",
                ));
            }
            return self.exchange(stream, query).await;
        };
        let name = ServerName::try_from(self.url.host().to_owned()).map_err(|error| self.no_tls(&error.to_string()))?;
        let stream = tls.connect(name, stream).await.map_err(|error| self.no_tls(&explain_io(&error)))?;
        self.exchange(stream, query).await
    }

    async fn exchange(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        query: &str,
    ) -> Result<Page, ClusterError> {
        let failed = |error: &hyper::Error| self.not_prometheus(&format!("it does not answer in HTTP: {error}"));
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| failed(&error))?;
        // The task sends and receives the bytes of this exchange; abort it when the exchange ends.
        let connection = tokio::spawn(connection);
        let response = sender.send_request(self.request(query)?).await.map_err(|error| failed(&error));
        let page = match response {
            Ok(response) => self.read(response).await,
            Err(error) => Err(error),
        };
        connection.abort();
        page
    }

    fn request(&self, query: &str) -> Result<Request<Full<Bytes>>, ClusterError> {
        let authority = self.url.0.authority().map_or("", |authority| authority.as_str());
        let form = format!(
            "query={}&timeout={}s&limit={}",
            percent_encoded(query),
            ANSWER_MAX.as_secs(),
            // Request one series more than the maximum. If Prometheus truncates its answer to this limit, the answer
            // still has too many series, so the command reports an error instead of incomplete figures.
            SERIES_MAX + 1
        );
        let mut request = Request::post(self.url.page())
            .header(HOST, authority)
            .header(CONNECTION, "close")
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, token);
        }
        request.body(Full::new(form.into())).map_err(|error| self.unreachable(&error.to_string()))
    }

    async fn read(&self, response: Response<hyper::body::Incoming>) -> Result<Page, ClusterError> {
        let status = response.status().as_u16();
        let location = response.headers().get(LOCATION).map(|to| short(&String::from_utf8_lossy(to.as_bytes())));
        let content = Limited::new(response.into_body(), CONTENT_MAX_BYTES).collect().await.map_err(|error| {
            if error.is::<http_body_util::LengthLimitError>() {
                return self.too_long(&format!("is longer than {} MiB", CONTENT_MAX_BYTES >> 20));
            }
            self.not_prometheus(&format!("its answer was cut off: {error}"))
        })?;
        Ok(Page { status, location, content: content.to_bytes() })
    }

    fn answer(&self, page: &Page) -> Result<Answer, ClusterError> {
        let url = &self.url;
        match (page.status, Answer::parse(&page.content)) {
            (200..=299, Ok(answer)) => Ok(answer),
            (_, Err(NoAnswer::TooManySeries)) => Err(self.too_long(&format!("has more than {SERIES_MAX} series"))),
            (401 | 403, _) => Err(ClusterError::new(
                format!("{url} rejected the request: it answered {}", page.status),
                "give a bearer token that it accepts with --prometheus-token-file",
            )),
            (300..=399, _) => Err(ClusterError::new(
                format!("{url} redirects to {}", page.location.as_deref().unwrap_or("no URL")),
                "give --prometheus the URL of Prometheus itself, with the path before /api/v1",
            )),
            (_, Err(NoAnswer::Refused(why))) => Err(ClusterError::new(
                format!("Prometheus at {url} refused the query: {why}"),
                "choose a shorter --window, or fewer workloads with -n or KIND/NAME, or see the log of Prometheus",
            )),
            (status, _) => Err(self.not_prometheus(&format!("it answered {status} without a result"))),
        }
    }

    fn unreachable(&self, why: &str) -> ClusterError {
        ClusterError::new(
            format!("Prometheus at {} cannot be reached: {why}", self.url),
            "check the URL; kubectl port-forward -n monitoring svc/prometheus-operated 9090 makes a Prometheus in the \
             cluster http://127.0.0.1:9090",
        )
    }

    fn no_tls(&self, why: &str) -> ClusterError {
        ClusterError::new(
            format!("the TLS handshake with {} failed: {why}", self.url),
            "check the URL; the variable SSL_CERT_FILE names a file with the certificates to trust",
        )
    }

    fn not_prometheus(&self, why: &str) -> ClusterError {
        ClusterError::new(
            format!("{} is not Prometheus: {why}", self.url),
            "give --prometheus the URL whose path /api/v1/query answers, with the path before it",
        )
    }

    fn too_long(&self, what: &str) -> ClusterError {
        ClusterError::new(
            format!("an answer of Prometheus at {} {what}", self.url),
            "choose fewer workloads with -n or KIND/NAME",
        )
    }
}

/// Reads a token from a file, and returns the value of the header field `authorization`.
fn read_token(path: &Path) -> Result<HeaderValue, ClusterError> {
    let failed = |why: &str| {
        let what = format!("{} has no token: {why}", path.display());
        ClusterError::new(what, "give --prometheus-token-file a file with one line, the token")
    };
    let mut content = String::new();
    let file = File::open(path).map_err(|error| failed(&error.to_string()))?;
    file.take(TOKEN_MAX_BYTES + 1).read_to_string(&mut content).map_err(|error| failed(&error.to_string()))?;
    let token = content.trim();
    if token.is_empty() || content.len() as u64 > TOKEN_MAX_BYTES {
        return Err(failed(&format!("it is empty, or longer than {} KiB", TOKEN_MAX_BYTES >> 10)));
    }
    if token.contains(|letter: char| !letter.is_ascii_graphic()) {
        return Err(failed("a token has no spaces and only ASCII letters"));
    }
    let mut field = HeaderValue::try_from(format!("Bearer {token}")).map_err(|error| failed(&error.to_string()))?;
    field.set_sensitive(true);
    Ok(field)
}

/// The authorities that this machine trusts, or the authorities in the file that SSL_CERT_FILE names.
fn trusted() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

fn tls(roots: RootCertStore) -> Result<TlsConnector, ClusterError> {
    if roots.is_empty() {
        return Err(ClusterError::new(
            "this machine has no certificates of authorities, which https needs",
            "install the package ca-certificates, or name a file with SSL_CERT_FILE",
        ));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let config = config
        .with_safe_default_protocol_versions()
        .map_err(|error| ClusterError::new(format!("TLS cannot be used: {error}"), "report this as a fault of leno"))?;
    Ok(TlsConnector::from(Arc::new(config.with_root_certificates(roots).with_no_client_auth())))
}

fn percent_encoded(text: &str) -> String {
    let encoded = |byte: u8| match byte {
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(encoded).collect()
}

#[cfg(test)]
#[path = "server_tests.rs"]
pub(super) mod tests;
