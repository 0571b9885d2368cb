use std::cell::Cell;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::*;

const GRACE: Duration = Duration::from_secs(10);

/// Runs a replica to which `signals` sends its signals. Returns whether the replica released the Lease, and for how
/// long it served.
async fn served(phase: &watch::Sender<Phase>, signals: impl AsyncFnOnce(mpsc::Sender<()>)) -> (bool, Duration) {
    let (sender, mut received) = mpsc::channel(2);
    let (is_released, start) = (Cell::new(false), Instant::now());
    let signal = async || {
        if received.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    };
    let release = async { is_released.set(true) };
    let served = async {
        drain(signal, phase, GRACE, release).await;
        start.elapsed()
    };
    let (served, ()) = tokio::join!(served, signals(sender));
    (is_released.get(), served)
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_ends_is_not_ready_and_serves_on_for_the_grace() {
    let phase = watch::Sender::new(Phase::Serving);
    let signals = async |signals: mpsc::Sender<()>| {
        sleep(Duration::from_secs(60)).await;
        assert_eq!(*phase.borrow(), Phase::Serving);
        signals.send(()).await.expect("it runs");
        sleep(Duration::from_millis(1)).await;
        assert_eq!(*phase.borrow(), Phase::Ending);
    };
    assert_eq!(served(&phase, signals).await, (true, Duration::from_secs(60) + GRACE));
}

#[tokio::test(start_paused = true)]
async fn a_second_signal_ends_a_replica_at_once() {
    let phase = watch::Sender::new(Phase::Serving);
    let signals = async |signals: mpsc::Sender<()>| {
        for _ in 0..2 {
            sleep(Duration::from_secs(1)).await;
            signals.send(()).await.expect("it runs");
        }
    };
    assert_eq!(served(&phase, signals).await, (true, Duration::from_secs(2)));
}
