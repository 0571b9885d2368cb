//! The proxies' spans, in traces of OpenTelemetry: a collector, an instrumented client and server on grpc-go, and
//! Envoy.

use std::io::Write;
use std::net::SocketAddr;
use std::process::Child;
use std::thread;
use std::time::Duration;

use leno_tests::admin;
use leno_tests::manifests::{ECHO, Service};
use leno_tests::programs::Server;
use leno_tests::proxy::{Proxy, Signal, free_address, wait_for};
use leno_tests::traces::{
    self, Called, Collector, Kind, START_SLACK_NS, Span, assert_within, chain, children, services,
};
use leno_tests::xds::{Authority, spawn_envoy};

/// The collector, as a Service of the mesh.
const COLLECTOR: &str = "otel.default:50051";
const SOON: Duration = Duration::from_secs(30);

/// An instrumented server behind the proxy `echo`, and the proxy `web` of its clients, which calls `echo` over mutual
/// TLS. Both proxies export to the collector.
struct Stage {
    web: Proxy,
    echo: Proxy,
    server: SocketAddr,
    _server: Server,
    _authority: Authority,
}

/// The settings of a stage.
#[derive(Debug, Default)]
struct Settings<'a> {
    /// Additional arguments of the server.
    server: &'a [&'a str],
    /// Additional arguments of the proxy `web`.
    web: &'a [&'a str],
    /// Additional arguments of the proxy `echo`.
    echo: &'a [&'a str],
    /// A TrafficPolicy of the Service, if it is not empty.
    policy: &'a str,
    /// Whether the proxies call the collector as a Service, through the mesh.
    calls_collector_by_name: bool,
}

impl Stage {
    fn start(collector: SocketAddr, settings: &Settings<'_>) -> Self {
        let (server, address) = traces::serve(Some(collector), settings.server);
        let (authority, inbound) = (Authority::new(), free_address());
        let mut service = Service::echo(&[address])
            .endpoint_annotated(address, "leno.dev/identity", "ns/shop/sa/echo")
            .endpoint_annotated(address, "leno.dev/inbound-port", &inbound.port().to_string());
        if !settings.policy.is_empty() {
            service = service.policed(settings.policy);
        }
        let services = [service, Service::new("otel", &[collector])];
        let to = if settings.calls_collector_by_name { COLLECTOR.to_owned() } else { collector.to_string() };
        let proxy = |name: &str, inbound: SocketAddr, arguments: &[&str]| {
            let (identity, tunnel) = (format!("ns/shop/sa/{name}"), free_address().to_string());
            let (issuer, inbound) = (authority.path(""), inbound.to_string());
            let doors = ["--inbound", &inbound, "--tunnel", &tunnel, "--identity", &identity, "--issuer", &issuer];
            let traces = ["--trace-collector", &to, "--trace-service", name];
            let all = [&doors[..], &traces, arguments].concat();
            Proxy::start_with(free_address(), &services, &all)
        };
        let echo = proxy("echo", inbound, settings.echo);
        let web = proxy("web", free_address(), settings.web);
        Self { web, echo, server: address, _server: server, _authority: authority }
    }

    fn call(&self, collector: Option<SocketAddr>, arguments: &[&str]) -> Vec<Called> {
        traces::call(self.web.outbound(), ECHO, collector, arguments)
    }

    /// Checks the attributes of the proxies' spans.
    fn assert_described(&self, spans: &[Span]) {
        for span in spans.iter().filter(|span| ["web", "echo"].contains(&span.service.as_str())) {
            assert!(span.names_method(), "no method: {span:#?}");
            if (span.service.as_str(), span.kind) == ("web", Kind::Client) {
                assert!(span.names_address(self.server), "no address of the endpoint {}: {span:#?}", self.server);
            }
        }
    }
}

