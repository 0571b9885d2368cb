//! A mesh for the tests of the control plane's services.

use std::net::SocketAddr;

use futures_util::StreamExt;

use super::{Answers, Plan, Pod};

/// A Service with two Pods.
pub(super) fn plan(is_opaque: bool) -> Plan {
    let at_pod = |port| SocketAddr::from(([10, 244, 0, 50], port));
    let pods = vec![
        Pod { address: at_pod(16_001), inbound: at_pod(16_003) },
        Pod { address: at_pod(16_002), inbound: at_pod(16_004) },
    ];
    Plan { service: SocketAddr::from(([10, 96, 0, 50], 16_000)), pods, is_opaque }
}

/// Returns the first answer of a stream.
pub(super) async fn first<T>(answers: tonic::Response<Answers<T>>) -> T {
    answers.into_inner().next().await.expect("an answer").expect("no error")
}
