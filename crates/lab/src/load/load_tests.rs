use super::*;
use crate::echo::tests::start_server;

fn plan(addresses: &[SocketAddr], servers: &[&str]) -> Plan {
    Plan {
        clients: addresses.iter().map(client).collect(),
        servers: servers.iter().map(ToString::to_string).collect(),
        pattern: Pattern::Open { rate_per_s: 200, max_in_flight: 50 },
        warm_up: Duration::from_millis(50),
        measured: Duration::from_millis(500),
        cpus: Vec::new(),
    }
}

fn client(&address: &SocketAddr) -> Client {
    Client { address, authority: "echo.default:50051".to_owned() }
}

/// Runs a load to its end while the test's servers run.
async fn run_to_end(plan: Plan) -> Result<Snapshot> {
    let end = tokio::task::spawn_blocking(|| Load::start(plan).finish());
    end.await.expect("the load does not panic")
}

#[tokio::test]
async fn clients_take_turns_and_every_server_is_timed_on_its_own() {
    let addresses = [start_server("fast", 0).await, start_server("slow", 60).await];
    let snapshot = run_to_end(plan(&addresses, &["fast", "slow"])).await.expect("servers that answer");
    assert_eq!(snapshot.failed, 0, "{snapshot:?}");
    let calls: Vec<u64> = snapshot.servers.iter().map(|server| server.calls).collect();
    assert_eq!(calls, [50, 50]);
    assert!(snapshot.servers[1].p50_ms >= 60.0, "{snapshot:?}");
    assert!(snapshot.servers[0].p50_ms < 60.0, "{snapshot:?}");
}

#[tokio::test]
async fn a_slow_server_does_not_slow_the_load_and_what_it_cannot_take_fails() {
    let addresses = [start_server("slow", 300).await];
    let plan = Plan { pattern: Pattern::Open { rate_per_s: 200, max_in_flight: 10 }, ..plan(&addresses, &["slow"]) };
    let snapshot = run_to_end(plan).await.expect("a server that answers");
    let why = snapshot.first_failure.as_deref();
    assert_eq!(why, Some("too many calls wait for an answer"));
    // 110 calls were due, and ten fit into each 300 ms.
    assert!(snapshot.failed >= 80, "{snapshot:?}");
}

#[tokio::test]
async fn calls_that_fail_are_counted_with_the_first_reason() {
    let addresses = [start_server("unexpected", 0).await];
    let snapshot = run_to_end(plan(&addresses, &["s1"])).await.expect("a server that answers");
    assert_eq!(snapshot.total.calls, 0);
    let why = snapshot.first_failure.as_deref();
    assert_eq!(why, Some("an unknown server answered: \"unexpected\""));
}

#[test]
fn a_client_that_cannot_connect_ends_the_load_with_its_address() {
    let nobody = crate::child::free_address().expect("a free port");
    let load = Load::start(plan(&[nobody], &["s1"]));
    let text = load.finish().expect_err("nobody listens").to_string();
    assert!(text.contains(&nobody.to_string()), "{text}");
    assert!(text.contains("echo.default:50051"), "{text}");
}
