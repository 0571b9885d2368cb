use serde_json::json;

use super::*;
use crate::inject::{Asked, Decision, Namespace, Outcome, Skipped, inject, uninject};
use crate::patch;

fn template() -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}, "annotations": {INJECT: "grpc"}},
        "spec": {
            "initContainers": [{"name": "migrate", "image": "migrate:1", "env": [{"name": "A", "value": "b"}]}],
            "containers": [{"name": "web", "image": "web:1"}, {"name": "log", "volumeMounts": [{"name": "data"}]}],
            "volumes": [{"name": "data", "emptyDir": {}}],
        },
    })
}

fn shop(word: Option<&str>) -> Namespace {
    let annotations = word.map(|word| (INJECT.to_owned(), json!(word))).into_iter().collect();
    Namespace { name: "shop".to_owned(), annotations }
}

fn decide(template: &Value) -> Decision {
    inject(template, &shop(None), Asked::ByAnnotation, &Options::default()).expect("nothing is wrong")
}

fn patched(template: &Value) -> Value {
    let Outcome::Injected { patch, .. } = decide(template).outcome else { panic!("it was skipped") };
    let mut patched = template.clone();
    patch::apply(&mut patched, &patch).expect("it fits");
    patched
}

fn mistakes(template: &Value) -> Vec<String> {
    let refused = inject(template, &shop(None), Asked::ByAnnotation, &Options::default());
    refused.expect_err("something is wrong").iter().map(ToString::to_string).collect()
}

#[test]
fn the_pod_gets_a_sidecar_and_no_proxy_and_its_programs_get_the_bootstrap() {
    let patched = patched(&template());
    let names: Vec<&Value> =
        patched["spec"]["initContainers"].as_array().expect("a list").iter().map(|c| &c["name"]).collect();
    assert_eq!(names, ["leno-grpc", "migrate"]);
    assert_eq!(patched["metadata"]["labels"]["leno.dev/injected"], "grpc");
    let variables =
        json!([{"name": BOOTSTRAP_VARIABLE, "value": BOOTSTRAP}, {"name": SERVER_NAME_VARIABLE, "value": "true"}]);
    let mount = json!({"name": "leno-grpc", "mountPath": "/var/run/leno/grpc", "readOnly": true});
    assert_eq!(patched["spec"]["containers"][0]["env"], variables);
    assert_eq!(patched["spec"]["containers"][0]["volumeMounts"], json!([mount]));
    assert_eq!(patched["spec"]["containers"][1]["volumeMounts"], json!([{"name": "data"}, mount]));
    assert_eq!(patched["spec"]["initContainers"][1]["env"][0]["name"], "A");
    assert_eq!(patched["spec"]["initContainers"][1]["env"][1]["name"], BOOTSTRAP_VARIABLE);
    assert_eq!(patched["spec"]["volumes"][2]["emptyDir"], json!({"medium": "Memory", "sizeLimit": "4Mi"}));
}

#[test]
fn a_profile_of_the_program_does_not_confine_the_sidecar() {
    let mut template = template();
    template["spec"]["securityContext"] = json!({"appArmorProfile": {"type": "Localhost", "localhostProfile": "web"}});
    let sidecar = patched(&template)["spec"]["initContainers"][0].clone();
    assert_eq!(sidecar["securityContext"]["appArmorProfile"], json!({"type": "RuntimeDefault"}));
}

#[test]
fn the_sidecar_has_no_capability_and_the_program_waits_for_its_files() {
    let sidecar = patched(&template())["spec"]["initContainers"][0].clone();
    let context = &sidecar["securityContext"];
    assert_eq!(context["capabilities"], json!({"drop": ["ALL"]}));
    assert_eq!((&context["runAsNonRoot"], &context["readOnlyRootFilesystem"]), (&json!(true), &json!(true)));
    assert_eq!(context["seccompProfile"], json!({"type": "RuntimeDefault"}));
    assert_eq!(sidecar["restartPolicy"], "Always");
    let hook = &sidecar["lifecycle"]["postStart"]["exec"]["command"];
    assert_eq!(hook, &json!(["/leno-proxy", "await-ready", "--admin=127.0.0.1:4191"]));
    let args = sidecar["args"].as_array().expect("a list");
    assert_eq!(args[0], "grpc");
    for arg in ["--node=$(POD_NAMESPACE)/$(POD_NAME)", "--identity=ns/$(POD_NAMESPACE)/sa/$(SERVICE_ACCOUNT)"] {
        assert!(args.contains(&json!(arg)), "{args:?}");
    }
}

#[test]
fn what_is_injected_is_the_same_the_second_time_and_goes_without_a_trace() {
    for with in [json!({}), json!({"env": [{"name": SERVER_NAME_VARIABLE, "value": "true"}]})] {
        let mut template = template();
        for (key, value) in with.as_object().expect("an object") {
            template["spec"]["containers"][0][key] = value.clone();
        }
        let mut changed = patched(&template);
        let again = inject(&changed, &shop(None), Asked::ByName, &Options::default()).expect("nothing is wrong");
        assert_eq!(again.outcome, Outcome::Skipped(Skipped::Unchanged));
        let removal = uninject(&changed);
        patch::apply(&mut changed, &removal).expect("it fits");
        assert_eq!(changed, template);
    }
}

