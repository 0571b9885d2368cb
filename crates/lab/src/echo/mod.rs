//! The gRPC echo server of `leno echo`: all four kinds of gRPC calls, reflection, and a delay that can change while the
//! server runs.

mod bare;
mod http1;
mod service;
mod upstream;
mod work;

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tonic::Code;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use crate::error::{Error, Result, io};
use proto::echo_server::EchoServer;
use service::EchoService;
pub use upstream::Upstream;
use upstream::Upstreams;
use work::Work;

/// The protobuf messages, the client and the server of `leno.echo.v1.Echo`.
#[allow(missing_docs, clippy::all)]
pub mod proto {
    tonic::include_proto!("leno.echo.v1");

    pub(crate) const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/echo_descriptors.bin"));
}

/// The name of the gRPC service.
pub(crate) const SERVICE: &str = "leno.echo.v1.Echo";
/// The `:path` of unary calls.
pub(crate) const UNARY_PATH: &str = "/leno.echo.v1.Echo/Unary";
/// The `:path` of calls with one request message and several answer messages.
pub(crate) const SERVER_STREAM_PATH: &str = "/leno.echo.v1.Echo/ServerStream";
/// The `:path` of bidirectional streams.
pub(crate) const BIDI_PATH: &str = "/leno.echo.v1.Echo/Bidi";
/// Longest request message that a server accepts, and longest payload that it creates.
pub const MAX_PAYLOAD_BYTES: u32 = 16 << 20;
/// Size limit of a message: the longest payload, and room for the message's other fields.
const MAX_MESSAGE_BYTES: usize = MAX_PAYLOAD_BYTES as usize + 1024;
/// Maximum number of calls in flight on one connection. At hyper's default of 200, further calls would wait in the
/// client while the server is slow, and the load would be held back.
const MAX_CONCURRENT_STREAMS: u32 = 10_000;

/// Options of `leno echo`.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Address to serve on; port 0 selects a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:50061")]
    pub listen: SocketAddr,
    /// Name in the answers [default: the address]
    #[arg(long)]
    pub name: Option<String>,
    /// Duration of each call, in ms; the SetDelay call changes it
    #[arg(long, value_name = "MS", default_value_t = 0, value_parser = delay_range())]
    pub delay_ms: u32,
    /// Random addition to the delay: 0 to this, in ms
    #[arg(long, value_name = "MS", default_value_t = 0, value_parser = delay_range())]
    pub spread_ms: u32,
    /// Percentage of the calls, chosen at random, that take --slow-ms longer; the SetDelay call changes it
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = percent_range())]
    pub slow_percent: u32,
    /// Additional duration of the calls of --slow-percent, in ms
    #[arg(long, value_name = "MS", default_value_t = 0, value_parser = delay_range())]
    pub slow_ms: u32,
    /// Percentage of the calls, chosen at random, that fail at once with UNAVAILABLE; the SetFailure call changes it
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = percent_range())]
    pub fail_percent: u32,
    /// Also echo HTTP/1.1 requests, and HTTP/2 requests without gRPC, at this address; they take as long as calls
    #[arg(long, value_name = "ADDR", conflicts_with = "bare")]
    pub http1: Option<SocketAddr>,
    /// Only answer unary calls, at once and all with the same bytes: to measure the maximum of a load itself
    #[arg(long, conflicts_with_all = ["delay_ms", "spread_ms", "slow_percent", "slow_ms", "fail_percent", "upstream"])]
    pub bare: bool,
    /// Before the answer to a unary call, call the echo servers at these addresses, all at once. An authority may follow
    /// an address: 127.0.0.1:15001/echo.default:50051 [default: none]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub upstream: Vec<Upstream>,
    /// If a call to a server of --upstream fails, copy the fields that ask the caller not to retry to our own answer
    /// (grpc-retry-pushback-ms, leno-not-retried)
    #[arg(long, requires = "upstream")]
    pub forward_pushback: bool,
}

fn percent_range() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(..=100)
}

fn delay_range() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(..=i64::from(work::MAX_DELAY_MS))
}

/// Serves until SIGTERM or SIGINT, then finishes its open calls. A bare server ends at once.
///
/// # Errors
/// If the server cannot listen on the address.
pub fn run(options: &Options) -> Result<()> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(io("starting the echo server"))?;
    runtime.block_on(serve(options))
}

async fn serve(options: &Options) -> Result<()> {
    let cannot_listen = || format!("--listen {}", options.listen);
    let listener = TcpListener::bind(options.listen).await.map_err(io(cannot_listen()))?;
    let address = listener.local_addr().map_err(io(cannot_listen()))?;
    let name = options.name.clone().unwrap_or_else(|| address.to_string());
    eprintln!("{name} serves leno.echo.v1.Echo on {address}");
    let stop = until_told_to_stop()?;
    if options.bare {
        tokio::select! {
            () = bare::serve(listener, name) => {}
            () = stop => {}
        }
        return Ok(());
    }
    let work = Arc::new(Work::new(options.delay_ms, options.spread_ms));
    work.set_slow(options.slow_percent, options.slow_ms);
    if options.fail_percent > 0 {
        work.set_failure(Code::Unavailable as u32, options.fail_percent);
    }
    if let Some(address) = options.http1 {
        let listener = TcpListener::bind(address).await.map_err(io(format!("--http1 {address}")))?;
        tokio::spawn(http1::serve(listener, name.clone(), Arc::clone(&work)));
    }
    serve_on(listener, name, work, Upstreams::new(&options.upstream, options.forward_pushback)?, stop).await
}

async fn serve_on(
    listener: TcpListener,
    name: String,
    work: Arc<Work>,
    upstreams: Upstreams,
    stop: impl Future<Output = ()>,
) -> Result<()> {
    let echo = EchoServer::new(EchoService::new(name, work, upstreams)).max_decoding_message_size(MAX_MESSAGE_BYTES);
    let reflection =
        || tonic_reflection::server::Builder::configure().register_encoded_file_descriptor_set(proto::DESCRIPTORS);
    let reflection_error = |error| Error::Usage(format!("the echo server's protobuf: {error}"));
    Server::builder()
        .max_concurrent_streams(MAX_CONCURRENT_STREAMS)
        .add_service(echo)
        .add_service(reflection().build_v1().map_err(reflection_error)?)
        // Older versions of grpcurl use this version of reflection.
        .add_service(reflection().build_v1alpha().map_err(reflection_error)?)
        .serve_with_incoming_shutdown(TcpIncoming::from(listener).with_nodelay(Some(true)), stop)
        .await
        .map_err(|error| io("serving")(std::io::Error::other(error)))
}

pub(crate) fn until_told_to_stop() -> Result<impl Future<Output = ()>> {
    let watch = |kind| signal(kind).map_err(io("watching for signals"));
    let mut terminate = watch(SignalKind::terminate())?;
    let mut interrupt = watch(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

#[cfg(test)]
#[path = "echo_tests.rs"]
pub(crate) mod tests;
