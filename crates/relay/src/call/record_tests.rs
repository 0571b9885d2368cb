use leno_http2::{Connection, Section, StreamKey};
use leno_model::balance::Explanation;

use super::*;
use crate::call::attempt::Stage;
use crate::call::attempt::tests::Attempted;
use crate::call::reply::ProxyError;
use crate::downstream::client::Speaks;
use crate::downstream::origin::Origin;
use crate::fixtures::{
    begin_connections, begin_to_connect, call, connect, connect_endpoint, establish_http2, fields, http2_caller,
    inbound, mesh_of, outbound, read, relay, service,
};
use crate::link::LinkId;
use crate::metrics::fixtures::scrape;
use crate::pool::upstream::UpstreamId;

/// Returns the manifest of an HTTPRoute of the Service `cart`. `rules` is YAML on one line.
fn route(rules: &str) -> String {
    format!(
        "---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: cart, namespace: shop}}\n\
         spec: {{parentRefs: [{{group: '', kind: Service, name: cart}}], rules: {rules}}}\n"
    )
}

/// Lets our application call the Service `cart` on a new connection with this number.
fn call_cart(relay: &mut Relay, number: u32) {
    call(relay, number, outbound(), None, b"GET /items HTTP/1.1\r\nhost: cart.shop\r\n\r\n".to_vec());
}

/// Returns the samples of a metric that are not 0: their labels, and the value after a space.
fn samples(relay: &Relay, metric: &str) -> Vec<String> {
    let text = scrape(std::slice::from_ref(&relay.metrics));
    let samples = text.lines().filter_map(|line| line.strip_prefix(metric)?.strip_prefix('{'));
    samples.filter(|sample| !sample.ends_with(" 0")).map(str::to_owned).collect()
}

/// The labels of the calls to the Service `cart` that were not sent.
const TO_CART: &str = r#"direction="outbound",authority="cart.shop.svc.cluster.local:80",dst_namespace="shop",dst_service="cart",dst_port="80",tls="unknown""#;

#[test]
fn a_grpc_call_that_was_answered_without_a_status_has_failed() {
    let status_of = |content_type: &[u8], http_status| {
        let mut request = FieldSection::new();
        request.push(b"content-type", content_type);
        let key = (None, StreamKey::numbered(1));
        let mut call = Call::new(key, request, Protocol::Http2, true, Instant::now());
        call.http_status = http_status;
        missing_status(&call)
    };
    let unknown = status_of(b"application/grpc", 200);
    assert!(unknown.is_some() && is_failure(200, unknown));
    assert_eq!(status_of(b"application/grpc", 503), None, "the client maps the HTTP status");
    assert_eq!(status_of(b"application/grpc-web", 200), None, "the status is in the content");
    assert_eq!(status_of(b"text/plain", 200), None);
}

/// A server of the Service `cart`, to which calls go.
struct Served {
    relay: Relay,
    server: Option<ServerEnd>,
    calls: u32,
}

/// The server's end of the connection.
struct ServerEnd {
    endpoint: LinkId,
    engine: Connection,
    /// The stream of the latest request.
    asked: Option<StreamKey>,
}

impl Served {
    fn new(manifests: &str) -> Self {
        Self { relay: relay(1, mesh_of(manifests.to_owned()), false), server: None, calls: 0 }
    }

    /// Makes a gRPC call, and `after` its start answers with these header sections. Returns what the balancer has
    /// recorded of the server.
    fn answer(&mut self, after: Duration, sections: &[&[(&str, &str)]]) -> Explanation {
        self.ask(&IN_A_SECOND);
        self.relay.set_now(self.relay.now + after);
        for (number, section) in sections.iter().enumerate() {
            let kind = if number == 0 { Section::Response } else { Section::Trailers };
            self.send(kind, section, number + 1 == sections.len());
        }
        self.recorded()
    }

