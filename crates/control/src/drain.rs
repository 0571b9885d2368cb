//! The end of a replica: its clients move to another replica before it stops.
//!
//! A Pod that ends gets SIGTERM while other programs still send requests to it: API servers, kubelets and proxies learn
//! a few seconds later that the Pod is gone. If the replica stopped at once, an API server would refuse Pods, or store
//! them without a proxy.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

/// What a replica does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It serves no clients yet.
    Starting,
    Serving,
    /// It still serves its clients, but should get no new clients.
    Ending,
}

/// Waits for a signal, then continues to serve for `grace`. Reports [`Phase::Ending`] at once, so that no new clients
/// come, and runs `release`, so that another replica can lead. A second signal ends the grace period at once.
pub(crate) async fn drain(
    mut signal: impl AsyncFnMut(),
    phase: &watch::Sender<Phase>,
    grace: Duration,
    release: impl Future<Output = ()>,
) {
    signal().await;
    phase.send_replace(Phase::Ending);
    tracing::info!(
        grace_s = grace.as_secs_f64(),
        "ending: clients have this time to move; another signal ends at once"
    );
    let served = async {
        tokio::join!(release, sleep(grace));
    };
    tokio::select! {
        () = served => {}
        () = signal() => {}
    }
}

#[cfg(test)]
#[path = "drain_tests.rs"]
mod tests;
