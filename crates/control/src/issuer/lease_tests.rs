use std::future::pending;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::task::yield_now;
use tokio::time::sleep;

use super::*;
use crate::issuer::store::{Reach, Store};

fn lease() -> Lease {
    // Any address will do: the tests with this Lease send no request.
    let config = kube::Config::new("http://127.0.0.1:1".parse().expect("a URL"));
    Lease::new(kube::Client::try_from(config).expect("a client"), "leno", "us".to_owned())
}

fn held_by(holder: &str, version: &str) -> kubernetes::Lease {
    kubernetes::Lease {
        metadata: ObjectMeta { resource_version: Some(version.to_owned()), ..ObjectMeta::default() },
        spec: Some(kubernetes::LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(15),
            ..kubernetes::LeaseSpec::default()
        }),
    }
}

#[tokio::test]
async fn a_lease_that_is_missing_is_created_and_one_that_is_ours_is_renewed() {
    let mut lease = lease();
    let now = Instant::now();
    assert_eq!(lease.step(None, now), Step::Create);
    assert_eq!(lease.step(Some(&held_by("us", "1")), now), Step::Renew);
    assert_eq!(lease.step(Some(&held_by("", "1")), now), Step::Take);
}

#[tokio::test]
async fn anothers_lease_is_taken_when_it_has_not_changed_for_its_duration() {
    let mut lease = lease();
    let start = Instant::now();
    let after = |seconds| start + Duration::from_secs(seconds);
    assert_eq!(lease.step(Some(&held_by("them", "1")), after(0)), Step::Wait);
    assert_eq!(lease.step(Some(&held_by("them", "2")), after(10)), Step::Wait);
    assert_eq!(lease.step(Some(&held_by("them", "2")), after(24)), Step::Wait);
    assert_eq!(lease.step(Some(&held_by("them", "2")), after(26)), Step::Take);
}

#[tokio::test]
async fn who_takes_a_lease_says_since_when() {
    let lease = lease();
    let taken = lease.claim(Some(held_by("them", "7")), Step::Take);
    let spec = taken.spec.expect("a spec");
    assert_eq!((spec.holder_identity.as_deref(), spec.lease_transitions), (Some("us"), Some(1)));
    assert_eq!(spec.acquire_time, spec.renew_time);
    // Keep the resource version, so that the API server rejects the write if another client has changed the Lease.
    assert_eq!(taken.metadata.resource_version.as_deref(), Some("7"));
}

/// Starts a replica, which claims and renews the Lease until the test ends. The value in the returned receiver is
/// `true` while the replica leads.
fn replica(server: &Store, holder: &str) -> watch::Receiver<bool> {
    let (sender, leads) = watch::channel(false);
    let lease = Lease::new(server.client(), "leno", holder.to_owned());
    tokio::spawn(async move { hold(lease, &sender, SystemTime::now).await });
    leads
}