/// Returns the expected spans of the proxies and of the server, for a call through both proxies.
fn proxied() -> Vec<(String, Kind)> {
    [("web", Kind::Internal), ("web", Kind::Client), ("echo", Kind::Server), ("server", Kind::Server)]
        .map(|(service, kind)| (service.to_owned(), kind))
        .to_vec()
}

/// Returns all expected spans of a call through both proxies: the client's span, and the spans of [`proxied`].
fn whole() -> Vec<(String, Kind)> {
    [vec![("client".to_owned(), Kind::Client)], proxied()].concat()
}

/// Checks that each call from an instrumented client through two proxies to an instrumented server gives one trace.
fn assert_traces_with(propagator: &str) {
    if !traces::are_installed() {
        return;
    }
    let collector = Collector::start();
    let propagator = ["--propagator", propagator];
    let stage = Stage::start(collector.address(), &Settings { server: &propagator, ..Settings::default() });
    let calls = stage.call(Some(collector.address()), &[&propagator[..], &["--calls", "3"]].concat());
    assert_eq!(calls.len(), 3);
    for Called { trace, status } in &calls {
        assert_eq!(status, "OK");
        let spans = collector.whole_trace(trace, 5);
        let chain = chain(&spans);
        assert_eq!(services(&chain), whole(), "{spans:#?}");
        assert_eq!(chain[0].parent, "", "the client's span is the root");
        assert!(chain.iter().all(|span| !span.failed), "{spans:#?}");
        stage.assert_described(&spans);
    }
    assert_eq!(collector.spans().len(), 15, "{:#?}", collector.spans());
}

#[test]
fn grpc_go_without_proxies_gives_a_trace_of_two_spans() {
    if !traces::are_installed() {
        return;
    }
    let collector = Collector::start();
    for propagator in ["tracecontext", "b3", "b3multi", "opencensus"] {
        let (_server, address) = traces::serve(Some(collector.address()), &["--propagator", propagator]);
        let calls = traces::call(address, ECHO, Some(collector.address()), &["--propagator", propagator]);
        let spans = collector.whole_trace(&calls[0].trace, 2);
        let chain = chain(&spans);
        let expected = [("client".to_owned(), Kind::Client), ("server".to_owned(), Kind::Server)];
        assert_eq!(services(&chain), expected, "{propagator}: {spans:#?}");
        assert!(chain.iter().all(|span| span.names_method()), "{spans:#?}");
    }
}

#[test]
fn a_call_through_two_proxies_is_one_trace_from_client_to_server() {
    assert_traces_with("tracecontext");
}

#[test]
fn a_trace_of_b3_in_one_field_goes_on_through_both_proxies() {
    assert_traces_with("b3");
}

#[test]
fn a_trace_of_b3_in_several_fields_goes_on_through_both_proxies() {
    assert_traces_with("b3multi");
}

#[test]
fn a_trace_of_opencensus_in_grpc_trace_bin_goes_on_through_both_proxies() {
    assert_traces_with("opencensus");
}

#[test]
fn a_call_that_the_client_does_not_sample_gives_spans_only_if_it_fails() {
    if !traces::are_installed() {
        return;
    }
    let collector = Collector::start();
    // The ratio applies only to calls without a trace context. For these calls, which have one, the client's decision
    // holds.
    let arguments = ["--trace-failed", "--trace-ratio", "1"];
    let settings = Settings { web: &arguments, echo: &arguments, ..Settings::default() };
    let stage = Stage::start(collector.address(), &settings);
    let good = stage.call(Some(collector.address()), &["--sampled=false"]);
    let failing = stage.call(Some(collector.address()), &["--sampled=false", "--status", "14"]);
    assert_eq!((good[0].status.as_str(), failing[0].status.as_str()), ("OK", "Unavailable"));

    let spans = collector.whole_trace(&failing[0].trace, 3);
    let chain = chain(&spans);
    assert_eq!(services(&chain), proxied()[..3], "{spans:#?}");
    assert!(!chain[0].parent.is_empty(), "the parent is the client's span, although it was not recorded: {spans:#?}");
    assert!(chain.iter().all(|span| span.failed), "{spans:#?}");
    stage.assert_described(&spans);
    // The proxies export spans in the order of the calls. So if the good call had spans, they would have arrived before
    // those of the failing call.
    assert_eq!(collector.spans().len(), 3, "{:#?}", collector.spans());
}

