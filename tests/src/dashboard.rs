//! A running `leno dashboard`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::programs::program;
use crate::proxy::free_address;

/// Longest time for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// A running dashboard. Dropping this value kills the program.
#[derive(Debug)]
pub struct Dashboard {
    child: Child,
    url: String,
    address: SocketAddr,
}

impl Dashboard {
    /// Starts a dashboard with arguments that select proxies, and waits until it prints its URL. If the arguments
    /// select proxies of a cluster, `kubeconfig` names the cluster.
    ///
    /// # Panics
    /// If the dashboard prints no URL.
    pub fn start(arguments: &[&str], kubeconfig: Option<&Path>) -> Self {
        let mut command = Command::new(program("leno"));
        command.args(["dashboard", "--no-browser", "--every", "1s", "--listen", &free_address().to_string()]);
        command.args(arguments);
        if let Some(kubeconfig) = kubeconfig {
            command.env("KUBECONFIG", kubeconfig);
        }
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("leno is built");
        let mut url = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut url).expect("the URL");
        let url = url.trim().to_owned();
        let authority = url.strip_prefix("http://").and_then(|rest| rest.split('/').next()).expect("a URL");
        let address = authority.parse().expect("an address");
        Self { child, url, address }
    }

    /// The URL with its token.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The address on which the dashboard listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends a GET request with these header lines, each with its CRLF. Returns the whole answer.
    ///
    /// # Panics
    /// If there is no answer.
    pub fn request(&self, path: &str, lines: &str) -> String {
        let mut stream = TcpStream::connect(self.address).expect("it listens");
        stream.set_read_timeout(Some(ANSWER_MAX)).expect("a time limit");
        write!(stream, "GET {path} HTTP/1.1\r\nconnection: close\r\n{lines}\r\n").expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }

    /// The `host` header line with the dashboard's address.
    pub fn host(&self) -> String {
        format!("host: {}\r\n", self.address)
    }

    /// The header lines of the page's own requests: the host, and the cookie with the token.
    ///
    /// # Panics
    /// If the URL has no token.
    pub fn signed(&self) -> String {
        let (_, token) = self.url.split_once("token=").expect("a token");
        format!("{}cookie: leno-dashboard-{}={token}\r\n", self.host(), self.address.port())
    }

    /// Returns a page that is JSON.
    ///
    /// # Panics
    /// If the answer is no JSON.
    pub fn json(&self, path: &str) -> Value {
        let answer = self.request(path, &self.signed());
        let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error} in {answer}"))
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        // Ignore an error: the dashboard may have ended by itself.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
