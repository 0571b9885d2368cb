//! HTTPRoutes: `curl` in front of servers that report the requests they received.

use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use leno_tests::manifests::{PORT, Service};
use leno_tests::programs::{self, Server};
use leno_tests::proxy::{Proxy, free_address, wait_for};
use serde_json::Value;

/// Longest time for a program on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server that answers with a description of the request, and with the number of requests so far. It does not count
/// requests for `/count`. An answer to `/slow` takes fifteen seconds.
const REPORTER: &str = "
import http.server, json, sys, time
asked = 0
class Reporter(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        global asked
        content = self.rfile.read(int(self.headers.get('content-length', 0))).decode()
        if self.path == '/slow':
            time.sleep(15)
        if self.path != '/count':
            asked += 1
        report = {'server': sys.argv[1], 'asked': asked, 'method': self.command, 'path': self.path, 'content': content,
                  'fields': {name.lower(): value for name, value in self.headers.items()}}
        answer = json.dumps(report).encode()
        self.send_response(200)
        self.send_header('content-length', str(len(answer)))
        self.send_header('x-internal', 'secret')
        self.end_headers()
        self.wfile.write(answer)
    do_POST = do_GET
host, port = sys.argv[2].rsplit(':', 1)
http.server.ThreadingHTTPServer((host, int(port)), Reporter).serve_forever()";

/// A running server with the script [`REPORTER`] and its own name.
struct Reporter {
    address: SocketAddr,
    _server: Server,
}

impl Reporter {
    fn start(name: &str) -> Self {
        let address = free_address();
        let server = Server::start("python3", &["-c", REPORTER, name, &address.to_string()]);
        wait_for("the server listens", PATIENCE, || TcpStream::connect(address).ok());
        Self { address, _server: server }
    }

    /// Number of requests so far, without requests for `/count`.
    fn asked(&self) -> u64 {
        let report = programs::run_well("curl", &["-sS", &format!("http://{}/count", self.address)], PATIENCE);
        report_of(&report)["asked"].as_u64().expect("a number")
    }
}

fn report_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The Service `web` with an HTTPRoute, and its backend servers.
struct Web {
    proxy: Proxy,
    access_log: tempfile::NamedTempFile,
    v1: Reporter,
    v2: Reporter,
}

impl Web {
    fn start(rules: &str) -> Self {
        let (v1, v2) = (Reporter::start("v1"), Reporter::start("v2"));
        let services = [
            Service::new("web", &[v1.address]).http_routed(rules),
            Service::new("v1", &[v1.address]),
            Service::new("v2", &[v2.address]),
        ];
        let access_log = tempfile::NamedTempFile::new().expect("a file for the log");
        let file = access_log.path().to_str().expect("temporary files have plain names");
        let proxy = Proxy::start_with(free_address(), &services, &["--access-log=json", "--access-log-file", file]);
        Self { proxy, access_log, v1, v2 }
    }

    /// Returns the output of `curl` for `path` of `web`.
    fn curl(&self, path: &str, arguments: &[&str]) -> String {
        let (host, url) = (format!("Host: web:{PORT}"), format!("http://{}{path}", self.proxy.outbound()));
        programs::run_well("curl", &[&["-sS", "-H", &host, &url], arguments].concat(), PATIENCE)
    }

    fn ask(&self, path: &str, arguments: &[&str]) -> Value {
        report_of(&self.curl(path, arguments))
    }
}

fn field<'a>(report: &'a Value, name: &str) -> &'a str {
    report["fields"][name].as_str().unwrap_or_default()
}

