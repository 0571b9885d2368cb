use std::path::PathBuf;

use k8s_openapi::api::{apps, batch, core};
use serde::de::DeserializeOwned;

use super::*;

/// Manifests as users write them, with the expected results; UPDATE_GOLDEN=1 writes the results again.
const GOLDEN: [&str; 6] = ["deployment", "statefulset", "job", "cronjob", "pod", "mixed"];

fn inject_text(text: &str) -> Rewritten {
    inject_as(text, None)
}

fn inject_as(text: &str, format: Option<Format>) -> Rewritten {
    let mut namespaces = Namespaces::new("shop");
    namespaces.read(text).expect("it is readable");
    inject_file(text, &namespaces, &options(), format).expect("it is readable")
}

/// Returns the default options, but with a fixed version, so that a release does not change the results.
fn options() -> Options {
    let mut options = Options::default();
    options.proxy.version = "1.2.3".to_owned();
    options
}

fn golden(name: &str) -> String {
    let path = golden_path(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn golden_path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/golden").join(name)
}

#[test]
fn real_manifests_become_what_they_should() {
    for name in GOLDEN {
        let rewritten = inject_text(&golden(&format!("{name}.yaml")));
        let lines = rewritten.reports.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        let report: String = lines.lines().map(|line| format!("# {line}\n")).collect();
        let output = format!("{}{report}", rewritten.text);
        let expected = format!("{name}.injected.yaml");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(golden_path(&expected), &output).expect("it is written");
        }
        assert_eq!(output, golden(&expected), "{name}");
    }
}

#[test]
fn what_comes_out_means_the_same_to_kubernetes_but_for_the_proxy() {
    fn read<T: DeserializeOwned>(value: &Value) {
        serde_json::from_value::<T>(value.clone()).unwrap_or_else(|error| panic!("{error}: {value:#}"));
    }
    for name in GOLDEN {
        let text = inject_text(&golden(&format!("{name}.yaml"))).text;
        for document in yaml::split(&text).expect("it is readable") {
            match document.value["kind"].as_str().unwrap_or_default() {
                "Deployment" => read::<apps::v1::Deployment>(&document.value),
                "StatefulSet" => read::<apps::v1::StatefulSet>(&document.value),
                "DaemonSet" => read::<apps::v1::DaemonSet>(&document.value),
                "Job" => read::<batch::v1::Job>(&document.value),
                "CronJob" => read::<batch::v1::CronJob>(&document.value),
                "Pod" => read::<core::v1::Pod>(&document.value),
                _ => {}
            }
        }
    }
}

#[test]
fn injected_manifests_are_injected_once_and_uninjected_to_what_they_were() {
    for name in GOLDEN {
        let original = golden(&format!("{name}.yaml"));
        let once = inject_text(&original).text;
        assert_eq!(inject_text(&once).text, once, "{name}");
        let back = uninject_file(&once, None).expect("it is readable").text;
        let values = |text: &str| -> Vec<Value> {
            yaml::split(text).expect("it is readable").into_iter().map(|document| document.value).collect()
        };
        assert_eq!(values(&back), values(&original), "{name}");
    }
}

#[test]
fn what_is_not_changed_goes_out_byte_for_byte() {
    let file = "# ours\n---\nkind: Service   # odd   spacing\napiVersion: v1\nspec: {ports: [ {port: 80} ]}\n---\n\n---\na: 0644\n";
    let rewritten = inject_text(file);
    assert_eq!((rewritten.text.as_str(), rewritten.reports.len()), (file, 0));
    assert_eq!(inject_text("").text, "");
}

#[test]
fn json_stays_json_until_it_is_changed_or_asked_otherwise() {
    let service = "{\"kind\": \"Service\", \"apiVersion\": \"v1\"}";
    let pod =
        "{\"kind\": \"Pod\", \"apiVersion\": \"v1\", \"metadata\": {\"name\": \"p\"}, \"spec\": {\"containers\": []}}";
    let both = format!("{service}\n{pod}\n");
    let text = inject_text(&both).text;
    assert!(text.starts_with(&format!("{service}\n---\nkind: Pod\n")), "{text}");
    let text = inject_as(&both, Some(Format::Json)).text;
    let objects: Vec<Value> =
        serde_json::Deserializer::from_str(&text).into_iter().collect::<Result<_, _>>().expect("it is JSON");
    assert_eq!(objects.len(), 2);
    assert_eq!(objects[1]["spec"]["initContainers"][1]["name"], "leno-proxy");
    let text = inject_as(service, Some(Format::Yaml)).text;
    assert_eq!(text, "kind: Service\napiVersion: v1\n");
}

