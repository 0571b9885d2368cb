use super::*;

fn pods(count: usize) -> Vec<Unmeshed> {
    (0..count).map(|i| pod(&format!("web-{i:03}"), &format!("uid-{i:03}"))).collect()
}

fn pod(name: &str, uid: &str) -> Unmeshed {
    Unmeshed { name: name.into(), uid: uid.into(), lacking: Lacking::Proxy }
}

fn shop(count: usize) -> ByNamespace {
    [("shop".into(), pods(count))].into()
}

#[test]
fn each_pod_is_reported_once_and_of_many_only_the_first() {
    let mut reported = Reported::default();
    let due = reported.due(&shop(2));
    assert_eq!(due.iter().map(|(_, pod)| &*pod.name).collect::<Vec<_>>(), ["web-000", "web-001"]);
    reported.events.extend(due.into_iter().map(|(_, pod)| pod.key()));
    assert!(reported.due(&shop(2)).is_empty());
    assert_eq!(reported.due(&shop(10_000)).len(), EVENTS_PER_NAMESPACE_MAX - 2);
    reported.due(&shop(0));
    assert!(reported.events.is_empty(), "what is gone is forgotten");
}

#[test]
fn the_log_tells_when_a_namespace_has_more_of_them() {
    let mut reported = Reported::default();
    let line = "Pods of namespace shop that run without the proxy or gRPC sidecar that leno.dev/inject asks for: 2; leno check --proxy names them";
    assert_eq!(reported.rises(&shop(2)), [line]);
    for count in [2, 1] {
        assert!(reported.rises(&shop(count)).is_empty());
    }
    assert_eq!(reported.rises(&shop(2)), [line]);
}

#[test]
fn an_event_is_about_the_pod_and_fits_whatever_its_name() {
    let pod = pod(&"n".repeat(253), "0123456789");
    let event = event("shop", &pod, Timestamp::UNIX_EPOCH);
    assert!(event.metadata.name.expect("a name").len() <= 253);
    assert_eq!(event.involved_object.uid.as_deref(), Some("0123456789"));
    assert_eq!((event.reason.as_deref(), event.type_.as_deref()), (Some("WithoutProxy"), Some("Warning")));
}

#[test]
fn an_event_names_what_the_pod_lacks() {
    let of = |lacking| {
        let event = event("shop", &Unmeshed { lacking, ..pod("web", "1") }, Timestamp::UNIX_EPOCH);
        (event.reason.unwrap_or_default(), event.message.unwrap_or_default())
    };
    let (reason, message) = of(Lacking::Proxy);
    assert_eq!(reason, "WithoutProxy");
    assert!(message.contains("runs without a proxy") && message.contains("not encrypted"), "{message}");
    // If the annotation changes, the Pod gets another Event.
    let mut reported = Reported::default();
    reported.events.insert(("1".into(), Lacking::GrpcSidecar));
    assert_eq!(reported.due(&[("shop".into(), vec![pod("web", "1")])].into()).len(), 1);
    let (reason, message) = of(Lacking::GrpcSidecar);
    assert_eq!(reason, "WithoutGrpcSidecar");
    assert!(message.contains("runs without the gRPC sidecar") && message.contains("no identity"), "{message}");
}

/// If each Pod were compared with each other Pod, this test would take minutes.
#[test]
fn many_namespaces_are_reported_in_a_short_time() {
    let of = |namespace: usize| {
        let pod = |i: usize| pod(&format!("{namespace}-{i}"), &format!("{namespace}-{i}"));
        (format!("ns-{namespace}").into(), (0..EVENTS_PER_NAMESPACE_MAX).map(pod).collect())
    };
    let all: ByNamespace = (0..8_000).map(of).collect();
    let mut reported = Reported::default();
    let due = reported.due(&all);
    reported.events.extend(due.into_iter().map(|(_, pod)| pod.key()));
    let start = std::time::Instant::now();
    assert!(reported.due(&all).is_empty());
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}