#[test]
fn path_header_and_query_tell_requests_apart_and_what_is_left_is_not_found() {
    let web = Web::start(
        "- matches:
  - path: {type: PathPrefix, value: /shop}
    headers: [{name: X-Version, value: v2}]
  - path: {type: PathPrefix, value: /shop}
    queryParams: [{name: version, value: v2}]
  backendRefs: [{name: v2, port: 50051}]
- matches: [{path: {type: PathPrefix, value: /shop}}]
  backendRefs: [{name: v1, port: 50051}]
- matches: [{path: {type: Exact, value: /broken}}]
  backendRefs: [{name: nobody, port: 50051}]",
    );
    assert_eq!(web.ask("/shop/cart", &[])["server"], "v1");
    assert_eq!(web.ask("/shop/cart", &["-H", "x-version: v2"])["server"], "v2");
    assert_eq!(web.ask("/shop?version=v2", &[])["server"], "v2");
    let refused = |path| web.curl(path, &["-o", "/dev/null", "-w", "%{http_code} %header{leno-proxy-error}"]);
    assert_eq!(refused("/shopping"), "404 no-matching-rule");
    assert_eq!(refused("/broken"), "500 invalid-backend");
    assert!(web.curl("/broken", &[]).contains("HTTPRoute default/web"), "it says whose fault it is");
}

#[test]
fn a_request_and_its_answer_are_changed_on_their_way() {
    let web = Web::start(
        "- name: moved
  matches: [{path: {type: PathPrefix, value: /old}}]
  filters:
  - type: URLRewrite
    urlRewrite: {hostname: web.example, path: {type: ReplacePrefixMatch, replacePrefixMatch: /new}}
  - type: RequestHeaderModifier
    requestHeaderModifier:
      set: [{name: x-set, value: proxy}]
      add: [{name: x-add, value: proxy}]
      remove: [x-secret]
  - type: ResponseHeaderModifier
    responseHeaderModifier: {set: [{name: x-served-by, value: leno}], remove: [x-internal]}
  backendRefs: [{name: v1, port: 50051}]",
    );
    let fields = ["-H", "x-set: client", "-H", "x-add: client", "-H", "x-secret: 1"];
    let report = web.ask("/old/a?b=c", &fields);
    assert_eq!((report["path"].as_str(), field(&report, "host")), (Some("/new/a?b=c"), "web.example"));
    assert_eq!((field(&report, "x-set"), field(&report, "x-secret")), ("proxy", ""));
    assert!(field(&report, "x-add").contains("proxy"), "{report}");

    let shown = ["-o", "/dev/null", "-w", "%{http_code} %header{x-served-by} [%header{x-internal}]"];
    assert_eq!(web.curl("/old", &shown), "200 leno []");
    let line = || Some(std::fs::read_to_string(web.access_log.path()).ok()?.lines().next()?.to_owned());
    let logged = report_of(&wait_for("the call is in the access log", PATIENCE, line));
    assert_eq!((&logged["route"], &logged["rule"]), (&"HTTPRoute default/web".into(), &"moved".into()), "{logged}");
}

#[test]
fn a_redirect_is_the_proxys_own_answer() {
    let web = Web::start(
        "- matches: [{path: {type: PathPrefix, value: /old}}]
  filters:
  - type: RequestRedirect
    requestRedirect: {statusCode: 301, path: {type: ReplacePrefixMatch, replacePrefixMatch: /new}}
- matches: [{path: {type: PathPrefix, value: /new}}]
  backendRefs: [{name: v2, port: 50051}]",
    );
    let shown = ["-o", "/dev/null", "-w", "%{http_code} %{redirect_url} %{size_download}"];
    assert_eq!(web.curl("/old/a?b=c", &shown), format!("301 http://web:{PORT}/new/a?b=c 0"));
    assert_eq!((web.v1.asked(), web.v2.asked()), (0, 0));

    // `--connect-to` makes curl connect to the proxy's address for `web`.
    let found = format!("web:{PORT}:{}", web.proxy.outbound());
    let followed = web.ask("/old/a?b=c", &["-L", "--connect-to", &found]);
    assert_eq!((followed["server"].as_str(), followed["path"].as_str()), (Some("v2"), Some("/new/a?b=c")));
}