#[test]
fn the_proxy_begins_a_trace_for_a_client_without_instrumentation() {
    if !traces::are_installed() {
        return;
    }
    let collector = Collector::start();
    let settings = Settings { web: &["--trace-ratio", "1"], calls_collector_by_name: true, ..Settings::default() };
    let stage = Stage::start(collector.address(), &settings);
    let calls = stage.call(None, &[]);
    assert_eq!(calls[0].status, "OK");

    let trace = collector.trace_of_service("server");
    let spans = collector.whole_trace(&trace, 4);
    let chain = chain(&spans);
    assert_eq!(services(&chain), proxied(), "{spans:#?}");
    assert_eq!(chain[0].parent, "", "the call's span is the root");
    stage.assert_described(&spans);
    // The proxy's own exports are calls through its listener, and must not be traced.
    assert_eq!(collector.spans().len(), 4, "{:#?}", collector.spans());
}

#[test]
fn with_a_share_of_zero_the_proxy_begins_no_trace() {
    if !traces::are_installed() {
        return;
    }
    let collector = Collector::start();
    let stage = Stage::start(collector.address(), &Settings { web: &["--trace-ratio", "0"], ..Settings::default() });
    let plain = stage.call(None, &["--calls", "20"]);
    assert!(plain.iter().all(|call| call.status == "OK"), "{plain:?}");
    let traced = stage.call(Some(collector.address()), &[]);
    collector.whole_trace(&traced[0].trace, 5);
    let others: Vec<Span> = collector
        .spans()
        .into_iter()
        .filter(|span| span.trace != traced[0].trace && ["web", "echo"].contains(&span.service.as_str()))
        .collect();
    assert!(others.is_empty(), "{others:#?}");
}

#[test]
fn a_retried_call_has_a_span_for_each_attempt() {
    if !traces::are_installed() {
        return;
    }
    let collector = Collector::start();
    let policy = "retry: {grpcCodes: [UNAVAILABLE], attempts: 2, backoff: 1ms}";
    let stage =
        Stage::start(collector.address(), &Settings { server: &["--fail-first", "1"], policy, ..Settings::default() });
    let calls = stage.call(Some(collector.address()), &[]);
    assert_eq!(calls[0].status, "OK");

    // Eight spans: one of the client, one of the call at its proxy, and three for each of the two attempts (the
    // attempt, the inbound call, the server).
    let spans = collector.whole_trace(&calls[0].trace, 8);
    let client = spans.iter().find(|span| span.service == "client").expect("the client's span");
    let below = children(&spans, client);
    assert_eq!(services(&below), proxied()[..1], "{spans:#?}");
    let call = below[0];
    let attempts = children(&spans, call);
    assert_eq!(services(&attempts), [proxied()[1].clone(), proxied()[1].clone()], "{spans:#?}");
    assert_eq!([call.failed, attempts[0].failed, attempts[1].failed], [false, true, false], "{spans:#?}");
    assert!(attempts[0].end <= attempts[1].start + START_SLACK_NS, "one attempt after the other: {spans:#?}");
    for attempt in attempts {
        assert_within(attempt, call);
        let inbound = children(&spans, attempt);
        assert_eq!(services(&inbound), proxied()[2..3], "{spans:#?}");
        assert_eq!(services(&children(&spans, inbound[0])), proxied()[3..], "{spans:#?}");
    }
    stage.assert_described(&spans);
}

