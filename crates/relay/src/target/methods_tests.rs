use std::net::SocketAddr;

use leno_http2::StreamKey;

use super::*;
use crate::downstream::client::ClientId;
use crate::metrics::fixtures::scrape;
use crate::pool::hop::Protocol;
use crate::target::cluster::{TargetKey, single};

const MAX: usize = 3;

/// A cluster with its metrics, and the calls to it.
struct Bench {
    state: ClusterState,
    metrics: Arc<WorkerMetrics>,
    now: Instant,
}

impl Bench {
    fn new() -> Self {
        let now = Instant::now();
        let address: SocketAddr = "10.0.0.1:8080".parse().expect("an address");
        let state = ClusterState::new(TargetKey::Local(address), single(address, None), 1, now);
        Self { state, metrics: WorkerMetrics::new(), now }
    }

    fn call(&self, fields: &[(&str, &str)]) -> Call {
        let mut request = FieldSection::new();
        for (name, value) in fields {
            request.push(name.as_bytes(), value.as_bytes());
        }
        Call::new((Some(ClientId::numbered(0)), StreamKey::numbered(1)), request, Protocol::Http2, true, self.now)
    }

    fn grpc(&self, path: &str) -> Call {
        self.call(&[(":method", "POST"), (":path", path), ("content-type", "application/grpc")])
    }

    fn begin(&mut self, mut call: Call) -> Call {
        self.state.begin_method(&mut call, &self.metrics, MAX);
        call
    }

    /// Answers a call with headers that carry this `grpc-status`, if there is one, and ends the call.
    fn answer(&mut self, mut call: Call, http_status: &str, trailers_only: Option<&str>) {
        let mut fields = FieldSection::new();
        fields.push(b":status", http_status.as_bytes());
        fields.push(b"content-type", if call.is_grpc { b"application/grpc" } else { b"text/plain" });
        if let Some(status) = trailers_only {
            fields.push(b"grpc-status", status.as_bytes());
        }
        self.state.learn_method(&mut call, &fields, &self.metrics, MAX);
        call.http_status = http_status.parse().expect("a number");
        let grpc_status = call.is_grpc.then(|| trailers_only.map_or(0, |status| status.parse().expect("a number")));
        self.end(call, Ending::Answered { grpc_status, pushback: None });
    }

    /// Ends a call that its client cancels.
    fn cancel(&mut self, mut call: Call) {
        let ending = call.recorded_ending(Ending::Cancelled, self.now);
        self.end(call, ending);
    }

    fn end(&mut self, mut call: Call, ending: Ending) {
        let grpc_status = match ending {
            Ending::Answered { grpc_status, .. } | Ending::ProxyError { grpc_status, .. } => grpc_status,
            Ending::Broken | Ending::Cancelled | Ending::Complete => None,
        };
        let class = ending.class(call.http_status, grpc_status);
        self.state.method_ended(&mut call, ending, (class, grpc_status), self.now, &self.metrics);
    }

    fn serve(&mut self, path: &str) {
        let call = self.grpc(path);
        let call = self.begin(call);
        self.answer(call, "200", None);
    }

    /// Returns the samples of `leno_method_requests_total`, without the labels that all of them share.
    fn requests(&self) -> Vec<String> {
        self.samples("leno_method_requests_total{direction=\"inbound\",target_port=\"8080\",srv_port=\"8080\",")
    }

    fn samples(&self, prefix: &str) -> Vec<String> {
        let text = scrape(std::slice::from_ref(&self.metrics));
        text.lines().filter_map(|line| line.strip_prefix(prefix)).map(str::to_owned).collect()
    }
}

fn sample(service: &str, method: &str, count: u64) -> String {
    format!("grpc_service=\"{service}\",grpc_method=\"{method}\"}} {count}")
}

#[test]
fn a_grpc_method_has_a_series_after_its_first_answer_and_no_call_is_lost() {
    let mut bench = Bench::new();
    let first = bench.begin(bench.grpc("/shop.Cart/Add"));
    let second = bench.begin(bench.grpc("/shop.Cart/Add"));
    assert!(first.may_be_named() && bench.requests().is_empty());
    bench.answer(first, "200", None);
    bench.answer(second, "200", None);
    bench.serve("/shop.Cart/Add");
    assert_eq!(bench.requests(), [sample("shop.Cart", "Add", 3)]);
}

