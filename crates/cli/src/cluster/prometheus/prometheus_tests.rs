use super::server::tests::{response, run, with_server};
use super::*;
use crate::cluster::scrape::Sample;
use crate::cluster::select::Selection;
use crate::cluster::stat::counts::sums;

const WANTED: Wanted = Wanted {
    labels: &["direction"],
    only: &[],
    metrics: &[Metric::counter("request_total", &["tls"]), Metric::gauge("tcp_open_connections", &[])],
};
const WINDOW: Duration = Duration::from_secs(3_600);

/// Returns `measured`, which has one proxy, as Prometheus would provide it: with only the metrics and labels of
/// `wanted`.
pub(crate) fn recorded(measured: &Measured, wanted: &Wanted) -> Measured {
    let [growth] = &measured.proxies[..] else { panic!("there is one proxy") };
    let (mut grown, mut now) = (Scrape::default(), Scrape::default());
    for metric in wanted.metrics {
        let labels = [wanted.labels, metric.labels()].concat();
        let kept = |sample: &Sample| {
            let label = |name: &&str| ((*name).to_owned(), sample.label(name).to_owned());
            let is_wanted = wanted.only.iter().chain(metric.matchers()).all(|matcher| matches(sample, matcher));
            is_wanted.then(|| labels.iter().map(label).collect::<Vec<_>>())
        };
        let (from, to) = if metric.is_counter() { (&growth.grown, &mut grown) } else { (&growth.now, &mut now) };
        for (labels, value) in sums(metric.name(), std::iter::once(from), kept) {
            to.add(metric.name(), &labels, value);
        }
    }
    Measured {
        namespace: measured.namespace.clone(),
        name: measured.name.clone(),
        pods: measured.pods,
        meshed_pods: measured.meshed_pods,
        proxies: vec![Growth { grown, now }],
    }
}

/// Whether a sample matches `NAME="VALUE"`, `NAME!="VALUE"` or `NAME=~"VALUE|VALUE"`. As in Prometheus, a missing label
/// has an empty value.
fn matches(sample: &Sample, matcher: &str) -> bool {
    let (name, value) = matcher.split_once('=').expect("a matcher");
    let (name, is_equal) = name.strip_suffix('!').map_or((name, true), |name| (name, false));
    let label = sample.label(name);
    match value.strip_prefix('~') {
        Some(values) => values.trim_matches('"').split('|').any(|value| value == label),
        None => (value.trim_matches('"') == label) == is_equal,
    }
}

fn vector(series: &str) -> Vec<u8> {
    response("200 OK", &format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{series}]}}}}"#))
}

/// Measures all workloads through a simulated Prometheus that answers with `reply`.
fn measured(reply: impl Fn(&str) -> Vec<u8>) -> Result<Vec<Measured>, String> {
    let groups = Groups::of(&Selection { kind: Kind::Workloads, name: None }, Some("shop"));
    run(with_server(reply, async |url| {
        let server = Server::new(url.parse().expect("a URL"), None).expect("it can be used");
        measure(&server, &groups, &WANTED, WINDOW).await.map_err(|error| error.to_string().replace(&url, "URL"))
    }))
}

#[test]
fn workloads_have_their_pods_the_growth_of_counters_and_the_value_of_gauges() {
    let web = r#""namespace":"shop","workload":"web""#;
    let measured = measured(|request| match request {
        request if request.contains("count%20by") => vector(&format!(r#"{{"metric":{{{web}}},"value":[1,"3"]}}"#)),
        request if request.contains("request%5Ftotal") => vector(&format!(
            r#"{{"metric":{{{web},"tls":"true"}},"value":[1,"40.5"]}},
               {{"metric":{{"namespace":"shop","workload":"ended"}},"value":[1,"7"]}}"#
        )),
        _ => vector(&format!(r#"{{"metric":{{{web}}},"value":[1,"5"]}}"#)),
    });
    let measured = measured.expect("an answer");
    let [ended, web] = &measured[..] else { panic!("{measured:?}") };
    assert_eq!((&*web.namespace, &*web.name, web.pods, web.meshed_pods), ("shop", "web", None, 3));
    assert_eq!(web.proxies[0].grown.sum("request_total", &[("tls", "true")]), 40.5);
    assert_eq!(web.proxies[0].now.sum("tcp_open_connections", &[]), 5.0);
    // Prometheus has no target for a workload whose Pods have all ended, but still has its recorded series.
    assert_eq!((&*ended.name, ended.meshed_pods), ("ended", 0));
    assert_eq!(ended.proxies[0].grown.sum("request_total", &[]), 7.0);
}

#[test]
fn without_series_the_error_tells_an_unknown_workload_from_missing_monitoring() {
    let missing = measured(|_| vector("")).expect_err("nothing");
    assert!(missing.starts_with("Prometheus at URL reads no target of the job leno-proxy"), "{missing}");
    assert!(missing.contains("leno upgrade --set monitoring.enabled=true"), "{missing}");
    let unknown = measured(|request| match request.contains("query=count%28up") {
        true => vector(r#"{"metric":{},"value":[1,"9"]}"#),
        false => vector(""),
    });
    assert_eq!(
        unknown.expect_err("nothing"),
        "Prometheus at URL knows no workload with a proxy in namespace shop; check the name and the namespace, or leave \
         them out to see all workloads"
    );
}
