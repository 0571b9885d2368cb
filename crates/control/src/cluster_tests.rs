use super::*;
use crate::issuer::store::Store;

/// A time longer than a replica's pause between two attempts to claim the Lease.
const LONG: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn a_replica_leads_from_the_time_when_it_knows_the_cluster_until_it_ends() {
    let store = Store::new();
    let lease = Lease::new(store.client(), "leno", "us".to_owned());
    let (leader, leads) = watch::channel(false);
    let (listed, is_listed) = watch::channel(false);
    let (phase, phases) = watch::channel(Phase::Starting);
    let steps = async {
        sleep(LONG).await;
        assert!(!*leads.borrow() && store.stored().is_none(), "it does not claim the Lease yet");
        listed.send_replace(true);
        sleep(LONG).await;
        assert!(*leads.borrow());
        phase.send_replace(Phase::Ending);
        sleep(Duration::from_millis(1)).await;
        let claimed = store.stored();
        sleep(LONG).await;
        assert_eq!(store.stored(), claimed, "it renews the Lease no more");
    };
    tokio::select! {
        never = lead(lease, &leader, is_listed, phases) => match never {},
        () = steps => {}
    }
}