#[test]
fn a_name_that_the_endpoint_does_not_know_gets_no_series() {
    let mut bench = Bench::new();
    for (http_status, grpc_status) in [("200", Some("12")), ("404", None), ("200", Some("16")), ("200", Some("7"))] {
        let call = bench.begin(bench.grpc("/made.Up/Name"));
        bench.answer(call, http_status, grpc_status);
    }
    assert_eq!(bench.requests(), ["grpc_method=\"other\"} 4"]);
    let call = bench.begin(bench.grpc("/shop.Cart/Add"));
    bench.answer(call, "200", Some("14"));
    assert!(bench.requests().contains(&sample("shop.Cart", "Add", 1)), "a method that fails has a series");
}

#[test]
fn a_name_that_is_no_method_name_gets_no_series() {
    let mut bench = Bench::new();
    let long = format!("/shop.Cart/{}", "A".repeat(MAX_NAME_BYTES));
    for path in ["/shop.Cart", "*", "/shop.Cart/\"Add\"", "/shop.Cart/Add?x=1", "//other", "/shop.Cart/", &long] {
        bench.serve(path);
    }
    assert_eq!(bench.requests(), ["grpc_method=\"other\"} 7"]);
}

#[test]
fn a_full_table_keeps_the_methods_with_the_most_calls() {
    let mut bench = Bench::new();
    for method in ["A", "B", "C"] {
        for _ in 0..50 {
            bench.serve(&format!("/shop.Cart/{method}"));
        }
    }
    for name in 0..40 {
        bench.serve(&format!("/shop.Rare/Name{name}"));
    }
    for method in ["A", "B", "C"] {
        bench.serve(&format!("/shop.Cart/{method}"));
        assert!(bench.requests().contains(&sample("shop.Cart", method, 51)), "{:?}", bench.requests());
    }
    // A new method with more calls than the methods in the table replaces one of them.
    for _ in 0..200 {
        bench.serve("/shop.Cart/New");
    }
    let new = bench.requests().into_iter().find(|line| line.contains("\"New\"")).expect("it has a series");
    let count: u64 = new.rsplit(' ').next().and_then(|count| count.parse().ok()).expect("a count");
    assert!((150..200).contains(&count), "{new}");
    let total: u64 = bench.requests().iter().filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum();
    assert_eq!(total, 393, "each call counts once");
}

#[test]
fn methods_that_are_not_called_any_more_make_room() {
    let mut bench = Bench::new();
    for _ in 0..50 {
        ["A", "B", "C"].iter().for_each(|method| bench.serve(&format!("/shop.Cart/{method}")));
    }
    bench.state.methods.sweep(bench.now);
    for _ in 0..u32::from(MAX_QUIET) {
        bench.now += HALF_LIFE;
        bench.serve("/shop.Cart/A");
        bench.state.methods.sweep(bench.now);
    }
    assert_eq!((bench.state.methods.places.len(), bench.state.methods.tags.len()), (1, 1));
    bench.serve("/shop.Cart/New");
    assert!(bench.requests().contains(&sample("shop.Cart", "New", 1)));
}

#[test]
fn an_open_stream_keeps_its_method() {
    let mut bench = Bench::new();
    bench.serve("/shop.Feed/Watch");
    let stream = bench.begin(bench.grpc("/shop.Feed/Watch"));
    bench.state.methods.sweep(bench.now);
    for _ in 0..2 * u32::from(MAX_QUIET) {
        bench.now += HALF_LIFE;
        bench.state.methods.sweep(bench.now);
    }
    // Calls of many other methods cannot remove the method of the open stream from the table.
    for number in 0..100 {
        bench.serve(&format!("/shop.Rare/Name{number}"));
    }
    assert_eq!(bench.state.methods.name_of(stream.method).to_string(), "shop.Feed/Watch");
    bench.answer(stream, "200", None);
    assert!(bench.requests().contains(&sample("shop.Feed", "Watch", 2)));
    let ended = bench.metrics.calls_in_methods();
    assert_eq!(ended, 0, "every call has ended in the series in which it began");
    for _ in 0..u32::from(MAX_QUIET) {
        bench.now += HALF_LIFE;
        bench.state.methods.sweep(bench.now);
    }
    assert!(bench.state.methods.places.is_empty(), "without calls it goes");
}