#[test]
fn a_pod_changes_from_one_kind_to_the_other() {
    let grpc = patched(&template());
    let mut proxied = grpc.clone();
    proxied["metadata"]["annotations"][INJECT] = json!("enabled");
    for asked in [Asked::ByName, Asked::ByAnnotation] {
        let decision = inject(&proxied, &shop(None), asked, &Options::default()).expect("nothing is wrong");
        let Outcome::Injected { patch, replaced: true } = decision.outcome else { panic!("{:?}", decision.outcome) };
        let mut changed = proxied.clone();
        patch::apply(&mut changed, &patch).expect("it fits");
        let text = changed.to_string();
        assert!(
            text.contains("leno-init") && !text.contains("leno-grpc") && !text.contains(BOOTSTRAP_VARIABLE),
            "{text}"
        );
        // Change the Pod back, from a proxy to the sidecar for gRPC.
        changed["metadata"]["annotations"][INJECT] = json!("grpc");
        let decision = inject(&changed, &shop(None), Asked::ByName, &Options::default()).expect("nothing is wrong");
        let Outcome::Injected { patch, replaced: true } = decision.outcome else { panic!("{:?}", decision.outcome) };
        patch::apply(&mut changed, &patch).expect("it fits");
        assert_eq!(changed, grpc);
    }
}

#[test]
fn a_namespace_can_ask_and_a_pod_can_prefer_a_proxy() {
    let mut template = template();
    template["metadata"]["annotations"] = json!({});
    let decide = |template: &Value| {
        let decision = inject(template, &shop(Some("grpc")), Asked::ByAnnotation, &Options::default());
        match decision.expect("nothing is wrong").outcome {
            Outcome::Injected { patch, .. } => serde_json::to_string(&patch).expect("JSON"),
            Outcome::Skipped(reason) => panic!("{reason}"),
        }
    };
    assert!(!decide(&template).contains("leno-init"));
    template["metadata"]["annotations"] = json!({INJECT: "enabled"});
    assert!(decide(&template).contains("leno-init"));
}

#[test]
fn where_only_the_namespace_decides_a_pod_cannot_leave_its_proxy() {
    let options = Options { namespace_only: vec![INJECT.to_owned()], ..Options::default() };
    let refused =
        inject(&template(), &shop(Some("enabled")), Asked::ByAnnotation, &options).expect_err("it is reserved");
    assert!(refused[0].to_string().contains("only a namespace may have it"), "{refused:?}");
}

#[test]
fn what_the_program_sets_itself_is_refused_with_the_remedy() {
    let with = |field: &str, value: Value| {
        let mut template = template();
        template["spec"]["containers"][0][field] = value;
        mistakes(&template)
    };
    for name in [BOOTSTRAP_VARIABLE, INLINE_VARIABLE] {
        let [line] = &with("env", json!([{"name": name, "value": "/etc/other.json"}]))[..] else { panic!("{name}") };
        assert!(line.starts_with(&format!("container web sets {name}, and leno.dev/inject: grpc sets")), "{line}");
    }
    let [line] = &with("volumeMounts", json!([{"name": "own", "mountPath": "/var/run/leno/grpc/"}]))[..] else {
        panic!()
    };
    assert!(line.starts_with("container web mounts a volume at /var/run/leno/grpc; mount it elsewhere"), "{line}");
    let [line] = &with("ports", json!([{"containerPort": 4191}]))[..] else { panic!() };
    assert!(line.contains("leno.dev/proxy-admin-port"), "{line}");
}

#[test]
fn the_author_of_a_pod_that_asks_its_nodes_dns_servers_is_warned() {
    let mut template = template();
    template["spec"]["dnsPolicy"] = json!("Default");
    let [line] = &decide(&template).warnings[..] else { panic!() };
    assert!(line.starts_with("with dnsPolicy: Default, leno-grpc asks the node's DNS servers"), "{line}");
}

#[test]
fn the_author_learns_that_no_policy_protects_the_ports_and_which_annotations_are_idle() {
    assert_eq!(decide(&template()).warnings, [""; 0]);
    let mut template = template();
    template["metadata"]["annotations"]["leno.dev/default-inbound-policy"] = json!("deny");
    template["metadata"]["annotations"]["leno.dev/proxy-log-level"] = json!("debug");
    template["spec"]["containers"][0]["ports"] =
        json!([{"containerPort": 50051}, {"containerPort": 53, "protocol": "UDP"}]);
    assert_eq!(
        decide(&template).warnings,
        [
            "annotation leno.dev/default-inbound-policy: it has no effect with leno.dev/inject: grpc, since the Pod has no proxy",
            "annotation leno.dev/inject: grpc: the Pod has no proxy, so no AuthorizationPolicy protects its ports 50051",
        ]
    );
}
