use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

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

/// The result of a load that reads its plan, writes this, and ends with exit code 1.
async fn result_of(output: &'static str) -> Result<Option<Recording>> {
    let (mut process, load) = talking(exit("1"));
    let load = tokio::spawn(async move {
        let mut load = BufReader::new(load);
        let mut line = String::new();
        load.read_line(&mut line).await.expect("a plan");
        assert_eq!(line, plan().to_line().expect("JSON"));
        load.write_all(output.as_bytes()).await.expect("the coordinator reads");
    });
    let result = follow(&mut process, &plan(), unbounded_channel().0).await;
    load.await.expect("no panic");
    match result {
        Ok(None) => Err(process.ended().await),
        result => result,
    }
}

async fn error_of(output: &'static str) -> String {
    let error = result_of(output).await.expect_err("an error").to_string();
    assert!(error.starts_with("running /leno lab load in the Pod leno-lab-leno/load-0: "), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    error
}

#[tokio::test]
async fn a_load_that_ends_without_a_result_is_named_with_its_exit_code() {
    for output in ["", "{\"event\":\"connected\"}\n"] {
        let error = error_of(output).await;
        assert!(error.ends_with(": it ended with exit code 1"), "{error}");
    }
}

#[tokio::test]
async fn output_that_is_no_event_is_quoted() {
    let error = error_of("exec failed: no such file\n").await;
    assert!(error.ends_with("; it wrote: exec failed: no such file"), "{error}");
}

#[tokio::test]
async fn a_load_that_fails_says_why() {
    let error = error_of("{\"event\":\"failed\",\"why\":\"no route to host\"}\n").await;
    assert!(error.ends_with("load-0: no route to host"), "{error}");
}

#[tokio::test]
async fn a_load_that_ends_before_it_reads_its_plan_is_asked_why() {
    let (mut process, load) = talking(exit("126"));
    drop(load);
    assert!(follow(&mut process, &plan(), unbounded_channel().0).await.expect("no other error").is_none());
    assert!(process.ended().await.to_string().ends_with(": it ended with exit code 126"));
}