    /// Makes a call that the server receives, with these fields besides the pseudo-header fields.
    fn ask(&mut self, of_call: &[(&str, &str)]) {
        let relay = &mut self.relay;
        let client = LinkId::Client(connect(relay, self.calls, outbound(), None, (Speaks::Http2, Vec::new())));
        self.calls += 1;
        assert!(relay.begin_read(client).is_some());
        let pseudo = [(":method", "POST"), (":scheme", "http"), (":authority", "cart.shop"), (":path", "/a.B/C")];
        let request = [&pseudo, of_call].concat();
        let (mut caller, stream) = http2_caller(relay.now, &request);
        caller.send_data(stream, b"question", true);
        relay.receive(client, caller.output());
        relay.dispatch();
        let ServerEnd { endpoint, engine, asked } = self.server.get_or_insert_with(|| {
            let upstream = begin_connections(relay).first().expect("the call needs a connection").0;
            let engine = establish_http2(relay, upstream);
            ServerEnd { endpoint: LinkId::Endpoint(upstream), engine, asked: None }
        });
        let now = relay.now;
        relay.serve_waiting();
        let link = relay.link(*endpoint).expect("it is open");
        let sent = link.output().to_vec();
        link.note_written(sent.len());
        *asked = read(engine, now, &sent);
        assert!(asked.is_some(), "the server receives the request");
    }

    /// Sends one header section of the server's answer.
    fn send(&mut self, kind: Section, section: &[(&str, &str)], end_stream: bool) {
        let ServerEnd { endpoint, engine, asked } = self.server.as_mut().expect("a connection");
        engine.send_headers(asked.expect("a request"), kind, &fields(section), end_stream);
        let answer = engine.output().to_vec();
        engine.advance_output(answer.len());
        self.relay.receive(*endpoint, &answer);
    }

    /// Returns what the balancer has recorded of the server.
    fn recorded(&self) -> Explanation {
        self.relay.explain().remove(0).endpoints.remove(0).balancer
    }
}

/// The fields of a gRPC call with a deadline of one second.
const IN_A_SECOND: [(&str, &str); 3] =
    [("content-type", "application/grpc"), ("te", "trailers"), ("grpc-timeout", "1S")];

const EARLY: Duration = Duration::from_millis(100);
const AT_THE_DEADLINE: Duration = Duration::from_millis(999);

const OK: (&str, &str) = (":status", "200");
const GRPC: (&str, &str) = ("content-type", "application/grpc");

#[test]
fn the_balancer_records_failures_but_not_that_a_call_has_reached_its_deadline() {
    let failures_after = |after, answer: &[(&str, &str)]| {
        let cart = service("cart", &["10.0.0.9"]);
        Served::new(&cart).answer(after, &[answer]).failures
    };
    for status in ["2", "4", "8", "13", "14", "15"] {
        assert_eq!(failures_after(EARLY, &[OK, GRPC, ("grpc-status", status)]), 1, "{status}");
    }
    for status in ["0", "3", "5", "12"] {
        assert_eq!(failures_after(EARLY, &[OK, GRPC, ("grpc-status", status)]), 0, "{status}");
    }
    for http_status in ["200", "302", "404", "503"] {
        let answer = [(":status", http_status), ("content-type", "text/plain")];
        assert_eq!(failures_after(EARLY, &answer), 1, "HTTP {http_status} without grpc-status");
    }
    let status = failures_after(AT_THE_DEADLINE, &[OK, GRPC, ("grpc-status", "4")]);
    assert_eq!(status, 0, "our own timer would have fired next");
    assert_eq!(failures_after(AT_THE_DEADLINE, &[OK, GRPC, ("grpc-status", "2")]), 1);
}

/// The server has sent nothing else until the deadline, so the end of the call shows no success.
#[test]
fn an_answer_at_the_deadline_is_no_success_either() {
    let late: [&[&[(&str, &str)]]; 2] = [&[&[OK, GRPC, ("grpc-status", "4")]], &[&[OK, GRPC], &[("grpc-status", "4")]]];
    for answer in late {
        let mut served = Served::new(&service("cart", &["10.0.0.9"]));
        let before = served.answer(EARLY, &[&[OK, GRPC, ("grpc-status", "2")]]).failure_rate;
        assert!(before > 0.4, "{before}");
        assert_eq!(served.answer(AT_THE_DEADLINE, answer).failure_rate, before, "{answer:?}");
        assert!(served.answer(EARLY, &[&[OK, GRPC], &[("grpc-status", "0")]]).failure_rate < before);
    }
}

/// Our timer fires at the deadline. An endpoint that sends headers and then hangs must not get a success for each call.
#[test]
fn headers_without_an_end_until_the_deadline_are_no_success() {
    let mut served = Served::new(&service("cart", &["10.0.0.9"]));
    let before = served.answer(EARLY, &[&[OK, GRPC, ("grpc-status", "2")]]).failure_rate;
    served.ask(&IN_A_SECOND);
    served.relay.set_now(served.relay.now + EARLY);
    served.send(Section::Response, &[OK, GRPC], false);
    assert_eq!(served.relay.calls.len(), 1);
    served.relay.set_now(served.relay.now + Duration::from_secs(1));
    served.relay.expire_deadlines();
    assert_eq!(served.relay.calls.len(), 0);
    assert_eq!(served.recorded().failure_rate, before);
}

