//! xDS streams that subscribe to many names, request resources that they already have, and leave answers unread.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use h2::client::SendRequest;
use h2::{RecvStream, SendStream};
use leno_xds::Kind;
use prost::Message;
use tokio::time::timeout;

use super::certificate::Certificate;
use super::requests::{Working, framed, grpc};
use super::{Campaign, Count};

/// Number of connections to each replica.
const CONNECTIONS: u32 = 8;
/// Number of streams on each connection: the control plane's limit.
const STREAMS: usize = 8;
/// Number of names of each kind to which each stream subscribes. The names do not exist. All streams together subscribe
/// to 128,000 names: more than half of what a control plane with 256 MiB of memory allows all clients together.
const NAMES: usize = 500;
/// A large resource: the Service to which the test attaches routes that are costly to translate.
const HEAVY: &str = "heavy.neighbours:80";
/// Interval at which each stream requests [`HEAVY`] again.
const ASK_AGAIN: Duration = Duration::from_secs(2);
const EVERY: Duration = Duration::from_secs(6);

#[derive(Clone)]
struct Counts {
    streams: Count,
    names: Count,
    again: Count,
}

pub(super) fn attack(campaign: &mut Campaign, certificate: &Certificate, addresses: &[SocketAddr]) {
    let counts = Counts {
        streams: campaign.count("xds_streams"),
        names: campaign.count("xds_names"),
        again: campaign.count("xds_names_asked_for_again"),
    };
    campaign.spawn_each(addresses, CONNECTIONS, EVERY, |address| {
        let (certificate, counts) = (certificate.clone(), counts.clone());
        async move {
            loop {
                // Ignore the error: the attack is meant to fail, and other tests check the error.
                connection(address, &certificate, &counts).await.ok();
                tokio::time::sleep(EVERY).await;
            }
        }
    });
}

/// Opens one connection, and waits until all of its streams have ended.
async fn connection(address: SocketAddr, certificate: &Certificate, counts: &Counts) -> io::Result<()> {
    let stream = certificate.connect(address, "leno-control.leno.svc").await?;
    let (requests, connection) = h2::client::handshake(stream).await.map_err(io::Error::other)?;
    let _working = Working::on(connection);
    let mut streams = tokio::task::JoinSet::new();
    for number in 0..STREAMS {
        streams.spawn(subscribe(requests.clone(), address, number, counts.clone()));
    }
    while streams.join_next().await.is_some() {}
    Ok(())
}

/// Runs one stream until it ends. Streams with an odd `number` never read.
async fn subscribe(
    requests: SendRequest<Bytes>,
    address: SocketAddr,
    number: usize,
    counts: Counts,
) -> Result<(), h2::Error> {
    let mut requests = requests.ready().await?;
    let path = "envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";
    let (response, mut sender) = requests.send_request(grpc(&format!("https://{address}/{path}")), false)?;
    counts.streams.fetch_add(1, Ordering::Relaxed);
    for kind in Kind::ALL {
        let name = |of: usize| format!("s{number}-{of:0>40}.{}:80", "n".repeat(60));
        let names: Vec<String> = (0..NAMES).map(name).chain([HEAVY.to_owned()]).collect();
        counts.names.fetch_add(names.len() as u64, Ordering::Relaxed);
        send(&mut sender, request(kind, names, String::new())).await?;
    }
    let reads = number.is_multiple_of(2);
    // Keep the unread answers of a stream that does not read: the `h2` crate counts dropped answers as read.
    let mut answers = Answers { response: Some(response), body: None, bytes: BytesMut::new() };
    loop {
        let asked = tokio::time::Instant::now();
        for kind in [Kind::Cluster, Kind::Route] {
            counts.again.fetch_add(1, Ordering::Relaxed);
            send(&mut sender, request(kind, vec![HEAVY.to_owned()], String::new())).await?;
        }
        while let Some(rest) = ASK_AGAIN.checked_sub(asked.elapsed()) {
            if !reads {
                tokio::time::sleep(rest).await;
                continue;
            }
            let Ok(answer) = timeout(rest, answers.next()).await else { break };
            // Acknowledge the answer, because otherwise the control plane sends no more answers.
            let DeltaDiscoveryResponse { type_url, nonce, .. } = answer?;
            if let Some(kind) = Kind::from_type_url(&type_url) {
                send(&mut sender, request(kind, Vec::new(), nonce)).await?;
            }
        }
    }
}

fn request(kind: Kind, names: Vec<String>, nonce: String) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        node: Some(Node { id: "insider".to_owned(), ..Node::default() }),
        type_url: kind.type_url().to_owned(),
        resource_names_subscribe: names,
        response_nonce: nonce,
        ..DeltaDiscoveryRequest::default()
    }
}

/// Sends a message in pieces, each as large as the flow-control windows allow.
async fn send(sender: &mut SendStream<Bytes>, request: DeltaDiscoveryRequest) -> Result<(), h2::Error> {
    let mut message = framed(&request.encode_to_vec());
    while message.has_remaining() {
        sender.reserve_capacity(message.len());
        match std::future::poll_fn(|context| sender.poll_capacity(context)).await {
            Some(room) => {
                let room = room?.min(message.len());
                sender.send_data(message.split_to(room), false)?;
            }
            None => return Err(h2::Reason::CANCEL.into()),
        }
    }
    Ok(())
}

/// Reads the messages of a stream's response.
struct Answers {
    response: Option<h2::client::ResponseFuture>,
    body: Option<RecvStream>,
    bytes: BytesMut,
}

impl Answers {
    /// Returns the next message. If the caller drops the future, no bytes are lost: the next call continues.
    async fn next(&mut self) -> Result<DeltaDiscoveryResponse, h2::Error> {
        loop {
            if let Some(length) = self.bytes.get(1..5).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes)
                && self.bytes.len() >= 5 + length as usize
            {
                let message = self.bytes.split_to(5 + length as usize);
                return Ok(DeltaDiscoveryResponse::decode(&message[5..]).unwrap_or_default());
            }
            if let Some(response) = &mut self.response {
                self.body = Some(response.await?.into_body());
                self.response = None;
            }
            let Some(body) = &mut self.body else { return Err(h2::Reason::CANCEL.into()) };
            let part = body.data().await.ok_or(h2::Reason::CANCEL)??;
            body.flow_control().release_capacity(part.len())?;
            self.bytes.extend_from_slice(&part);
        }
    }
}
