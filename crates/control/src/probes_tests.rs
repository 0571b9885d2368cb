use http_body_util::BodyExt;

use super::*;

#[test]
fn live_tells_when_nothing_has_run_for_long() {
    let heart = Heart::new();
    let answers = |seconds| heart.answer(heart.started + Duration::from_secs(seconds)).status();
    assert_eq!(
        (answers(0), answers(29), answers(31)),
        (StatusCode::OK, StatusCode::OK, StatusCode::SERVICE_UNAVAILABLE)
    );
    heart.last_beat_ms.store(10_000, Ordering::Relaxed);
    assert_eq!((answers(31), answers(41)), (StatusCode::OK, StatusCode::SERVICE_UNAVAILABLE));
}

#[tokio::test]
async fn a_task_that_runs_beats() {
    let heart = Heart::new();
    heart.last_beat_ms.store(u64::MAX, Ordering::Relaxed);
    assert!(futures_util::FutureExt::now_or_never(heart.beat()).is_none(), "it never ends");
    assert!(heart.last_beat_ms.load(Ordering::Relaxed) < 60_000, "it beats at once");
}

#[tokio::test]
async fn a_replica_without_an_authority_is_not_ready_and_names_what_it_waits_for() {
    let (_sender, phase) = watch::channel(Phase::Starting);
    let state = watch::Sender::<Arc<State>>::default();
    for (is_external, expected) in [
        (false, "waiting for the cluster: its issuing authority\n"),
        (
            true,
            "waiting for the cluster: a valid authority in Secret leno-identity-issuer, which another program writes ",
        ),
    ] {
        let answer = Readiness { state: state.subscribe(), phase: phase.clone(), is_external }.answer();
        assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
        let body = answer.into_body().collect().await.expect("a page").to_bytes();
        assert!(body.starts_with(expected.as_bytes()), "{body:?}");
    }
}

#[test]
fn probes_are_answered_while_the_main_task_does_not_run() {
    let runtime = runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (sender, phase) = watch::channel(Phase::Starting);
    let state = watch::Sender::<Arc<State>>::default();
    let address = runtime.block_on(async {
        let listener = leno_accept::listen("127.0.0.1:0".parse().expect("an address")).expect("a free port");
        let address = listener.local_addr().expect("an address");
        let readiness = Readiness { state: state.subscribe(), phase, is_external: false };
        answer_probes(listener, Heart::new(), readiness).expect("a thread");
        address
    });
    // Nothing polls the runtime from here on.
    let status = |path: &str, method: &str| {
        use std::io::{Read, Write};
        let mut stream = std::net::TcpStream::connect(address).expect("it listens");
        write!(stream, "{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n").expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer.split(' ').nth(1).unwrap_or_default().to_owned()
    };
    assert_eq!(status("/live", "GET"), "200");
    assert_eq!(status("/ready", "GET"), "503");
    sender.send_replace(Phase::Serving);
    assert_eq!(status("/ready", "GET"), "200");
    assert_eq!(status("/ready", "PUT"), "405");
    sender.send_replace(Phase::Ending);
    assert_eq!(status("/ready", "GET"), "503");
    assert_eq!(status("/live", "GET"), "200");
    assert_eq!(status("/config", "GET"), "404");
}