#[test]
fn an_http_call_never_gets_its_path_as_a_name() {
    let mut bench = Bench::new();
    bench.state.hide_port();
    let call = bench.begin(bench.call(&[(":method", "GET"), (":path", "/my/name")]));
    bench.state.name_port();
    bench.answer(call, "200", None);
    assert_eq!(bench.requests(), ["grpc_method=\"other\"} 1"]);
    // Also with a full table, the path does not become a name.
    for method in ["A", "B", "C"] {
        bench.serve(&format!("/shop.Cart/{method}"));
    }
    for _ in 0..10 {
        let call = bench.begin(bench.call(&[(":method", "GET"), (":path", "/my/name")]));
        bench.answer(call, "200", None);
    }
    assert!(bench.requests().iter().all(|line| !line.contains("name\"")), "{:?}", bench.requests());
}

#[test]
fn request_methods_that_do_not_exist_take_one_place() {
    let mut bench = Bench::new();
    for number in 0..50 {
        let call = bench.begin(bench.call(&[(":method", &format!("AAA{number}")), (":path", "/")]));
        bench.answer(call, "200", None);
    }
    assert_eq!(bench.state.methods.places.len(), 1);
    assert_eq!(bench.requests(), ["http_method=\"other\"} 50"]);
}

#[test]
fn answers_of_proxies_name_no_method() {
    let mut bench = Bench::new();
    for fields in [
        &[
            (":status", "200"),
            ("content-type", "application/grpc"),
            ("leno-proxy-error", "no-endpoint"),
            ("grpc-status", "14"),
        ][..],
        &[(":status", "200"), ("content-type", "text/html")],
    ] {
        let mut call = bench.begin(bench.grpc("/any/Name"));
        let mut section = FieldSection::new();
        fields.iter().for_each(|(name, value)| section.push(name.as_bytes(), value.as_bytes()));
        bench.state.learn_method(&mut call, &section, &bench.metrics, MAX);
        assert!(matches!(call.method, CallMethod::Unnamed(_)));
    }
    assert!(bench.state.methods.places.is_empty());
}

#[test]
fn a_client_that_gives_up_at_its_deadline_has_missed_it() {
    let mut bench = Bench::new();
    bench.serve("/shop.Cart/Add");
    for left in [Duration::from_millis(1), Duration::from_secs(1)] {
        let mut call = bench.begin(bench.grpc("/shop.Cart/Add"));
        call.deadline = Some(bench.now + left);
        bench.cancel(call);
    }
    let expired = bench.samples("leno_method_time_left_seconds_bucket{le=\"0.0\"");
    let ended = expired.iter().find(|line| line.contains("at=\"ended\"")).expect("calls with a deadline have ended");
    assert!(ended.ends_with("} 1"), "{ended}");
    let responses = bench.samples("leno_method_responses_total");
    for outcome in [
        "classification=\"failure\",grpc_status=\"DEADLINE_EXCEEDED\"} 1",
        "classification=\"cancelled\",error=\"cancelled\"} 1",
    ] {
        assert!(responses.iter().any(|line| line.ends_with(outcome)), "{responses:?}");
    }
}

#[test]
fn http_calls_count_by_request_method() {
    let mut bench = Bench::new();
    for method in ["GET", "GET", "BREW"] {
        let call = bench.begin(bench.call(&[(":method", method), (":path", "/any/path")]));
        assert!(!call.may_be_named());
        bench.answer(call, "200", None);
    }
    assert_eq!(bench.requests(), ["http_method=\"GET\"} 2", "http_method=\"other\"} 1"]);
}

#[test]
fn copies_and_probes_and_ports_without_a_name_have_no_series() {
    let mut bench = Bench::new();
    let mut probe = bench.grpc("/grpc.health.v1.Health/Check");
    probe.method = CallMethod::Uncounted;
    let probe = bench.begin(probe);
    bench.answer(probe, "200", None);
    let copy = Call::new((None, StreamKey::numbered(1)), FieldSection::new(), Protocol::Http2, true, bench.now);
    let copy = bench.begin(copy);
    bench.answer(copy, "200", None);
    assert_eq!(bench.requests(), [""; 0]);

    bench.state.hide_port();
    bench.serve("/shop.Cart/Add");
    assert_eq!(
        bench.samples("leno_method_requests_total"),
        ["{direction=\"inbound\",target_port=\"other\",grpc_method=\"other\"} 1"]
    );
}

