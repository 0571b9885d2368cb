use std::io::Cursor;

use super::super::{Client, Exchange, Pattern, Snapshot, Traffic};
use super::*;
use crate::echo::tests::{start_http1_server, start_server};

fn plan(address: std::net::SocketAddr) -> Plan {
    Plan {
        clients: vec![Client { address, authority: "echo.default:50051".to_owned() }; 2],
        servers: vec!["s1".to_owned()],
        exchange: Exchange::Grpc,
        traffic: Traffic::default(),
        pattern: Pattern::Open { rate_per_s: 200, max_in_flight: 10_000 },
        warm_up: Duration::from_millis(200),
        measured: Duration::from_millis(1_500),
        cpus: Vec::new(),
        seed: 0,
    }
}

/// The events of a load with this input.
fn events_of(input: String) -> Vec<Event> {
    let mut output = Vec::new();
    serve(Plan::read(Cursor::new(input)), None, &mut output).expect("memory takes all lines");
    output.split_inclusive(|byte| *byte == b'\n').map(|line| Event::of_line(line).expect("an event")).collect()
}

#[tokio::test]
async fn a_load_reports_its_steps_and_ends_with_its_recording() {
    let line = plan(start_server("s1", 0).await).to_line().expect("JSON");
    let events = tokio::task::spawn_blocking(|| events_of(line)).await.expect("no panic");
    let [Event::Connected, Event::Measuring, running @ .., Event::Finished { recording }] = &events[..] else {
        panic!("other events: {events:?}");
    };
    let counts: Vec<u64> = running
        .iter()
        .map(|event| match event {
            Event::Running { answered } => *answered,
            other => panic!("{other:?} while the load runs"),
        })
        .collect();
    assert!(!counts.is_empty() && counts.is_sorted(), "{counts:?}");
    let snapshot = Snapshot::merged(std::slice::from_ref(&**recording), 1).expect("a good recording");
    // 40 calls of the warm-up, and 300 of the measured time.
    assert_eq!((snapshot.answered, snapshot.total.calls, snapshot.failed), (340, 300, 0), "{snapshot:?}");
    assert_eq!(snapshot.measured, Duration::from_millis(1_500));
}

#[tokio::test]
async fn the_shares_of_a_plan_together_make_its_calls() {
    let address = start_server("s1", 0).await;
    let loads = plan(address).shares(2).into_iter().map(|share| {
        let line = share.to_line().expect("JSON");
        tokio::task::spawn_blocking(|| events_of(line))
    });
    let mut recordings = Vec::new();
    for load in loads.collect::<Vec<_>>() {
        match load.await.expect("no panic").pop() {
            Some(Event::Finished { recording }) => recordings.push(*recording),
            other => panic!("the last event is {other:?}"),
        }
    }
    let snapshot = Snapshot::merged(&recordings, 1).expect("good recordings");
    assert_eq!(recordings.len(), 2);
    assert_eq!((snapshot.answered, snapshot.total.calls, snapshot.failed), (340, 300, 0), "{snapshot:?}");
}

/// A fake standard output, which gives the start signal some time after it received the event `ready`.
struct Coordinator {
    signal: Option<oneshot::Sender<()>>,
    events: Vec<u8>,
}

/// Time between the event `ready` and the signal.
const HELD: Duration = Duration::from_millis(300);

impl Write for Coordinator {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.events.extend_from_slice(bytes);
        if let Some(signal) = self.signal.take() {
            assert_eq!(bytes, b"{\"event\":\"ready\"}\n");
            thread::sleep(HELD);
            follow(Cursor::new(START), Some(signal)).expect("a signal");
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_load_that_awaits_its_start_connects_and_begins_at_the_signal() {
    for exchange in [Exchange::Grpc, Exchange::Http1] {
        let address = match exchange {
            Exchange::Http1 => start_http1_server("s1", 0).await,
            _ => start_server("s1", 0).await,
        };
        let plan = Plan { exchange, ..plan(address) };
        let (gate, waits, signal) = gate();
        let mut output = Coordinator { signal: Some(signal), events: Vec::new() };
        let start = Instant::now();
        let time = plan.warm_up + plan.measured;
        let output = tokio::task::spawn_blocking(move || {
            serve(Ok(plan), Some(Awaited { gate, waits }), &mut output).expect("memory takes all lines");
            output
        });
        let output = output.await.expect("no panic");
        assert!(start.elapsed() >= HELD + time, "{:?}", start.elapsed());
        let lines = output.events.split_inclusive(|byte| *byte == b'\n');
        let events: Vec<Event> = lines.map(|line| Event::of_line(line).expect("an event")).collect();
        let [Event::Ready, Event::Connected, Event::Measuring, .., Event::Finished { recording }] = &events[..] else {
            panic!("other events: {events:?}");
        };
        let snapshot = Snapshot::merged(std::slice::from_ref(&**recording), 1).expect("a good recording");
        assert_eq!((snapshot.answered, snapshot.failed), (340, 0), "{snapshot:?}");
    }
}

#[test]
fn a_line_that_is_not_the_signal_is_refused_and_an_end_is_none() {
    let (_gate, _waits, signal) = gate();
    let error = follow(Cursor::new("stop\n"), Some(signal)).expect_err("an error").to_string();
    assert_eq!(error, r#"reading the start signal of a load: expected "start\n", got "stop\n""#);
    let (gate, _waits, signal) = gate();
    follow(Cursor::new(""), Some(signal)).expect("the end");
    let runtime = crate::load::runtime().expect("a runtime");
    let error = runtime.block_on(gate.wait()).expect_err("no signal").to_string();
    assert_eq!(error, "waiting for the start signal: the load's coordinator has gone");
    follow(Cursor::new("more\nlines"), None).expect("no signal is awaited");
}

/// Returns the failure's reason from the only event of a load with this input.
fn reason(input: String) -> String {
    match &events_of(input)[..] {
        [Event::Failed { why }] => why.clone(),
        other => panic!("other events: {other:?}"),
    }
}

#[test]
fn a_bad_plan_and_a_server_that_does_not_listen_are_reported_with_the_reason() {
    assert!(reason("{}\n".to_owned()).starts_with("reading the plan of a load: missing field"));
    let nobody = crate::child::free_address().expect("a free port");
    let why = reason(plan(nobody).to_line().expect("JSON"));
    assert!(why.contains(&nobody.to_string()), "{why}");
}

/// An output whose reader closes it after the first line.
struct Closing(u32);

impl Write for Closing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += 1;
        if self.0 > 1 { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(bytes.len()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_closed_output_ends_a_load_of_an_hour_within_seconds() {
    let warm_up = Duration::from_secs(3_600);
    let line = Plan { warm_up, ..plan(start_server("s1", 0).await) }.to_line().expect("JSON");
    let start = Instant::now();
    let ended = tokio::task::spawn_blocking(|| serve(Plan::read(Cursor::new(line)), None, &mut Closing(0)))
        .await
        .expect("no panic");
    let error = ended.expect_err("nobody reads").to_string();
    assert!(error.starts_with("writing the events of a load: "), "{error}");
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}
