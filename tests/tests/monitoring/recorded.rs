//! `leno stat --prometheus` shows the metrics that Prometheus has recorded of a running proxy.

use leno_tests::programs::{run, text as printed};

use super::*;

/// Number of calls that the test makes after Prometheus has first scraped the method's counter. So Prometheus must see
/// the counter grow by exactly this number.
const CALLS: u32 = 300;
/// Number of scrapes, one a second. Prometheus measures the growth from the first to the last of these scrapes.
const READINGS: u64 = 14;
/// Largest allowed ratio of the growth that Prometheus reports to the real growth. Prometheus extrapolates the 13 s
/// from the first to the last scrape: by up to 1.1 s at each end of the window, so by 2.2 s in all.
const EXTRAPOLATED_MAX: f64 = 1.2;
/// The window of the command, in seconds.
const WINDOW_S: f64 = 60.0;

/// A proxy with a backend. Prometheus reads the metrics of the proxy, and adds the labels of a Pod of the workload
/// `web`.
struct Recorded {
    proxy: Proxy,
    prometheus: Prometheus,
    client: Client,
    _backend: Backend,
}

impl Recorded {
    async fn start() -> Self {
        let backend = Backend::start().await;
        let service = Service::echo(&[backend.address()])
            .annotated("leno.dev/objective", "success 50 %")
            .grpc_routed("- backendRefs: [{name: echo, port: 50051}]");
        let proxy = Proxy::start(&[service]);
        let client = Client::connect(proxy.outbound(), ECHO).await;
        let prometheus = reading(&[("leno-proxy", "web", proxy.admin())]);
        Self { proxy, prometheus, client, _backend: backend }
    }

    async fn call(&self, count: u32) {
        for _ in 0..count {
            let answer = self.client.call(&Call::new("Fast").with("grpc-timeout", "10S"), b"hello").await;
            assert_eq!(answer.grpc_status(), Some(0), "{answer:?}");
        }
    }

    /// Number of calls of the method, as the proxy itself counts them.
    fn counted(&self) -> f64 {
        self.proxy.scrape().sum("leno_method_requests_total", &[r#"grpc_method="Fast""#])
    }

    /// Waits until Prometheus has scraped the value `calls`, and has scraped the counter at least `readings` times.
    fn wait_for_readings(&self, calls: f64, readings: u64) {
        let read = format!(r#"leno_method_requests_total{{grpc_method="Fast"}} == {calls}"#);
        let often = format!(r#"count_over_time(leno_method_requests_total{{grpc_method="Fast"}}[1m]) >= {readings}"#);
        wait_for("Prometheus has read the calls", PATIENCE, || {
            (self.prometheus.count(&read) == 1 && self.prometheus.count(&often) == 1).then_some(())
        });
    }

    fn leno(&self, words: &[&str]) -> Value {
        let url = format!("http://{}", self.prometheus.address);
        let output = run("leno", &[&["stat"], words, &["-o", "json", "--prometheus", &url]].concat(), PATIENCE);
        assert!(output.status.success(), "{}", printed(&output));
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", printed(&output)))
    }
}

/// Returns the only row, and panics if there is not exactly one.
fn row(rows: &Value) -> &Value {
    let [row] = &rows.as_array().expect("rows")[..] else { panic!("not one row: {rows:#}") };
    row
}

fn number(row: &Value, field: &str) -> f64 {
    row[field].as_f64().unwrap_or_else(|| panic!("no {field} in {row:#}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leno_stat_counts_from_prometheus_what_the_proxy_counts_itself() {
    if !is_installed("prometheus", "prometheus") {
        return;
    }
    let recorded = Recorded::start().await;
    // Prometheus counts no growth up to the first value of a series. So create the series before the counted calls.
    recorded.call(1).await;
    tokio::task::block_in_place(|| recorded.wait_for_readings(recorded.counted(), 2));
    let before = recorded.counted();
    recorded.call(CALLS).await;
    tokio::task::block_in_place(|| {
        let grown = recorded.counted() - before;
        assert_eq!(grown, f64::from(CALLS));
        recorded.wait_for_readings(recorded.counted(), READINGS);
        let expected = grown..=grown * EXTRAPOLATED_MAX;

        let methods = recorded.leno(&["methods", "deploy/web", "-n", "shop", "--window", "1m"]);
        let method = row(&methods);
        let named = ["namespace", "name", "direction", "at", "method"].map(|field| text(method, field));
        assert_eq!(named, ["shop", "web", "outbound", "echo.default:50051", "test.Test/Fast"]);
        let calls = number(method, "calls_per_second") * WINDOW_S;
        assert!(expected.contains(&calls.round()), "{calls} of {grown} calls");
        for messages in ["request_messages_per_second", "response_messages_per_second"] {
            let messages = number(method, messages) * WINDOW_S;
            assert!(expected.contains(&messages.round()), "{messages} messages of {grown} calls");
        }
        assert_eq!((number(method, "success_rate"), number(method, "expired_rate")), (1.0, 0.0));
        assert!(number(method, "p50_ms") > 0.0 && number(method, "p99_ms") >= number(method, "p50_ms"), "{method:#}");

        let success = &method["objective"]["success"];
        assert_eq!(
            [number(success, "ratio"), number(success, "misses"), number(success, "burn_rate")],
            [0.5, 0.0, 0.0]
        );
        assert!(expected.contains(&number(success, "calls").round()), "{success:#}");

        let workloads = recorded.leno(&["-A", "--to", "echo.default", "--window", "1m"]);
        let to = row(&workloads);
        assert_eq!((text(to, "name"), text(to, "to")), ("web", "echo.default:50051"));
        assert_eq!((number(to, "meshed_pods"), &to["pods"]), (1.0, &Value::Null));
        assert_eq!(number(to, "tcp_connections"), 1.0);
        assert!(expected.contains(&(number(to, "calls_per_second") * WINDOW_S).round()), "{to:#}");

        let pods = recorded.leno(&["pods/web-1", "-n", "shop", "--window", "1m"]);
        assert_eq!(text(row(&pods), "name"), "web-1");
        assert_eq!(recorded.leno(&["edges", "--window", "1m"]), json!([]), "no client calls the workload");
        let routes = recorded.leno(&["routes", "deploy/web", "-n", "shop", "--window", "1m"]);
        let route = row(&routes);
        let named = ["namespace", "name", "service", "route"].map(|field| text(route, field));
        assert_eq!(named, ["shop", "web", "echo.default:50051", "GRPCRoute echo.default"]);
        let calls = number(route, "calls_per_second") * WINDOW_S;
        assert!(expected.contains(&calls.round()), "{calls} of {grown} calls");
        assert_eq!(number(route, "success_rate"), 1.0, "{route:#}");
        let backends = route["backends"].as_object().expect("backends");
        assert_eq!(backends.keys().collect::<Vec<_>>(), ["echo.default:50051"], "{route:#}");

        let url = format!("http://{}", recorded.prometheus.address);
        let unknown = run("leno", &["stat", "deploy/cart", "--prometheus", &url], PATIENCE);
        let told = printed(&unknown);
        assert!(!unknown.status.success() && told.contains("knows no workload cart with a proxy; "), "{told}");
    });
}