#[test]
fn a_call_that_was_not_sent_counts_under_its_method_if_it_has_a_series() {
    let mut bench = Bench::new();
    bench.serve("/shop.Cart/Add");
    for path in ["/shop.Cart/Add", "/made.Up/Name"] {
        let mut call = bench.grpc(path);
        call.http_status = 200;
        bench.end(call, Ending::ProxyError { why: "no-endpoint", grpc_status: Some(14) });
    }
    assert_eq!(bench.requests(), [sample("shop.Cart", "Add", 2), "grpc_method=\"other\"} 1".to_owned()]);
}

#[test]
fn a_denied_call_counts_neither_for_the_objective_nor_for_durations() {
    let mut bench = Bench::new();
    bench.set_objectives("success 99 %");
    bench.serve("/shop.v1.Cart/Get");
    let mut call = bench.begin(bench.grpc("/shop.v1.Cart/Get"));
    call.http_status = 200;
    bench.end(call, Ending::ProxyError { why: "denied", grpc_status: Some(7) });
    assert_eq!(bench.objectives("Get", "success"), some(["1", "0", "0.99"]));
    let responses = bench.samples("leno_method_responses_total");
    let is_denied = |line: &String| line.ends_with("classification=\"denied\",error=\"denied\"} 1");
    assert!(responses.iter().any(is_denied), "{responses:?}");
    let durations = bench.samples("leno_method_duration_seconds_count");
    assert!(durations.iter().all(|line| line.ends_with("} 1")), "{durations:?}");
    assert_eq!(bench.metrics.calls_in_methods(), 0, "the call is no longer in flight");
}

#[test]
fn a_call_without_a_destination_misses_the_objective() {
    let mut bench = Bench::new();
    bench.set_objectives("success 99 %");
    bench.serve("/shop.v1.Cart/Get");
    let mut call = bench.grpc("/shop.v1.Cart/Get");
    call.http_status = 200;
    bench.end(call, Ending::ProxyError { why: "no-matching-rule", grpc_status: Some(12) });
    assert_eq!(bench.objectives("Get", "success"), some(["2", "1", "0.99"]));
}

#[test]
fn without_places_all_methods_count_together() {
    let mut bench = Bench::new();
    let mut call = bench.grpc("/shop.Cart/Add");
    bench.state.begin_method(&mut call, &bench.metrics, 0);
    let mut fields = FieldSection::new();
    fields.push(b":status", b"200");
    fields.push(b"content-type", b"application/grpc");
    bench.state.learn_method(&mut call, &fields, &bench.metrics, 0);
    bench.end(call, Ending::Cancelled);
    assert_eq!(bench.requests(), ["grpc_method=\"other\"} 1"]);
}

/// Returns a cluster of a Service with these objectives.
fn with_objectives(text: &str) -> Arc<leno_model::mesh::Cluster> {
    let address: SocketAddr = "10.0.0.1:8080".parse().expect("an address");
    let objectives = Objectives::read(text, "Service shop/cart".into()).expect("objectives");
    let mut cluster = leno_model::mesh::Cluster::clone(&single(address, None));
    cluster.objectives = Some(Arc::new(objectives));
    Arc::new(cluster)
}

impl Bench {
    fn set_objectives(&mut self, text: &str) {
        self.state.update(self.now, with_objectives(text));
    }

    /// Makes a call that takes `took_ms` and has this `grpc-status`.
    fn take(&mut self, path: &str, took_ms: u64, status: &str) {
        let call = self.grpc(path);
        let call = self.begin(call);
        self.now += Duration::from_millis(took_ms);
        self.answer(call, "200", (status != "0").then_some(status));
    }

    /// Returns the sample of a metric of an objective, for a method of `shop.v1.Cart`; `None` if there is no sample.
    fn objective(&self, metric: &str, method: &str, objective: &str) -> Option<String> {
        let service = if method == "other" { "" } else { "grpc_service=\"shop.v1.Cart\"," };
        let labels = format!(
            "direction=\"inbound\",target_port=\"8080\",srv_port=\"8080\",{service}grpc_method=\"{method}\",\
             objective=\"{objective}\""
        );
        self.samples(&format!("leno_method_objective_{metric}{{{labels}}} ")).pop()
    }

    /// Returns the calls, the misses and the ratio of an objective.
    fn objectives(&self, method: &str, objective: &str) -> [Option<String>; 3] {
        ["calls_total", "misses_total", "ratio"].map(|metric| self.objective(metric, method, objective))
    }
}

fn some<const N: usize>(samples: [&str; N]) -> [Option<String>; N] {
    samples.map(|sample| Some(sample.to_owned()))
}

