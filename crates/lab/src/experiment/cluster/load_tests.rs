use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};

use super::super::exec::tests::{exit, talking};
use super::*;
use crate::load::{Client, Exchange, Pattern, Traffic};

fn plan() -> Plan {
    Plan {
        clients: vec![Client { address: ([10, 96, 0, 7], 80).into(), authority: "backend:80".to_owned() }],
        servers: vec!["backend-0".to_owned()],
        exchange: Exchange::Grpc,
        traffic: Traffic::default(),
        pattern: Pattern::Closed { in_flight: 1 },
        warm_up: Duration::from_secs(1),
        measured: Duration::from_secs(1),
        cpus: Vec::new(),
        seed: 0,
    }
}

/// Reads a line that the coordinator has written.
async fn line_of(load: &mut BufReader<DuplexStream>) -> String {
    let mut line = String::new();
    load.read_line(&mut line).await.expect("a line");
    line
}

/// Runs a fake load, and returns the coordinator's result. The fake load reads its plan and writes `before`. Then it
/// reads the start signal, writes `after`, and ends with exit code 1.
async fn result_of(before: &'static str, after: &'static str) -> Result<Option<Recording>> {
    let (mut process, load) = talking(exit("1"));
    let load = tokio::spawn(async move {
        let mut load = BufReader::new(load);
        assert_eq!(line_of(&mut load).await, plan().to_line().expect("JSON"));
        load.write_all(before.as_bytes()).await.expect("the coordinator reads");
        if !after.is_empty() {
            assert_eq!(line_of(&mut load).await, "start\n");
            load.write_all(after.as_bytes()).await.expect("the coordinator reads");
        }
    });
    let result = match prepare(&mut process, &plan()).await? {
        true => follow(&mut process, unbounded_channel().0).await,
        false => Ok(None),
    };
    load.await.expect("no panic");
    match result {
        Ok(None) => Err(process.ended().await),
        result => result,
    }
}

const READY: &str = "{\"event\":\"running\",\"answered\":0}\n{\"event\":\"ready\"}\n";

async fn error_of(before: &'static str, after: &'static str) -> String {
    let error = result_of(before, after).await.expect_err("an error").to_string();
    assert!(error.starts_with("running /leno lab load in the Pod leno-lab-leno/load-0: "), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    error
}

#[tokio::test]
async fn a_load_that_ends_without_a_result_is_named_with_its_exit_code() {
    for (before, after) in [("", ""), (READY, "{\"event\":\"connected\"}\n")] {
        let error = error_of(before, after).await;
        assert!(error.ends_with(": it ended with exit code 1"), "{error}");
    }
}

#[tokio::test]
async fn output_that_is_no_event_is_quoted() {
    let error = error_of("exec failed: no such file\n", "").await;
    assert!(error.ends_with("; it wrote: exec failed: no such file"), "{error}");
}

#[tokio::test]
async fn a_load_that_fails_says_why() {
    let failed = "{\"event\":\"failed\",\"why\":\"no route to host\"}\n";
    for (before, after) in [(failed, ""), (READY, failed)] {
        let error = error_of(before, after).await;
        assert!(error.ends_with("load-0: no route to host"), "{error}");
    }
}

#[tokio::test]
async fn a_load_that_begins_before_the_signal_is_refused() {
    let error = error_of("{\"event\":\"connected\"}\n", "").await;
    assert!(error.ends_with("Connected arrived before the signal"), "{error}");
}

#[tokio::test]
async fn a_load_that_ends_before_it_reads_its_plan_is_asked_why() {
    let (mut process, load) = talking(exit("126"));
    drop(load);
    assert!(!prepare(&mut process, &plan()).await.expect("no other error"));
    assert!(process.ended().await.to_string().ends_with(": it ended with exit code 126"));
}
