//! The five backends: servers without TLS, each with one thread.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use prost::Message;

use crate::child::{Child, Launch, find_program, free_address};
use crate::echo::proto::{EchoRequest, EchoResponse};
use crate::error::{Error, Result, io as io_error};
use crate::load::{PREFIX_BYTES, framed};

/// Path of unary calls. `nghttpd` derives the content type from the suffix `.grpc`.
pub(super) const UNARY_PATH: &str = "/leno.echo.v1.Echo/Unary.grpc";
const STREAM_PATH: &str = "/leno.echo.v1.Echo/ServerStream";
const COUNT: usize = 5;
/// Maximum number of concurrent streams on each connection to `nghttpd`. It exceeds the largest `--concurrency`
/// (1,000), so that the backend does not limit the load.
const MAX_STREAMS: &str = "2000";
/// Number of messages in a server stream.
const STREAM_MESSAGES: u32 = 10_000;
/// Payload of each message in a server stream.
const STREAM_PAYLOAD_BYTES: usize = 50;
/// The server name in every answer of the streaming backends. The name is the same for all backends, so that all
/// answers have the same size.
const STREAM_SERVER: &str = "backend";

/// The call that every client makes, and the size of its response.
pub(super) struct Call {
    /// The call's `:path`.
    pub(super) path: &'static str,
    /// File with the body of every request: a gRPC message with its prefix.
    pub(super) request: PathBuf,
    /// Size of the body of every response: its messages with their gRPC prefixes.
    pub(super) response_bytes: u64,
}

/// The running backends.
pub(super) struct Backends {
    pub(super) addresses: Vec<SocketAddr>,
    /// The call that these backends can answer: unary or server-streaming.
    pub(super) call: Call,
    _children: Vec<Child>,
}

impl Backends {
    /// Starts backends that run `nghttpd`. It answers every POST with the same message and the trailer `grpc-status:
    /// 0`. `body_bytes` is the size of the body of each request and of each response, including the gRPC prefix.
    pub(super) fn unary(body_bytes: u32, dir: &Path, cpus: &[usize]) -> Result<Self> {
        let program = find_program("nghttpd")
            .ok_or(Error::MissingProgram { program: "nghttpd", install: "apt-get install nghttp2-server" })?;
        let call = Call {
            path: UNARY_PATH,
            request: write_files(body_bytes, dir).map_err(cannot_write())?,
            response_bytes: u64::from(body_bytes),
        };
        Self::start(call, dir, cpus, |address| {
            let args = [
                "--no-tls".to_owned(),
                format!("--address={}", address.ip()),
                format!("--htdocs={}", dir.display()),
                format!("--mime-types-file={}", dir.join("mime.types").display()),
                format!("--max-concurrent-streams={MAX_STREAMS}"),
                "--no-content-length".to_owned(),
                "--trailer=grpc-status: 0".to_owned(),
                address.port().to_string(),
            ];
            (program.clone(), args.into())
        })
    }

    /// Starts backends that run `leno echo`. It answers with a stream of small messages.
    pub(super) fn streaming(dir: &Path, cpus: &[usize]) -> Result<Self> {
        let program = std::env::current_exe().map_err(io_error("finding leno's own executable"))?;
        let asked =
            EchoRequest { payload: vec![0; STREAM_PAYLOAD_BYTES], messages: STREAM_MESSAGES, ..EchoRequest::default() };
        let request = dir.join("request.grpc");
        fs::write(&request, framed(&asked.encode_to_vec())).map_err(cannot_write())?;
        let call =
            Call { path: STREAM_PATH, request, response_bytes: (0..STREAM_MESSAGES).map(stream_message_bytes).sum() };
        Self::start(call, dir, cpus, |address| {
            let args = ["echo".to_owned(), format!("--listen={address}"), format!("--name={STREAM_SERVER}")];
            (program.clone(), args.into())
        })
    }

    fn start(
        call: Call,
        dir: &Path,
        cpus: &[usize],
        command: impl Fn(SocketAddr) -> (PathBuf, Vec<String>),
    ) -> Result<Self> {
        let mut addresses = Vec::new();
        let mut children = Vec::new();
        for number in 1..=COUNT {
            let address = free_address()?;
            let (program, args) = command(address);
            let launch = Launch::new(format!("backend-{number}"), program, args).on_cpus(cpus);
            let mut child = Child::start(&launch, dir)?;
            child.wait_for_listener(address)?;
            addresses.push(address);
            children.push(child);
        }
        Ok(Self { addresses, call, _children: children })
    }
}

fn cannot_write() -> impl FnOnce(io::Error) -> Error {
    io_error("writing the backends' files")
}

/// Size in bytes of the stream's message with this number, including the gRPC prefix.
fn stream_message_bytes(number: u32) -> u64 {
    let response = EchoResponse { server: STREAM_SERVER.to_owned(), payload: vec![0; STREAM_PAYLOAD_BYTES], number };
    framed(&response.encode_to_vec()).len() as u64
}

/// Writes the files that `nghttpd` reads, and returns the path of the response's body. The same file is the body of
/// every request of the load.
fn write_files(body_bytes: u32, dir: &Path) -> io::Result<PathBuf> {
    let body = dir.join(UNARY_PATH.trim_start_matches('/'));
    fs::create_dir_all(body.parent().unwrap_or(dir))?;
    let message = vec![0; (body_bytes as usize).saturating_sub(PREFIX_BYTES)];
    fs::write(&body, framed(&message))?;
    fs::write(dir.join("mime.types"), "application/grpc grpc\n")?;
    Ok(body)
}

#[cfg(test)]
#[path = "backends_tests.rs"]
mod tests;