#[test]
fn the_items_of_a_list_are_injected_where_they_are() {
    let list = golden("deployment.yaml").replace('\n', "\n  ");
    let list = format!("apiVersion: v1\nkind: List\nitems:\n- {list}");
    let rewritten = inject_text(list.trim_end());
    let value = yaml::read(&rewritten.text).expect("it is readable");
    assert_eq!(value["items"][0]["spec"]["template"]["spec"]["initContainers"][1]["name"], "leno-proxy");
    assert_eq!(rewritten.reports[0].result, WorkloadResult::Injected);
}

#[test]
fn a_namespace_in_the_file_speaks_for_its_workloads() {
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: shop\n  annotations:\n    leno.dev/inject: disabled\n---\n";
    let rewritten = inject_text(&format!("{namespace}{}", golden("pod.yaml")));
    assert_eq!(rewritten.reports[0].result, WorkloadResult::Skipped(Skipped::DisabledByNamespace));
}

#[test]
fn a_mistake_is_told_in_one_line_and_the_workload_stays_as_it_is() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  annotations: {leno.dev/shutdown-grace: soon}\nspec: {containers: []}\n";
    let rewritten = inject_text(pod);
    let [report] = &rewritten.reports[..] else { panic!("there is one workload") };
    let expected = "Pod p: error: annotation leno.dev/shutdown-grace: \"soon\" does not work; \
                    use a duration, for example 500ms, 30s or 2m, at most 60m";
    assert_eq!(report.to_string(), expected);
    assert!(report.is_failure());
    assert_eq!(rewritten.text, pod);
}

#[test]
fn an_injected_manifest_keeps_its_comments_and_its_line_ends() {
    let pod = "# ours\napiVersion: v1\nkind: Pod\nmetadata:\n  name: p # its name\nspec:\n  containers:\n  - name: app   # it\n    image: app\n";
    for file in [pod.to_owned(), pod.replace('\n', "\r\n")] {
        let text = inject_text(&file).text;
        assert_eq!(
            text.matches('\n').count(),
            if file.contains('\r') { text.matches("\r\n").count() } else { text.lines().count() }
        );
        let mut rest = file.lines().peekable();
        for line in text.lines() {
            let _ = rest.next_if_eq(&line);
        }
        assert!(rest.next().is_none(), "every line is there, in order:\n{text}");
        assert!(text.contains("    name: leno-proxy"), "{text}");
    }
}

#[test]
fn a_tcp_probe_that_changes_in_an_object_that_kubectl_apply_did_not_create_is_told() {
    let deployment = |metadata: &str, probe: &str| {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {metadata}\nspec:\n  template:\n    spec:\n      containers:\n      \
             - name: web\n        livenessProbe:\n          {probe}\n"
        )
    };
    let (live, tcp) = ("{name: web, uid: \"1\", resourceVersion: \"7\"}", "tcpSocket: {port: 80}");
    let applied = "{name: web, uid: \"1\", annotations: {kubectl.kubernetes.io/last-applied-configuration: \"{}\"}}";
    let warnings = |text: &str| inject_text(text).reports.remove(0).warnings;
    assert_eq!(warnings(&deployment(live, tcp)), [BOTH_PROBES]);
    for (metadata, probe) in [("{name: web}", tcp), (applied, tcp), (live, "exec: {command: [ls]}")] {
        assert_eq!(warnings(&deployment(metadata, probe)), [""; 0], "{metadata} {probe}");
    }
    // To restore the probe has the same effect.
    let injected = inject_text(&deployment(live, tcp)).text;
    let back = uninject_file(&injected, None).expect("it is readable");
    assert_eq!(back.reports[0].warnings, [BOTH_PROBES]);
    // The items of a List are objects of their own.
    let list =
        format!("apiVersion: v1\nkind: List\nitems:\n- {}", deployment(live, tcp).trim_end().replace('\n', "\n  "));
    assert_eq!(warnings(&list), [BOTH_PROBES]);
}