async fn becomes(leads: &mut watch::Receiver<bool>, value: bool) -> Duration {
    let start = Instant::now();
    let waiting = leads.wait_for(|leads| *leads == value);
    timeout(Duration::from_secs(600), waiting).await.expect("it happens in time").expect("the replica runs");
    start.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_leader_without_an_api_server_stops_before_its_lease_expires_and_leads_again_by_itself() {
    for away in [Reach::Fails, Reach::Hangs] {
        for phase_ms in (0..5_500).step_by(500) {
            let server = Store::new();
            let mut leads = replica(&server, "us");
            becomes(&mut leads, true).await;
            sleep(Duration::from_millis(phase_ms)).await;
            server.set(away);
            let stopped_after = becomes(&mut leads, false).await;
            assert!(stopped_after <= STOP, "{away:?} at {phase_ms} ms: it led for {stopped_after:?} more");
            sleep(Duration::from_secs(60)).await;
            server.set(Reach::Answers);
            let back_after = becomes(&mut leads, true).await;
            assert!(back_after <= ATTEMPT + RETRY, "{away:?} at {phase_ms} ms: it took {back_after:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_was_suspended_stops_before_its_task_does_anything_else() {
    let server = Store::new();
    let (sender, mut leads) = watch::channel(false);
    let start = Instant::now();
    let suspended_s = AtomicU64::new(0);
    let wall = || SystemTime::UNIX_EPOCH + start.elapsed() + Duration::from_secs(suspended_s.load(Ordering::Relaxed));
    let holding = hold(Lease::new(server.client(), "leno", "us".to_owned()), &sender, wall);
    let working = async {
        becomes(&mut leads, true).await;
        // A short suspension, after which the Lease has not expired yet.
        suspended_s.store(STOP.as_secs() - 1, Ordering::Relaxed);
        yield_now().await;
        assert!(*leads.borrow());
        suspended_s.store(STOP.as_secs(), Ordering::Relaxed);
        yield_now().await;
        assert!(!*leads.borrow(), "it leads with an expired Lease");
        let back_after = becomes(&mut leads, true).await;
        assert!(back_after <= RENEWAL * 2, "it took {back_after:?}");
        // The wall clock may be set back: the monotonic clock still ends the leadership.
        suspended_s.store(0, Ordering::Relaxed);
        server.set(Reach::Fails);
        assert!(becomes(&mut leads, false).await <= STOP);
    };
    tokio::select! {
        biased;
        () = holding => panic!("it ended"),
        () = working => {}
    }
}

#[tokio::test(start_paused = true)]
async fn a_short_failure_of_the_api_server_ends_no_leadership() {
    for away in [Reach::Fails, Reach::Hangs] {
        let server = Store::new();
        let mut leads = replica(&server, "us");
        becomes(&mut leads, true).await;
        for _ in 0..20 {
            sleep(Duration::from_millis(8_300)).await;
            server.set(away);
            sleep(ATTEMPT).await;
            server.set(Reach::Answers);
        }
        assert!(!leads.has_changed().expect("the replica runs"), "{away:?}: it stopped leading");
    }
}

#[tokio::test(start_paused = true)]
async fn work_of_the_leader_ends_with_the_leadership() {
    let (leader, leads) = watch::channel(true);
    assert_eq!(while_leading(leads.clone(), async { 7 }).await, Some(7));
    tokio::spawn(async move {
        sleep(Duration::from_secs(1)).await;
        leader.send_replace(false);
        pending::<()>().await;
    });
    assert_eq!(while_leading(leads.clone(), sleep(Duration::from_secs(60))).await, None);
    assert_eq!(while_leading(leads, async { 7 }).await, None);
}

#[tokio::test(start_paused = true)]
async fn two_replicas_never_lead_at_the_same_time_whichever_loses_the_api_server() {
    let ours = Store::new();
    let theirs = ours.for_another();
    let (mut us, mut them) = (replica(&ours, "us"), replica(&theirs, "them"));
    becomes(&mut us, true).await;
    let (both_us, both_them) = (us.clone(), them.clone());
    let watching = tokio::spawn(async move {
        loop {
            assert!(!(*both_us.borrow() && *both_them.borrow()), "both replicas lead");
            sleep(Duration::from_millis(50)).await;
        }
    });
    for away in [Reach::Fails, Reach::Hangs] {
        for (server, next) in [(&ours, &mut them), (&theirs, &mut us)] {
            server.set(away);
            let taken_after = becomes(next, true).await;
            assert!(
                taken_after < Duration::from_secs(30),
                "{away:?}: the other replica took over after {taken_after:?}"
            );
            sleep(Duration::from_secs(60)).await;
            server.set(Reach::Answers);
            sleep(Duration::from_secs(30)).await;
            assert!(*next.borrow(), "{away:?}: the replica that came back took the Lease away");
        }
    }
    assert!(!watching.is_finished(), "both replicas led");
}