#[test]
fn answered_calls_count_once_for_success_and_successful_ones_for_latency() {
    let mut bench = Bench::new();
    bench.set_objectives("shop.v1.Cart/Get: success 99.9 %, p99 50ms");
    for (took_ms, status) in [(1, "0"), (50, "0"), (51, "0"), (1, "14"), (90, "14"), (1, "5")] {
        bench.take("/shop.v1.Cart/Get", took_ms, status);
    }
    assert_eq!(bench.objectives("Get", "success"), some(["6", "2", "0.999"]));
    // NOT_FOUND is no failure.
    assert_eq!(bench.objectives("Get", "latency"), some(["4", "1", "0.99"]));
    assert_eq!(bench.objective("bound_seconds", "Get", "latency").as_deref(), Some("0.05"));
    bench.take("/shop.v1.Cart/Add", 1, "14");
    assert_eq!(bench.objectives("Add", "success"), [None, None, None]);
}

#[test]
fn a_cancelled_call_counts_only_if_its_deadline_has_passed() {
    let mut bench = Bench::new();
    bench.set_objectives("success 99 %, p50 1ms");
    bench.serve("/shop.v1.Cart/Get");
    for (deadline_ms, took_ms) in [(None, 500), (Some(1_000), 500), (Some(1_000), 995)] {
        let mut call = bench.begin(bench.grpc("/shop.v1.Cart/Get"));
        call.deadline = deadline_ms.map(|ms| bench.now + Duration::from_millis(ms));
        bench.now += Duration::from_millis(took_ms);
        bench.cancel(call);
    }
    assert_eq!(bench.objectives("Get", "success"), some(["2", "1", "0.99"]));
    assert_eq!(bench.objectives("Get", "latency"), some(["1", "0", "0.5"]));
}

#[test]
fn a_reset_call_misses_the_objective() {
    let mut bench = Bench::new();
    bench.set_objectives("success 99 %");
    bench.serve("/shop.v1.Cart/Get");
    let call = bench.begin(bench.grpc("/shop.v1.Cart/Get"));
    bench.end(call, Ending::Broken);
    assert_eq!(bench.objectives("Get", "success"), some(["2", "1", "0.99"]));
}

#[test]
fn a_new_objective_applies_to_the_next_call_and_keeps_the_counts() {
    let mut bench = Bench::new();
    bench.serve("/shop.v1.Cart/Get");
    assert_eq!(bench.objectives("Get", "success"), [None, None, None]);
    bench.set_objectives("p99 50ms");
    bench.take("/shop.v1.Cart/Get", 30, "0");
    assert_eq!(bench.objectives("Get", "latency"), some(["1", "0", "0.99"]));
    bench.set_objectives("success 99.999 %, p90 20ms");
    bench.take("/shop.v1.Cart/Get", 30, "0");
    assert_eq!(bench.objectives("Get", "latency"), some(["2", "1", "0.9"]));
    assert_eq!(bench.objectives("Get", "success"), some(["1", "0", "0.99999"]));
    let address: SocketAddr = "10.0.0.1:8080".parse().expect("an address");
    bench.state.update(bench.now, single(address, None));
    bench.take("/shop.v1.Cart/Get", 30, "14");
    let latency = bench.objectives("Get", "latency");
    assert_eq!(latency, [Some("2".to_owned()), Some("1".to_owned()), None], "without an objective, the counts stay");
}

#[test]
fn calls_of_methods_without_a_name_count_for_the_objective_of_all_others() {
    let mut bench = Bench::new();
    bench.set_objectives("shop.v1.Cart/*: success 99 %\n*: success 90 %");
    bench.take("/shop.v1.Cart/Unknown", 1, "12");
    bench.take("/shop.v1.Cart/Get", 1, "0");
    assert_eq!(bench.objectives("other", "success"), some(["1", "0", "0.9"]));
    assert_eq!(bench.objectives("Get", "success"), some(["1", "0", "0.99"]));
}

#[test]
fn a_method_that_lost_its_place_gets_the_objective_that_is_in_force_when_it_returns() {
    let mut bench = Bench::new();
    bench.set_objectives("success 99 %");
    bench.serve("/shop.v1.Cart/Get");
    bench.state.methods = Methods::default();
    bench.set_objectives("shop.v1.Cart/Add: success 99 %");
    bench.serve("/shop.v1.Cart/Get");
    assert_eq!(bench.objective("ratio", "Get", "success"), None);
}
