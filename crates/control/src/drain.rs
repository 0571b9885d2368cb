//! Shuts a replica down gracefully: its clients can move to another replica before it stops.
//!
//! A Pod that ends gets SIGTERM while API servers, kubelets and proxies still send requests to it: they learn only a
//! few seconds later that the Pod is ending. If the replica stopped at once, an API server could not reach its
//! webhooks, and would refuse new Pods or store them without a proxy.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

/// The phase in the life of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The replica does not serve clients yet.
    Starting,
    Serving,
    /// The replica still serves its clients, but should get no new clients.
    Ending,
}

/// Waits for a signal, and then for `grace`, while the replica continues to serve. On the signal, sets
/// [`Phase::Ending`], so that no new clients come, and runs `release`, so that another replica can lead. A second
/// signal ends the grace period.
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
