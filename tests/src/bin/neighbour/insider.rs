//! Attacks by a workload with a certificate of the mesh but without a proxy: the workload itself connects to other
//! workloads' ports.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use leno_tests::wire::{self, flag, kind};

use super::certificate::Certificate;
use super::requests::{Working, framed, grpc, tunnel};
use super::{CLOSED_PORT, Campaign, Count, OPEN_PORT, at, xds};

/// Number of connections of each attack to each Pod.
const CONNECTIONS: u32 = 2;
/// Number of streams that the insider opens on one connection, and whose answers it leaves unread.
const STREAMS: u32 = 150;
/// Size of the application's answer on each stream.
const ANSWER_BYTES: u32 = 128 << 10;
/// Time for which the insider keeps a connection open without reading its answers.
const HOLD: Duration = Duration::from_secs(25);
/// Pause before the insider opens the next stream on a connection.
const STREAM_PAUSE: Duration = Duration::from_millis(50);
/// Pause between two tunnels to closed ports.
const CONNECT_PAUSE: Duration = Duration::from_millis(50);
/// Pause between two connections.
const EVERY: Duration = Duration::from_secs(3);

/// An attack on one connection, which lasts until the connection ends.
#[derive(Clone, Copy)]
enum Act {
    Tunnels,
    Calls,
    DeniedCalls,
    ClosedPorts,
}

/// Gets the insider's certificate, and starts its attacks.
///
/// # Panics
/// If the control plane issues no certificate.
pub(super) async fn attack(campaign: &mut Campaign, proxies: &[IpAddr], controls: &[IpAddr]) {
    let control = *at(controls, 15012).first().expect("a control plane");
    let certificate = Certificate::ask(control).await.expect("the control plane certifies a workload");
    for (name, port, connections, act) in [
        ("tunnels_with_shut_windows", 15008, CONNECTIONS, Act::Tunnels),
        ("identified_unread_answers", 4143, CONNECTIONS, Act::Calls),
        ("identified_unread_denials", 4143, CONNECTIONS, Act::DeniedCalls),
        ("tunnels_to_closed_ports", 15008, 1, Act::ClosedPorts),
    ] {
        let count = campaign.count(name);
        campaign.spawn_each(&at(proxies, port), connections, EVERY, |address| {
            let (certificate, count) = (certificate.clone(), count.clone());
            async move {
                loop {
                    // Ignore the error: the attack is meant to fail, and other tests check the error.
                    act.on(address, &certificate, &count).await.ok();
                    tokio::time::sleep(EVERY).await;
                }
            }
        });
    }
    xds::attack(campaign, &certificate, &at(controls, 15010));
}

impl Act {
    /// Connects, opens streams, and leaves the answers on them unread.
    async fn on(self, address: SocketAddr, certificate: &Certificate, count: &Count) -> io::Result<()> {
        let port = if matches!(self, Self::DeniedCalls) { CLOSED_PORT } else { OPEN_PORT };
        let stream = certificate.connect(address, &format!("{port}.leno.internal")).await?;
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(0).initial_max_send_streams(STREAMS as usize);
        let (requests, connection) = builder.handshake::<_, Bytes>(stream).await.map_err(io::Error::other)?;
        let working = Working::on(connection);
        let target = SocketAddr::new(address.ip(), port);
        let opened = match self {
            Self::ClosedPorts => connect_to_closed_ports(requests, target.ip(), count).await,
            Self::Tunnels => open(requests, count, &tunnel(target), &call_in_a_tunnel()).await,
            Self::Calls | Self::DeniedCalls => {
                let head = grpc(&format!("http://{target}/leno.echo.v1.Echo/Unary"));
                open(requests, count, &head, &framed(&request())).await
            }
        };
        let _streams = opened.map_err(io::Error::other)?;
        let held = tokio::time::Instant::now();
        while held.elapsed() < HOLD && !working.has_ended() {
            tokio::time::sleep(EVERY).await;
        }
        Ok(())
    }
}

type Streams = Vec<(h2::client::ResponseFuture, h2::SendStream<Bytes>)>;

/// Opens streams, each with the same request and content.
async fn open(
    mut requests: SendRequest<Bytes>,
    count: &Count,
    head: &http::Request<()>,
    content: &Bytes,
) -> Result<Streams, h2::Error> {
    let mut streams = Vec::new();
    for _ in 0..STREAMS {
        requests = requests.ready().await?;
        let (response, mut sender) = requests.send_request(head.clone(), false)?;
        // A tunnel's stream stays open; a call's stream ends after its content.
        sender.send_data(content.clone(), head.method() != http::Method::CONNECT)?;
        count.fetch_add(1, Ordering::Relaxed);
        streams.push((response, sender));
        tokio::time::sleep(STREAM_PAUSE).await;
    }
    Ok(streams)
}

/// Opens tunnels to ports on which nothing listens, one after the other.
async fn connect_to_closed_ports(
    mut requests: SendRequest<Bytes>,
    ip: IpAddr,
    count: &Count,
) -> Result<Streams, h2::Error> {
    for port in 40_000..50_000 {
        requests = requests.ready().await?;
        let (response, _) = requests.send_request(tunnel((ip, port).into()), false)?;
        count.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(CONNECT_PAUSE).await;
        drop(response);
    }
    Ok(Vec::new())
}

/// Returns the message that requests an answer of [`ANSWER_BYTES`] from the echo server.
pub(super) fn request() -> Vec<u8> {
    // The field `response_bytes`.
    let mut message = vec![2 << 3];
    let mut rest = ANSWER_BYTES;
    while rest >= 128 {
        message.push((rest % 128) as u8 | 0x80);
        rest /= 128;
    }
    message.push(rest as u8);
    message
}

/// Returns the bytes that the client of an HTTP/2 connection sends: large flow-control windows, and one call.
fn call_in_a_tunnel() -> Bytes {
    let block: Vec<u8> = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/leno.echo.v1.Echo/Unary"),
        (":authority", "echo"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ]
    .iter()
    .flat_map(|(name, value)| wire::literal(name, value))
    .collect();
    let parts = [
        wire::PREFACE.to_vec(),
        wire::settings(&[(4, 1 << 30)]),
        wire::window_update(0, 1 << 30),
        wire::headers(1, flag::NONE, &block),
        wire::frame(kind::DATA, flag::END_STREAM, 1, &framed(&request())),
    ];
    parts.concat().into()
}