#[test]
fn a_request_that_takes_longer_than_its_rule_allows_ends_with_504() {
    let web = Web::start(
        "- matches: [{path: {value: /slow}}]
  timeouts: {request: 300ms}
  backendRefs: [{name: v1, port: 50051}]
- timeouts: {request: 5s, backendRequest: 5s}
  backendRefs: [{name: v1, port: 50051}]",
    );
    let start = Instant::now();
    let shown = ["-o", "/dev/null", "-w", "%{http_code} %header{leno-proxy-error}"];
    assert_eq!(web.curl("/slow", &shown), "504 request-timeout");
    let waited = start.elapsed();
    assert!(waited >= Duration::from_millis(300) && waited < Duration::from_secs(8), "it took {waited:?}");
    assert_eq!(web.ask("/fast", &[])["server"], "v1");
}

#[test]
fn a_mirror_gets_every_request_with_its_content_and_a_dead_one_does_no_harm() {
    let mirrored = |to: &str| {
        format!(
            "- filters:
  - type: RequestMirror
    requestMirror: {{backendRef: {{name: {to}, port: 50051}}}}
  backendRefs: [{{name: v1, port: 50051}}]"
        )
    };
    let web = Web::start(&mirrored("v2"));
    for number in 0..20 {
        let report = web.ask("/orders", &["-d", &format!("order {number}")]);
        assert_eq!(
            (report["server"].as_str(), report["content"].as_str()),
            (Some("v1"), Some(&*format!("order {number}")))
        );
    }
    wait_for("the mirror has had them all", PATIENCE, || (web.v2.asked() == 20).then_some(()));
    assert_eq!(web.v1.asked(), 20);
    assert_eq!(web.proxy.scrape().sum("leno_mirrored_total", &[]), 20.0);

    let reloads = || web.proxy.scrape().sum("leno_config_reloads_total", &[]);
    let before = reloads();
    web.proxy.directory().put(&Service::new("gone", &[free_address()]));
    web.proxy.directory().put(&Service::new("web", &[]).http_routed(&mirrored("gone")));
    wait_for("the route is in force", PATIENCE, || (reloads() > before).then_some(()));
    for _ in 0..10 {
        assert_eq!(web.ask("/orders", &["-d", "order"])["server"], "v1");
    }
    assert_eq!((web.v1.asked(), web.v2.asked()), (30, 20));
}

#[test]
fn the_routes_in_force_and_what_they_did_can_be_asked_for() {
    let web = Web::start("- name: all\n  backendRefs: [{name: v1, port: 50051}]");
    web.ask("/", &[]);
    let (_, config) = web.proxy.get("/config").expect("the admin listener answers");
    let config: Value = serde_json::from_str(&config).expect("it is JSON");
    assert!(config.to_string().contains(r#""kind":"HTTPRoute""#), "{config}");

    let route = [r#"route_kind="HTTPRoute""#, r#"route_name="web""#, r#"parent_name="web""#];
    let to_v1 = [&route[..], &[r#"backend_name="v1""#]].concat();
    assert_eq!(web.proxy.scrape().sum("outbound_http_route_backend_requests_total", &to_v1), 1.0);
    let well = [&route[..], &[r#"http_status="200""#]].concat();
    assert_eq!(web.proxy.scrape().sum("outbound_http_route_request_statuses_total", &well), 1.0);
    assert_eq!(web.proxy.scrape().sum("outbound_http_route_request_duration_seconds_count", &route), 1.0);
    let answered = [&to_v1[..], &[r#"http_status="200""#, r#"error="""#]].concat();
    assert_eq!(web.proxy.scrape().sum("outbound_http_route_backend_response_statuses_total", &answered), 1.0);
    assert_eq!(web.proxy.scrape().sum("outbound_http_route_backend_response_duration_seconds_count", &to_v1), 1.0);
    let ready = [r#"endpoint_state="ready""#, r#"backend_name="v1""#];
    wait_for("the endpoint is reported", PATIENCE, || {
        (web.proxy.scrape().sum("outbound_http_balancer_endpoints", &ready) == 1.0).then_some(())
    });
}