/// The status 404 is a success, so its latency must not contain the time that the content takes.
#[test]
fn the_latency_of_an_answer_404_with_content_is_that_of_its_headers() {
    let mut served = Served::new(&service("cart", &["10.0.0.9"]));
    served.ask(&[]);
    served.relay.set_now(served.relay.now + EARLY);
    served.send(Section::Response, &[(":status", "404")], false);
    served.relay.set_now(served.relay.now + Duration::from_secs(3));
    served.send(Section::Trailers, &[], true);
    assert_eq!(served.relay.calls.len(), 0);
    assert_eq!(served.recorded().latency_estimate_ms, Some(100.0));
    assert_eq!(served.recorded().failures, 0);
}

/// The balancer would learn of the failure only after the latency.
#[test]
fn a_fast_failure_does_not_make_an_endpoint_look_fast() {
    let mut served = Served::new(&service("cart", &["10.0.0.9"]));
    let before = served.answer(EARLY, &[&[OK, GRPC], &[("grpc-status", "0")]]).latency_estimate_ms;
    assert_eq!(before, Some(100.0));
    for answer in [[OK, GRPC, ("grpc-status", "14")], [(":status", "503"), GRPC, ("grpc-message", "broken")]] {
        assert_eq!(served.answer(Duration::from_millis(1), &[&answer]).latency_estimate_ms, before, "{answer:?}");
    }
    let after_success = served.answer(Duration::from_millis(1), &[&[OK, GRPC, ("grpc-status", "5")]]);
    assert!(after_success.latency_estimate_ms < before);
}

/// The relay drops the answer and sends the call again, but the balancer must judge the answer in the same way.
#[test]
fn the_balancer_judges_a_dropped_answer_like_one_that_the_client_gets() {
    let to_cart = route("[{backendRefs: [{name: cart, port: 80}], retry: {codes: [404], attempts: 1}}]");
    let mut served = Served::new(&(service("cart", &["10.0.0.9"]) + &to_cart));
    assert_eq!(served.answer(EARLY, &[&[(":status", "404")]]).failures, 1);
    let (_, call) = served.relay.calls.iter().next().expect("the call goes on");
    assert_eq!(call.retries, 1);
}

#[test]
fn the_outcome_of_an_answer_at_the_deadline_is_a_wait() {
    let now = Instant::now();
    let mut attempted = Attempted::new(now);
    let id = attempted.begin(now);
    let key = (None, StreamKey::numbered(1));
    let mut call = Call::new(key, fields(&[GRPC]), Protocol::Http2, true, now);
    call.deadline = Some(now + Duration::from_secs(1));
    call.attempts = attempted.attempts;
    call.attempts.get_mut(id).expect("an attempt").stage = Stage::Sent(UpstreamId::numbered(1), key.1);
    let outcome = |after| {
        let attempt = call.attempts.get(id).expect("an attempt");
        outcome_of_answer(&call, attempt, (200, Some(Status::DeadlineExceeded as u8)), None, now + after)
    };
    assert_eq!(outcome(AT_THE_DEADLINE), Outcome::Cancelled { waited: AT_THE_DEADLINE });
    assert_eq!(outcome(EARLY), Outcome::Failure { latency: EARLY, pushback: None });
}

#[test]
fn the_server_is_known_although_its_connection_has_ended() {
    let mut relay = relay(1, mesh_of(service("cart", &["10.0.0.9"])), false);
    let origin = outbound();
    call(&mut relay, 1, origin, None, b"GET / HTTP/1.1\r\nhost: cart.shop\r\n\r\n".to_vec());
    let (id, _) = relay.calls.iter().next().expect("a call");
    let address = |relay: &Relay| relay.server_of(relay.calls.get(id).expect("a call")).map(|server| server.address);
    assert_eq!(address(&relay), None, "it was not sent");
    let attempt = relay.calls.get_mut(id).and_then(|call| call.attempts.iter_mut().next()).expect("an attempt");
    attempt.stage = Stage::Lost;
    assert_eq!(address(&relay), Some("10.0.0.9:8080".parse().expect("an address")));
}

