use super::*;

fn lease() -> Lease {
    // No request is ever sent.
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
    // The API server rejects the write if another client has written since.
    assert_eq!(taken.metadata.resource_version.as_deref(), Some("7"));
}
