//! Requests to the webhooks: large bodies that are no review, and reviews with so many values that a parsed review
//! takes a hundred times its size in memory.

use std::io;
use std::net::{IpAddr, SocketAddr};

use tokio::io::AsyncWriteExt;

use super::encrypted::{connect, read_on, repeat};
use super::{Campaign, at};

/// Size of a small review. The webhooks limit the number of concurrent reviews only for larger reviews.
const SMALL_BYTES: usize = 30 << 10;
/// Size of a larger review, to which the limit on concurrent reviews applies.
const MIDDLE_BYTES: usize = 600 << 10;
/// Size of the largest review that the webhooks accept.
const LARGEST_BYTES: usize = 4 << 20;
/// A namespace that exists.
const KNOWN: &str = "shop";
/// A namespace that does not exist.
const UNKNOWN: &str = "nowhere";

pub(super) fn attack(campaign: &mut Campaign, controls: &[IpAddr]) {
    let webhooks = &at(controls, 15017);
    repeat(campaign, "control_large_reviews", webhooks, 3, |address| send(address, vec![b'['; 1 << 20]));
    repeat(campaign, "control_small_reviews_of_values", webhooks, 4, |address| values(address, KNOWN, SMALL_BYTES));
    repeat(campaign, "control_small_reviews_for_nowhere", webhooks, 4, |address| values(address, UNKNOWN, SMALL_BYTES));
    repeat(campaign, "control_reviews_of_values", webhooks, 2, |address| values(address, KNOWN, MIDDLE_BYTES));
    repeat(campaign, "control_reviews_for_nowhere", webhooks, 2, |address| values(address, UNKNOWN, MIDDLE_BYTES));
    repeat(campaign, "control_largest_reviews_of_values", webhooks, 1, |address| values(address, KNOWN, LARGEST_BYTES));
    repeat(campaign, "control_largest_reviews_for_nowhere", webhooks, 1, |address| {
        values(address, UNKNOWN, LARGEST_BYTES)
    });
}

/// Sends a review of a Pod in this namespace. The Pod's list of containers has as many empty objects as fit into
/// `bytes`.
fn values(address: SocketAddr, namespace: &str, bytes: usize) -> impl Future<Output = io::Result<()>> + use<> {
    let head = format!(
        r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"1","namespace":"{namespace}","operation":"CREATE","object":{{"apiVersion":"v1","kind":"Pod","spec":{{"containers":["#
    );
    let values = "{},".repeat((bytes - head.len() - 10) / 3);
    send(address, format!("{head}{values}{{}}]}}}}}}}}").into_bytes())
}

async fn send(address: SocketAddr, review: Vec<u8>) -> io::Result<()> {
    let mut stream = connect(address, "leno-control.leno.svc", b"http/1.1").await?;
    let length = review.len();
    let head = format!(
        "POST /inject?timeout=10s HTTP/1.1\r\nHost: leno-control.leno.svc\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(&review).await?;
    read_on(&mut stream).await
}