#[test]
fn only_a_call_whose_client_or_time_limit_did_not_wait_longer_took_too_long() {
    let endpoint = "10.0.0.9:80".parse().expect("an address");
    let (set_by, timeout) = (Arc::from("HTTPRoute shop/cart"), Duration::from_secs(1));
    let took_too_long = |error: ProxyError| Ending::ProxyError { why: error.why(), grpc_status: None }.took_too_long();
    assert!(Ending::Cancelled.took_too_long() && took_too_long(ProxyError::DeadlineExceeded));
    assert!(took_too_long(ProxyError::BackendTimeout { endpoint, set_by: Arc::clone(&set_by), timeout }));
    assert!(took_too_long(ProxyError::RequestTimeout { set_by: Arc::clone(&set_by), timeout }));
    assert!(took_too_long(ProxyError::StreamIdle { set_by, timeout }));
    assert!(!Ending::Broken.took_too_long() && !took_too_long(ProxyError::ConnectionClosed { endpoint }));
}

#[test]
fn a_client_is_charged_for_calls_that_it_ends_and_not_for_calls_that_rules_policies_and_servers_end() {
    let endpoint = "10.0.0.9:80".parse().expect("an address");
    let (set_by, timeout) = (Arc::from("HTTPRoute shop/cart"), Duration::from_secs(1));
    let is_charged =
        |error: ProxyError| Ending::ProxyError { why: error.why(), grpc_status: None }.is_caused_by_client();
    assert!(Ending::Cancelled.is_caused_by_client());
    for error in [
        ProxyError::DeadlineExceeded,
        ProxyError::ContentLate { waited_ms: 1 },
        ProxyError::ClientTooSlow { buffered_bytes: 1 },
        ProxyError::HeaderListTooLarge { limit_bytes: 1 },
        ProxyError::ResponseTooLarge { endpoint, bytes: 2, limit_bytes: 1 },
    ] {
        assert!(is_charged(error.clone()), "{error}");
    }
    assert!(!Ending::Complete.is_caused_by_client() && !Ending::Broken.is_caused_by_client());
    for error in [
        ProxyError::RequestTimeout { set_by: Arc::clone(&set_by), timeout },
        ProxyError::BackendTimeout { endpoint, set_by: Arc::clone(&set_by), timeout },
        ProxyError::StreamIdle { set_by, timeout },
        ProxyError::Denied(String::new()),
        ProxyError::Protocol { endpoint, why: String::new() },
    ] {
        assert!(!is_charged(error.clone()), "{error}");
    }
}

#[test]
fn an_answer_of_the_proxy_fails_if_no_destination_was_found_and_the_same_answer_of_an_application_does_not() {
    let ours = |error: ProxyError| {
        let (http_status, grpc_status) = error.statuses();
        let ending = |grpc_status| Ending::ProxyError { why: error.why(), grpc_status };
        let grpc_status = Some(grpc_status as u8);
        [ending(None).class(http_status, None), ending(grpc_status).class(200, grpc_status)]
    };
    for error in [
        ProxyError::NoRoute(String::new()),
        ProxyError::NoMatch { cluster: String::new() },
        ProxyError::Loop { target: "10.0.0.9:80".parse().expect("an address") },
        ProxyError::NoEndpoint { cluster: String::new() },
    ] {
        assert_eq!(ours(error.clone()), [Class::Failure; 2], "{error}");
    }
    let answered = Ending::Answered { grpc_status: Some(Status::Unimplemented as u8), pushback: None };
    assert_eq!(answered.class(200, Some(Status::Unimplemented as u8)), Class::Success);
    let redirected = Ending::Answered { grpc_status: None, pushback: None };
    assert_eq!([404, 302].map(|status| redirected.class(status, None)), [Class::Success; 2]);
    assert_eq!(ours(ProxyError::Denied(String::new())), [Class::Denied; 2]);
    assert_eq!(redirected.class(403, None), Class::Success, "an application's answer says nothing about the server");
    assert_eq!(Ending::Broken.class(200, None), Class::Failure);
    assert_eq!(Ending::Cancelled.class(200, Some(0)), Class::Cancelled);
}