#[test]
fn a_proxy_that_ends_exports_the_spans_of_its_last_calls() {
    if !traces::are_installed() {
        return;
    }
    let collector = Collector::start();
    let mut stage = Stage::start(collector.address(), &Settings::default());
    let calls = stage.call(Some(collector.address()), &["--calls", "20"]);
    for proxy in [&mut stage.web, &mut stage.echo] {
        proxy.signal(Signal::TERM);
        let ended = proxy.wait(SOON).expect("the proxy ends");
        assert!(ended.success(), "{ended}");
    }
    for Called { trace, .. } in &calls {
        collector.whole_trace(trace, 5);
    }
}

#[test]
fn without_a_collector_calls_go_on_and_spans_flow_again_when_it_is_back() {
    if !traces::are_installed() {
        return;
    }
    let address = free_address();
    let stage = Stage::start(address, &Settings { web: &["--trace-ratio", "1"], ..Settings::default() });
    let dropped = || stage.web.scrape().sum("leno_traced_calls_dropped_total", &[r#"reason="collector""#]);
    wait_for("dropped spans", SOON, || {
        let calls = stage.call(None, &["--calls", "2"]);
        assert!(calls.iter().all(|call| call.status == "OK"), "calls fail without a collector");
        // The proxy drops spans only after several tries to export them, which are seconds apart. So pause between the
        // calls: more calls would not make the proxy drop spans sooner.
        thread::sleep(Duration::from_millis(100));
        (dropped() > 0.0).then_some(())
    });
    // The proxy must log only one line, however many spans it drops.
    let complaints = || {
        let log = stage.web.log();
        let about =
            |line: &&str| line.contains(&address.to_string()) && (line.contains("WARN") || line.contains("ERROR"));
        log.lines().filter(about).map(str::to_owned).collect::<Vec<_>>()
    };
    wait_for("a line of the log about the collector", SOON, || (!complaints().is_empty()).then_some(()));
    stage.call(None, &["--calls", "10"]);
    assert_eq!(complaints().len(), 1, "{:#?}", complaints());

    let collector = Collector::start_on(address);
    let of_proxies = |spans: &[Span]| ["web", "echo"].iter().all(|name| spans.iter().any(|span| span.service == *name));
    wait_for("spans of calls after the collector's start", Duration::from_secs(90), || {
        let calls = stage.call(Some(address), &[]);
        assert_eq!(calls[0].status, "OK");
        // The proxy connects to the collector again only after a pause, and may drop the spans of calls until then. So
        // try several calls.
        let arrived = || of_proxies(&collector.trace(&calls[0].trace)).then_some(());
        let deadline = std::time::Instant::now() + Duration::from_secs(3);
        while arrived().is_none() && std::time::Instant::now() < deadline {
            thread::sleep(Duration::from_millis(20));
        }
        arrived()
    });
    let before = dropped();
    let calls = stage.call(Some(address), &["--calls", "20"]);
    for call in &calls {
        collector.whole_trace(&call.trace, 5);
    }
    assert!(dropped() == before, "spans are dropped beside a collector that works");
    assert_eq!(stage.echo.get("/ready").expect("the admin listener answers").0, 200);
}

#[test]
fn envoys_span_is_the_parent_of_the_proxys() {
    if !traces::are_installed() {
        return;
    }
    let collector = Collector::start();
    let stage = Stage::start(collector.address(), &Settings::default());
    let envoy = Envoy::start(stage.web.outbound(), collector.address());
    let calls = traces::call(envoy.address, ECHO, None, &[]);
    assert_eq!(calls[0].status, "OK");

    let trace = collector.trace_of_service("server");
    // Two of the six spans are Envoy's: one for the request, and one for the attempt.
    let spans = collector.whole_trace(&trace, 6);
    let chain = chain(&spans);
    let envoys = [("envoy".to_owned(), Kind::Server), ("envoy".to_owned(), Kind::Client)];
    assert_eq!(services(&chain), [&envoys[..], &proxied()].concat(), "{spans:#?}");
    stage.assert_described(&spans);
}

#[test]
fn envoys_span_is_the_parent_of_the_servers_without_proxies() {
    if !traces::are_installed() {
        return;
    }
    let collector = Collector::start();
    let (_server, address) = traces::serve(Some(collector.address()), &[]);
    let envoy = Envoy::start(address, collector.address());
    let calls = traces::call(envoy.address, ECHO, None, &[]);
    assert_eq!(calls[0].status, "OK");
    let spans = collector.whole_trace(&collector.trace_of_service("server"), 3);
    let expected = [("envoy", Kind::Server), ("envoy", Kind::Client), ("server", Kind::Server)];
    assert_eq!(services(&chain(&spans)), expected.map(|(service, kind)| (service.to_owned(), kind)), "{spans:#?}");
}

/// An Envoy that forwards every call to one address, and traces the calls with its OpenTelemetry tracer. Dropping this
/// value kills Envoy.
#[derive(Debug)]
struct Envoy {
    child: Child,
    address: SocketAddr,
    log: tempfile::NamedTempFile,
    _bootstrap: tempfile::NamedTempFile,
}

impl Envoy {
    /// Starts an Envoy, and waits until it is ready.
    fn start(upstream: SocketAddr, collector: SocketAddr) -> Self {
        let (address, at) = (free_address(), free_address());
        let socket = |address: SocketAddr| serde_json::json!({"socket_address": {"address": address.ip().to_string(), "port_value": address.port()}});
        let cluster = |name: &str, address: SocketAddr| {
            let endpoint = serde_json::json!({"endpoint": {"address": socket(address)}});
            serde_json::json!({
                "name": name, "type": "STATIC", "connect_timeout": "20s",
                "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [endpoint]}]},
                "typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                    "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                    "explicit_http_config": {"http2_protocol_options": {}},
                }},
            })
        };
        let manager = serde_json::json!({
            "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": "in", "codec_type": "HTTP2",
            "tracing": {
                "spawn_upstream_span": true,
                "random_sampling": {"value": 100},
                "provider": {"name": "envoy.tracers.opentelemetry", "typed_config": {
                    "@type": "type.googleapis.com/envoy.config.trace.v3.OpenTelemetryConfig",
                    "grpc_service": {"envoy_grpc": {"cluster_name": "collector"}, "timeout": "20s"},
                    "service_name": "envoy",
                }},
            },
            "http_filters": [{"name": "envoy.filters.http.router", "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router",
            }}],
            "route_config": {"virtual_hosts": [{
                "name": "all", "domains": ["*"],
                "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "upstream"}}],
            }]},
        });
        let filter =
            serde_json::json!({"name": "envoy.filters.network.http_connection_manager", "typed_config": manager});
        let config = serde_json::json!({
            "admin": {"address": socket(at)},
            // Envoy sends waiting spans when this interval ends.
            "layered_runtime": {"layers": [{"name": "static", "static_layer": {"tracing": {"opentelemetry": {"flush_interval_ms": 100}}}}]},
            "static_resources": {
                "listeners": [{"name": "in", "address": socket(address), "filter_chains": [{"filters": [filter]}]}],
                "clusters": [cluster("upstream", upstream), cluster("collector", collector)],
            },
        });
        let mut bootstrap = tempfile::Builder::new().suffix(".json").tempfile().expect("a file for the bootstrap");
        bootstrap.write_all(config.to_string().as_bytes()).expect("there is room");
        let log = tempfile::NamedTempFile::new().expect("a file for the log");
        let child = spawn_envoy(bootstrap.path(), &log);
        let envoy = Self { child, address, log, _bootstrap: bootstrap };
        let is_live = || admin::get(at, "/ready").ok().filter(|(_, text)| text.contains("LIVE"));
        wait_for("Envoy is ready", SOON, is_live);
        envoy
    }
}

impl Drop for Envoy {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        if thread::panicking() {
            let log = std::fs::read_to_string(self.log.path()).unwrap_or_default();
            eprintln!("--- Envoy's log ---\n{log}\n---");
        }
    }
}
