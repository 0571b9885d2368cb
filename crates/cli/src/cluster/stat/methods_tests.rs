use clap::Parser;

use super::*;
use crate::cluster::prometheus::tests::recorded;
use crate::cluster::source::tests::measured;

const WINDOW: Duration = Duration::from_secs(10);

const TO_CART: &str =
    "direction=\"outbound\",dst_namespace=\"shop\",dst_service=\"cart\",dst_port=\"80\",grpc_service=\"shop.v1.Cart\"";
const OWN: &str = "direction=\"inbound\",target_port=\"8080\"";

fn page() -> String {
    format!(
        "leno_method_requests_total{{{OWN},http_method=\"GET\"}} 50\n\
         leno_method_responses_total{{{OWN},http_method=\"GET\",classification=\"success\",status_code=\"200\"}} 50\n\
         leno_method_requests_total{{{TO_CART},grpc_method=\"Add\"}} 10\n\
         leno_method_requests_total{{{TO_CART},grpc_method=\"Watch\"}} 20\n\
         leno_method_responses_total{{{TO_CART},grpc_method=\"Add\",classification=\"failure\",grpc_status=\"UNAVAILABLE\"}} 5\n\
         leno_method_responses_total{{{TO_CART},grpc_method=\"Add\",classification=\"success\",grpc_status=\"OK\"}} 5\n\
         leno_method_duration_seconds_bucket{{{TO_CART},grpc_method=\"Add\",le=\"0.01\"}} 10\n\
         leno_method_duration_seconds_bucket{{{TO_CART},grpc_method=\"Add\",le=\"+Inf\"}} 10\n\
         leno_method_messages_total{{{TO_CART},grpc_method=\"Watch\",side=\"request\"}} 20\n\
         leno_method_messages_total{{{TO_CART},grpc_method=\"Watch\",side=\"response\"}} 4000\n\
         leno_method_time_left_seconds_bucket{{{TO_CART},grpc_method=\"Add\",at=\"ended\",le=\"0.0\"}} 2\n\
         leno_method_time_left_seconds_bucket{{{TO_CART},grpc_method=\"Add\",at=\"received\",le=\"0.0\"}} 1\n\
         leno_method_time_left_seconds_count{{{TO_CART},grpc_method=\"Add\",at=\"ended\"}} 8\n\
         leno_method_requests_total{{{TO_CART},grpc_method=\"Old\"}} 0\n\
         leno_method_requests_total{{direction=\"outbound\",grpc_method=\"other\"}} 1"
    )
}

#[test]
fn each_method_has_a_line_with_calls_to_the_workload_first() {
    let rows = rows(&measured(&page()), None, WINDOW);
    let text = table(&rows, WINDOW);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[..5],
        [
            "NAMESPACE   NAME         AT                METHOD               CALLS/S    SUCCESS   P50 MS   P99 MS   MSG/S   EXPIRED",
            "shop        web    in    :8080             GET                      5.0   100.00 %        -        -       -         -",
            "shop        web    out   cart.shop:80      shop.v1.Cart/Watch       2.0          -        -        -   402.0         -",
            "shop        web    out   cart.shop:80      shop.v1.Cart/Add         1.0    50.00 %      5.0      9.9       -   25.00 %",
            "shop        web    out   other addresses   other                    0.1          -        -        -       -         -",
        ]
    );
}

#[test]
fn prometheus_is_asked_for_every_label_that_the_rows_read() {
    let live = measured(&page());
    let shown = |measured: &Measured| table(&rows(measured, None, WINDOW), WINDOW);
    assert_eq!(shown(&recorded(&live, &WANTED)), shown(&live));
}

#[test]
fn expired_calls_are_counted_however_a_storage_writes_the_bound() {
    let live = measured(&page().replace("le=\"0.0\"", "le=\"0\""));
    let expired = |measured: &Measured| rows(measured, None, WINDOW).into_iter().find_map(|row| row.expired_rate);
    assert_eq!((expired(&live), expired(&recorded(&live, &WANTED))), (Some(0.25), Some(0.25)));
}

#[test]
fn calls_to_one_service_can_be_shown() {
    let of = |to: &str| rows(&measured(&page()), Some(&to.parse().expect("a Service")), WINDOW).len();
    assert_eq!((of("cart"), of("cart.shop:80"), of("cart.other"), of("cart:81")), (3, 3, 0, 0));
}

#[test]
fn http_methods_are_shown_with_their_route() {
    let route = "direction=\"outbound\",dst_service=\"cart\",http_method=\"GET\",route_kind=\"HTTPRoute\",route_namespace=\"shop\",route_name=\"canary\"";
    let rows = rows(&measured(&format!("leno_method_requests_total{{{route}}} 10")), None, WINDOW);
    assert_eq!(rows[0].key.method, "GET canary.shop");
}

#[test]
fn a_proxy_with_an_address_has_no_namespace() {
    let local = Measured { namespace: String::new(), name: "127.0.0.1:4191".to_owned(), ..measured(&page()) };
    let text = table(&rows(&local, None, WINDOW), WINDOW);
    assert!(text.starts_with("PROXY                  AT"), "{text}");
    assert!(table(&[], WINDOW).starts_with("no call began or ended within 10 s"));
}

#[test]
fn objectives_have_columns_if_a_method_has_one() {
    let with = |metric: &str, part: &str, value: f64| {
        format!("\nleno_method_objective_{metric}{{{TO_CART},grpc_method=\"Add\",objective=\"{part}\"}} {value}")
    };
    let page = page()
        + &with("calls_total", "success", 10.0)
        + &with("misses_total", "success", 5.0)
        + &with("ratio", "success", 0.99);
    let text = table(&rows(&measured(&page), None, WINDOW), WINDOW);
    let line = |method: &str| text.lines().find(|line| line.contains(method)).expect("a line");
    assert!(line("METHOD").ends_with("EXPIRED   OBJECTIVE      BURN"), "{text}");
    assert!(line("Cart/Add").ends_with("25.00 %   success 99 %   50.0"), "{text}");
    assert!(line("Cart/Watch").ends_with("-   -                 -"), "{text}");
}

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    methods: Options,
}

#[test]
fn a_method_with_only_open_streams_or_only_ended_calls_is_shown() {
    let series = |name: &str, method: &str, more: &str, count: u32| {
        let labels = "direction=\"inbound\",target_port=\"80\",grpc_service=\"a.B\"";
        format!("leno_method_{name}_total{{{labels},grpc_method=\"{method}\"{more}}} {count}\n")
    };
    let page = [
        series("requests", "Idle", "", 0),
        series("requests", "Begun", "", 10),
        series("requests", "Ended", "", 0),
        series("responses", "Ended", ",classification=\"failure\"", 10),
        series("requests", "Streams", "", 0),
        series("messages", "Streams", ",side=\"response\"", 10),
    ];
    let measured = measured(&page.concat());
    let methods = |arguments: &[&str]| -> Vec<String> {
        let Cli { methods } = Cli::parse_from([&["leno"], arguments].concat());
        let rows = methods.rows(&measured, Duration::from_secs(10));
        rows.into_iter().map(|row| row.key.method.replace("a.B/", "")).collect()
    };
    assert_eq!(methods(&[]), ["Begun", "Ended", "Streams"]);
    assert_eq!(methods(&["--all"]), ["Begun", "Ended", "Idle", "Streams"]);
}