#[test]
fn a_call_that_was_not_sent_counts_at_the_service_that_it_was_addressed_to() {
    let none = "[{matches: [{path: {value: /other}}], backendRefs: [{name: cart, port: 80}]}]";
    let weightless = "[{backendRefs: [{name: cart, port: 80, weight: 0}]}]";
    let moved = "[{filters: [{type: RequestRedirect, requestRedirect: {hostname: a.example}}]}]";
    let cart = service("cart", &["10.0.0.9"]);
    let empty = "---\napiVersion: v1\nkind: Service\nmetadata: {name: cart, namespace: shop}\n\
                 spec: {ports: [{port: 80}]}\n";
    for (manifests, outcome) in [
        (cart.clone() + &route(none), r#"classification="failure",status_code="404""#),
        (cart.clone() + &route(weightless), r#"classification="failure",status_code="500""#),
        (cart + &route(moved), r#"classification="success",status_code="302""#),
        (empty.to_owned(), r#"classification="failure",status_code="503""#),
    ] {
        let mut relay = relay(1, mesh_of(manifests), false);
        call_cart(&mut relay, 1);
        assert_eq!(samples(&relay, "request_total"), [format!("{TO_CART}}} 1")]);
        assert_eq!(samples(&relay, "response_total"), [format!("{TO_CART},{outcome},grpc_status=\"\"}} 1")]);
    }
}

#[test]
fn a_call_without_a_destination_does_not_count_as_plaintext() {
    let mut relay = relay(1, mesh_of(service("cart", &["10.0.0.9"])), false);
    call(&mut relay, 1, outbound(), None, b"GET / HTTP/1.1\r\nhost: nowhere.shop\r\n\r\n".to_vec());
    call(&mut relay, 2, inbound(), None, b"CONNECT cart:80 HTTP/1.1\r\nhost: cart:80\r\n\r\n".to_vec());
    let mut requests = samples(&relay, "request_total");
    requests.sort();
    assert_eq!(requests, [r#"direction="inbound",tls="unknown"} 1"#, r#"direction="outbound",tls="unknown"} 1"#]);
}

#[test]
fn a_call_whose_endpoints_cannot_be_connected_to_fails_at_its_service() {
    let mut relay = relay(1, mesh_of(service("cart", &["10.0.0.9"])), false);
    call_cart(&mut relay, 1);
    let upstream = begin_to_connect(&mut relay);
    relay.close_upstream(upstream, "refused");
    relay.dispatch();
    // The proxy opens no connection for a while, so it chooses no endpoint for the second call.
    call_cart(&mut relay, 2);
    let responses = samples(&relay, "response_total");
    let unsent = format!("{TO_CART},classification=\"failure\",status_code=\"502\",grpc_status=\"\"}} 1");
    assert!(responses.len() == 2 && responses.contains(&unsent), "{responses:?}");
}

#[test]
fn calls_that_a_rule_sends_to_no_valid_backend_miss_the_objective_of_their_service() {
    const OBJECTIVE: &str = "annotations: {leno.dev/objective: 'GET: success 90 %'}, ";
    let cart = service("cart", &["10.0.0.9"]).replacen("{name: cart", &format!("{{{OBJECTIVE}name: cart"), 1);
    for rules in [
        "[{backendRefs: [{name: cart, port: 80, weight: 0}]}]",
        "[{backendRefs: [{name: gone, port: 80}]}]",
        "[{matches: [{path: {value: /other}}], backendRefs: [{name: cart, port: 80}]}]",
    ] {
        let mut relay = relay(1, mesh_of(cart.clone() + &route(rules)), false);
        call_cart(&mut relay, 1);
        for metric in ["leno_method_objective_calls_total", "leno_method_objective_misses_total"] {
            let [sample]: [String; 1] = samples(&relay, metric).try_into().expect("one sample");
            assert!(sample.contains(r#"dst_service="cart""#) && sample.contains(r#"http_method="GET""#), "{sample}");
            assert!(sample.contains(r#"objective="success""#) && sample.ends_with("} 1"), "{sample}");
        }
    }
}

#[test]
fn a_call_that_our_policy_denies_is_neither_a_success_nor_a_failure() {
    let policy = "---\napiVersion: leno.dev/v1alpha1\nkind: AuthorizationPolicy\nmetadata: {name: cart, namespace: shop}\n\
                  spec: {allow: [{identities: [ns/shop/sa/web]}]}\n";
    let mut relay = relay(1, mesh_of(policy.to_owned()), false);
    let [peer, local] = ["10.0.1.1:40000", "10.0.0.9:8080"].map(|address| address.parse().expect("an address"));
    let origin = Origin { door: Door::Inbound, peer, local, original_destination: Some(local) };
    call(&mut relay, 1, origin, None, b"GET / HTTP/1.1\r\nhost: a\r\n\r\n".to_vec());
    let [response]: [String; 1] = samples(&relay, "response_total").try_into().expect("one response");
    assert!(response.ends_with(r#",classification="denied",status_code="403",grpc_status=""} 1"#), "{response}");
    assert!(samples(&relay, "response_latency_ms_count").is_empty());
}

/// Returns a relay with these manifests, after a server of the Service `cart` has answered a call with 403 and `field`.
fn answered_403(manifests: String, field: &str) -> Relay {
    let mut relay = relay(1, mesh_of(manifests), false);
    call_cart(&mut relay, 1);
    let upstream = connect_endpoint(&mut relay);
    let answer = format!("HTTP/1.1 403 Forbidden\r\n{field}\r\ncontent-length: 0\r\n\r\n");
    relay.receive(LinkId::Endpoint(upstream), answer.as_bytes());
    relay
}

#[test]
fn an_answer_403_is_a_denial_only_if_a_proxy_gave_it() {
    for (field, class) in [("leno-proxy-error: denied", "denied"), ("x-denied: yes", "success")] {
        let relay = answered_403(service("cart", &["10.0.0.9"]), field);
        let [response]: [String; 1] = samples(&relay, "response_total").try_into().expect("one response");
        let outcome = format!(",classification=\"{class}\",status_code=\"403\",grpc_status=\"\"}} 1");
        assert!(response.ends_with(&outcome), "{response}");
    }
}

#[test]
fn the_outcome_of_a_denied_call_is_its_own_in_the_counts_of_a_route() {
    for (field, error) in [("leno-proxy-error: denied", "denied"), ("x-denied: yes", "")] {
        let to_cart = route("[{backendRefs: [{name: cart, port: 80}]}]");
        let relay = answered_403(service("cart", &["10.0.0.9"]) + &to_cart, field);
        let statuses = samples(&relay, "outbound_http_route_request_statuses_total");
        let [status]: [String; 1] = statuses.try_into().expect("one outcome");
        assert!(status.ends_with(&format!(",http_status=\"403\",error=\"{error}\"}} 1")), "{status}");
    }
}

#[test]
fn an_answer_that_the_server_cuts_off_has_the_status_that_the_client_got_and_a_reason() {
    let mut relay = relay(1, mesh_of(service("cart", &["10.0.0.9"])), false);
    call_cart(&mut relay, 1);
    let endpoint = LinkId::Endpoint(connect_endpoint(&mut relay));
    relay.receive(endpoint, b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc");
    let (_, call) = relay.calls.iter().next().expect("the call goes on");
    assert_eq!(call.status_seen(Class::Failure), Some(200));
    assert_eq!(relay.error_of(call, Ending::Broken), Some("connection-closed"));
    relay.receive_end(endpoint);
    assert_eq!(samples(&relay, "leno_proxy_errors_total"), [r#"direction="outbound",why="connection-closed"} 1"#]);
    let [response]: [String; 1] = samples(&relay, "response_total").try_into().expect("one response");
    assert!(response.ends_with(r#",classification="failure",status_code="200",grpc_status=""} 1"#), "{response}");
}

/// Returns the sum of all samples of a metric.
fn sum(relay: &Relay, metric: &str) -> f64 {
    let value = |sample: &String| sample.rsplit_once(' ').and_then(|(_, value)| value.parse::<f64>().ok());
    samples(relay, metric).iter().map(|sample| value(sample).expect("a number")).sum()
}

#[test]
fn the_latency_of_an_upgrade_ends_when_the_server_accepts_it() {
    let mesh = mesh_of(service("cart", &["10.0.0.9"]) + &route("[{backendRefs: [{name: cart, port: 80}]}]"));
    let mut relay = relay(1, mesh, false);
    let asked = b"GET / HTTP/1.1\r\nhost: cart.shop\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
    call(&mut relay, 1, outbound(), None, asked.to_vec());
    let endpoint = LinkId::Endpoint(connect_endpoint(&mut relay));
    relay.set_now(relay.now + Duration::from_millis(7));
    relay.receive(endpoint, b"HTTP/1.1 101 -\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n");
    relay.set_now(relay.now + Duration::from_secs(3_600));
    relay.receive_end(endpoint);
    let metrics = [
        ("response_latency_ms_sum", 7.0),
        ("leno_method_duration_seconds_sum", 0.007),
        ("outbound_http_route_request_duration_seconds_sum", 0.007),
    ];
    for (metric, latency) in metrics {
        assert!((sum(&relay, metric) - latency).abs() < 1e-6, "{metric}: {:?}", samples(&relay, metric));
    }
}
