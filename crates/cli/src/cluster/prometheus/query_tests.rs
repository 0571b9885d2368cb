use super::*;

const WANTED: Wanted = Wanted {
    labels: &["direction"],
    only: &[r#"direction="inbound""#],
    metrics: &[
        Metric::counter("calls_total", &["tls"]),
        Metric::gauge("open", &[]).only(&[r#"peer="src""#]),
        Metric::setting("ratio", &[]),
    ],
};
const HOUR: Duration = Duration::from_secs(3_600);

fn groups(selection: &str, namespace: Option<&str>) -> Groups {
    Groups::of(&selection.parse().expect("a selection"), namespace)
}

#[test]
fn prometheus_adds_up_every_label_that_no_table_reads() {
    let web = groups("deploy/web", Some("shop"));
    let chosen = r#"job="leno-proxy",namespace!="",workload!="",namespace="shop",workload="web""#;
    let [counter, gauge, setting] = WANTED.metrics else { panic!("three metrics") };
    assert_eq!(
        web.query(&WANTED, counter, HOUR),
        format!(
            r#"sum by (namespace, workload, direction, tls) (increase(calls_total{{{chosen},direction="inbound"}}[1h]))"#
        )
    );
    assert_eq!(
        web.query(&WANTED, gauge, HOUR),
        format!(r#"sum by (namespace, workload, direction) (open{{{chosen},direction="inbound",peer="src"}})"#)
    );
    assert_eq!(
        web.query(&WANTED, setting, HOUR),
        format!(r#"max by (namespace, workload, direction) (ratio{{{chosen},direction="inbound"}})"#)
    );
    assert_eq!(web.count(), format!("count by (namespace, workload) (up{{{chosen}}})"));
}

#[test]
fn pods_and_namespaces_have_labels_of_their_own() {
    assert_eq!(
        groups("pods", None).count(),
        r#"count by (namespace, pod) (up{job="leno-proxy",namespace!="",pod!=""})"#
    );
    assert_eq!(
        groups("ns/shop", None).count(),
        r#"count by (namespace) (up{job="leno-proxy",namespace!="",namespace!="",namespace="shop"})"#
    );
    let labels = [("namespace".to_owned(), "shop".to_owned()), ("pod".to_owned(), "web-1".to_owned())];
    assert_eq!(groups("pods", None).key(&labels), ("shop".to_owned(), "web-1".to_owned()));
    assert_eq!(groups("ns", None).key(&labels), ("shop".to_owned(), "shop".to_owned()));
}

#[test]
fn a_name_cannot_end_its_matcher() {
    let odd = groups("deploy/a\"} or vector(1) #\\\n", None).count();
    assert!(odd.ends_with(r#"workload="a\"} or vector(1) #\\\n"})"#), "{odd}");
}
