//! `leno-proxy await-ready`: waits until the proxy in the same container is ready, and ends. The kubelet runs this
//! program as the `postStart` hook of the proxy's container, and starts the application after the hook has ended.
//!
//! A startup probe would do the same, more slowly: the kubelet probes once a second, and only after it has noticed that
//! the container runs.

use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use clap::Parser;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::HOST;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use leno_model::settings::parse_duration;
use tokio::net::TcpStream;
use tokio::runtime;
use tokio::time::{sleep, timeout};

use crate::args::{ADMIN, Exit, explain};

/// The first word of the command line that chooses this mode.
pub(crate) const WORD: &str = "await-ready";

/// Shortest and longest pause between two requests. The pause doubles each time, so that many waiting Pods on a node
/// leave the processor to the proxies themselves.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(250);
/// Longest time for one request.
const REQUEST_MAX: Duration = Duration::from_secs(1);
/// Maximum length of the part of an answer that the error message repeats, in bytes.
const REASON_MAX_BYTES: usize = 1 << 10;

/// Ends once a proxy is ready
#[derive(Debug, Parser)]
#[command(name = "leno-proxy await-ready", version, max_term_width = 100)]
pub(crate) struct Options {
    /// Where the proxy serves /ready
    #[arg(long, value_name = "ADDR", default_value_t = ADMIN)]
    admin: SocketAddr,

    /// How long to wait: 500ms, 30s, 2m
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = parse_timeout)]
    timeout: Duration,
}

/// Why `await-ready` ends without a ready proxy.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AwaitError {
    #[error("the proxy at {admin} is not ready after {:?}: {reason}", waited)]
    NotReady { admin: SocketAddr, waited: Duration, reason: String },
    #[error("the program could not start: {0}")]
    Start(#[from] io::Error),
}

impl Options {
    /// Reads the command line; the first item is the program's name.
    ///
    /// # Errors
    /// [`Exit`] with the text to print.
    pub(crate) fn read(args: impl Iterator<Item = OsString>) -> Result<Self, Exit> {
        Self::try_parse_from(args).map_err(|error| explain(&error))
    }
}

/// Requests /ready until the proxy is ready.
pub(crate) fn run(options: &Options) -> Result<(), AwaitError> {
    let runtime = runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    runtime.block_on(until_ready(options))
}

async fn until_ready(options: &Options) -> Result<(), AwaitError> {
    let started = Instant::now();
    let mut pause = PAUSE_MIN;
    loop {
        let asked = timeout(REQUEST_MAX, ask(options.admin)).await;
        let reason = match asked.unwrap_or_else(|_| Err(format!("no answer within {REQUEST_MAX:?}"))) {
            Ok(()) => return Ok(()),
            Err(reason) => reason,
        };
        if started.elapsed() >= options.timeout {
            return Err(AwaitError::NotReady { admin: options.admin, waited: options.timeout, reason });
        }
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Requests /ready once. The error is the proxy's answer, or why the request failed.
async fn ask(admin: SocketAddr) -> Result<(), String> {
    let stream = TcpStream::connect(admin).await.map_err(|error| error.to_string())?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    let request = Request::get("/ready").header(HOST, admin.to_string()).body(Empty::<Bytes>::new());
    let request = request.map_err(|error| error.to_string())?;
    // The task ends when the sender is dropped, or when the proxy closes the connection.
    tokio::spawn(connection);
    let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
    if answer.status() == StatusCode::OK {
        return Ok(());
    }
    let body = Limited::new(answer.into_body(), REASON_MAX_BYTES).collect().await;
    let reason = body.map_err(|error| error.to_string())?.to_bytes();
    Err(String::from_utf8_lossy(&reason).trim().to_owned())
}

fn parse_timeout(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "write a duration, for example 500ms, 30s or 2m".to_owned())
}

#[cfg(test)]
#[path = "await_ready_tests.rs"]
mod tests;
