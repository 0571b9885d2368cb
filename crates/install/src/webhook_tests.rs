use serde_json::json;

use super::*;
use crate::patch::{self, Operation};

fn pod() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "web-", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": "web:1"}]},
    })
}

fn create(object: Value) -> AdmissionRequest {
    AdmissionRequest {
        uid: "7".to_owned(),
        namespace: "shop".to_owned(),
        operation: "CREATE".to_owned(),
        object,
        ..AdmissionRequest::default()
    }
}

fn shop(annotations: Value) -> Namespace {
    let Value::Object(annotations) = annotations else { panic!("annotations are an object") };
    Namespace { name: "shop".to_owned(), annotations }
}

fn review(version: &str, kind: &str, rest: &str) -> String {
    format!("{{\"apiVersion\": \"{version}\", \"kind\": \"{kind}\"{rest}}}")
}

fn message(response: &AdmissionResponse) -> &str {
    assert!(!response.allowed);
    &response.status.as_ref().expect("a refusal says why").message
}

#[test]
fn a_pod_of_an_enabled_namespace_gets_a_patch_that_adds_the_proxy() {
    let response = mutate(&create(pod()), &shop(json!({"leno.dev/inject": "enabled"})), &Options::default());
    assert!(response.allowed && response.uid == "7" && response.warnings.is_empty());
    assert_eq!(response.patch_type.as_deref(), Some("JSONPatch"));
    let patch: Vec<Value> = serde_json::from_slice(&response.patch.expect("there is one").0).expect("it is JSON");
    let added: Vec<_> = patch.iter().map(|operation| operation["path"].as_str().expect("a path")).collect();
    assert_eq!(added, ["/spec/initContainers", "/spec/volumes", "/metadata/labels/leno.dev~1injected"]);
    assert!(patch.iter().all(|operation| operation["op"] == "add"));
    let operations = patch.into_iter().map(|operation| Operation::Add {
        path: operation["path"].as_str().expect("a path").to_owned(),
        value: operation["value"].clone(),
    });
    let mut patched = pod();
    patch::apply(&mut patched, &operations.collect::<Vec<_>>()).expect("it fits");
    assert_eq!(patched["spec"]["initContainers"][1]["name"], "leno-proxy");
}

#[test]
fn a_pod_that_nobody_wants_a_proxy_for_is_let_through_in_silence() {
    let response = mutate(&create(pod()), &shop(json!({})), &Options::default());
    assert_eq!(response, AdmissionResponse { uid: "7".to_owned(), allowed: true, ..AdmissionResponse::default() });
}

#[test]
fn a_pod_with_a_wrong_annotation_is_refused_with_the_fix() {
    let mut pod = pod();
    pod["metadata"]["annotations"] = json!({"leno.dev/inject": "enabled", "leno.dev/proxy-workers": "many"});
    let response = mutate(&create(pod), &shop(json!({})), &Options::default());
    let expected = "this Pod cannot get its proxy: annotation leno.dev/proxy-workers: \"many\" does not work; \
                    use 1 to 64";
    assert_eq!(message(&response), expected);
}

#[test]
fn a_pod_on_its_nodes_network_is_let_through_with_a_warning_if_it_asked_itself() {
    let mut pod = pod();
    pod["spec"]["hostNetwork"] = json!(true);
    let quiet = mutate(&create(pod.clone()), &shop(json!({"leno.dev/inject": "enabled"})), &Options::default());
    assert!(quiet.allowed && quiet.patch.is_none() && quiet.warnings.is_empty());
    pod["metadata"]["annotations"] = json!({"leno.dev/inject": "enabled"});
    let response = mutate(&create(pod), &shop(json!({})), &Options::default());
    assert!(response.allowed && response.patch.is_none());
    assert!(response.warnings[0].contains("hostNetwork"), "{:?}", response.warnings);
}

#[test]
fn a_static_pod_of_a_meshed_namespace_is_let_through() {
    let mut pod = pod();
    pod["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "7", "leno.dev/skip-inbound-ports": "22"});
    pod["spec"]["nodeName"] = json!("node-1");
    let namespace_only = vec!["leno.dev/skip-inbound-ports".to_owned()];
    for options in [Options::default(), Options { namespace_only, ..Options::default() }] {
        let response = mutate(&create(pod.clone()), &shop(json!({"leno.dev/inject": "enabled"})), &options);
        assert!(response.allowed && response.patch.is_none() && response.warnings.is_empty(), "{response:?}");
    }
}

#[test]
fn a_policy_is_validated_as_the_mesh_reads_it() {
    let policy = |allow: Value| {
        create(json!({
            "apiVersion": "leno.dev/v1alpha1",
            "kind": "AuthorizationPolicy",
            "metadata": {"name": "cart"},
            "spec": {"allow": allow},
        }))
    };
    assert!(validate(&policy(json!([{"identities": ["ns/shop/sa/web"]}]))).allowed);
    let response = validate(&policy(json!([{"identities": ["web"]}, {}])));
    let said = message(&response);
    assert!(
        said.starts_with("the mesh cannot read it: spec.allow[0].identities[0]: \"web\" is not an identity; "),
        "{said}"
    );
    assert!(said.contains("spec.allow[1]: allows no caller"), "{said}");
    let deleted = AdmissionRequest { operation: "DELETE".to_owned(), ..policy(json!(7)) };
    assert!(validate(&deleted).allowed);
}

#[test]
fn an_object_that_is_being_deleted_is_never_refused() {
    let policy = |metadata: Value| {
        let allow = json!([{"identities": ["web"]}]);
        let object = json!({
            "apiVersion": "leno.dev/v1alpha1", "kind": "AuthorizationPolicy", "metadata": metadata, "spec": {"allow": allow},
        });
        validate(&AdmissionRequest { operation: "UPDATE".to_owned(), ..create(object) })
    };
    assert!(!policy(json!({"name": "cart"})).allowed);
    assert!(!policy(json!({"name": "cart", "deletionTimestamp": null})).allowed);
    assert!(policy(json!({"name": "cart", "deletionTimestamp": "2026-03-01T10:20:00Z"})).allowed);
}

#[test]
fn an_update_that_changes_nothing_that_the_mesh_reads_is_allowed_with_a_warning() {
    let update = |old_object: &Value, object: &Value| {
        let request = AdmissionRequest { old_object: old_object.clone(), ..create(object.clone()) };
        validate(&AdmissionRequest { operation: "UPDATE".to_owned(), ..request })
    };
    let policy = |finalizers: Value, identity: &str| {
        json!({
            "apiVersion": "leno.dev/v1alpha1",
            "kind": "AuthorizationPolicy",
            "metadata": {"name": "cart", "finalizers": finalizers},
            "spec": {"allow": [{"identities": [identity]}]},
        })
    };
    let service = |balancer: &str, other: &str, port: u16| {
        let annotations = json!({"leno.dev/balancer": balancer, "other.org/x": other});
        let metadata = json!({"name": "cart", "annotations": annotations});
        json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [{"port": port}]}})
    };
    for (old, same, changed, field) in [
        (policy(json!(["a.org/b"]), "web"), policy(json!([]), "web"), policy(json!([]), "cart"), "spec.allow[0]"),
        (service("best", "a", 80), service("best", "b", 81), service("fastest", "a", 80), "metadata.annotations"),
    ] {
        let response = update(&old, &same);
        assert!(response.allowed && response.warnings[0].starts_with(field), "{response:?}");
        assert!(message(&update(&old, &changed)).starts_with(&format!("the mesh cannot read it: {field}")));
        assert!(!validate(&create(same)).allowed, "there is no stored object");
    }
    // An update that mends the object, or makes it invalid.
    let valid = service("latency", "a", 80);
    assert_eq!(update(&service("best", "a", 80), &valid).warnings, [""; 0]);
    assert!(!update(&valid, &service("best", "a", 80)).allowed);
}

#[test]
fn a_traffic_policy_is_validated_as_the_mesh_reads_it() {
    let policy = |retry: Value| {
        create(json!({
            "apiVersion": "leno.dev/v1alpha1",
            "kind": "TrafficPolicy",
            "metadata": {"name": "cart"},
            "spec": {"targetRefs": [{"group": "", "kind": "Service", "name": "cart"}], "retry": retry},
        }))
    };
    assert!(validate(&policy(json!({"attempts": 2}))).allowed);
    let response = validate(&policy(json!({"attempts": 0})));
    assert!(message(&response).starts_with("the mesh cannot read it: spec.retry.attempts: "), "{response:?}");
}

#[test]
fn an_answer_names_only_so_many_problems() {
    let networks: Vec<_> = (0..9).map(|_| "nowhere").collect();
    let spec = json!({"allow": [{"networks": networks}]});
    let object = json!({
        "apiVersion": "leno.dev/v1alpha1", "kind": "AuthorizationPolicy", "metadata": {"name": "cart"}, "spec": spec,
    });
    assert!(message(&validate(&create(object))).ends_with(". and 4 more"));
}

#[test]
fn a_review_of_an_api_server_is_read_and_its_answer_is_of_the_same_version() {
    let text = json!({
        "apiVersion": API_VERSION,
        "kind": KIND,
        "request": {"uid": "7", "operation": "CREATE", "namespace": "shop", "object": pod(), "dryRun": false},
    });
    let request = AdmissionReview::read(text.to_string().as_bytes()).expect("fields that are not ours are passed over");
    let answer = AdmissionReview::answer(mutate(&request, &shop(json!({})), &Options::default()));
    let answer = serde_json::to_value(answer).expect("it is JSON");
    assert_eq!(answer, json!({"apiVersion": API_VERSION, "kind": KIND, "response": {"uid": "7", "allowed": true}}));
}

#[test]
fn bytes_that_are_no_review_are_refused_with_what_is_wrong() {
    let refused = |text: &str| AdmissionReview::read(text.as_bytes()).expect_err(text).to_string();
    assert!(refused("{").starts_with("the body is not an AdmissionReview: EOF"));
    assert!(refused("[]").starts_with("the body is not an AdmissionReview: "));
    assert!(refused("{}").contains("apiVersion"));
    assert_eq!(
        refused(&review("admission.k8s.io/v1beta1", KIND, ", \"request\": {}")),
        "the body is \"AdmissionReview\" of \"admission.k8s.io/v1beta1\"; send AdmissionReview of admission.k8s.io/v1"
    );
    assert_eq!(refused(&review(API_VERSION, KIND, "")), "the AdmissionReview has no request; send one");
    let values = |count: usize| {
        let object = format!(", \"request\": {{\"object\": [{}]}}", vec!["0"; count].join(","));
        AdmissionReview::read(review(API_VERSION, KIND, &object).as_bytes())
    };
    assert!(values(VALUES_MAX / 2).is_ok());
    assert!(matches!(values(VALUES_MAX), Err(BadReview::TooManyValues)));
}

#[test]
fn the_namespace_is_found_without_the_object_and_refused_for_the_same_reasons() {
    let object =
        |name: &str| format!(", \"request\": {{\"object\": {{\"spec\": [1, {{}}]}}, \"namespace\": \"{name}\"}}");
    let namespace = AdmissionReview::namespace(review(API_VERSION, KIND, &object("shop")).as_bytes());
    assert_eq!(namespace.expect("a review"), "shop");
    for bytes in [
        String::new(),
        "{}".to_owned(),
        review(API_VERSION, "Pod", &object("shop")),
        review("admission.k8s.io/v1beta1", KIND, &object("shop")),
        review(API_VERSION, KIND, ""),
    ] {
        let (placed, read) = (AdmissionReview::namespace(bytes.as_bytes()), AdmissionReview::read(bytes.as_bytes()));
        let (placed, read) = (placed.expect_err("no review"), read.expect_err("no review"));
        assert_eq!(std::mem::discriminant(&placed), std::mem::discriminant(&read), "{bytes}: {placed}; {read}");
    }
}

#[test]
fn of_a_service_only_our_annotations_count() {
    let service = |value: &str| {
        create(json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "cart", "annotations": {"leno.dev/balancer": value}, "managedFields": [{"manager": "x"}]},
            "spec": {"ports": [{"port": 80}], "fieldOfTheFuture": 1},
            "status": {"loadBalancer": {}},
        }))
    };
    assert!(validate(&service("round-robin")).allowed);
    let response = validate(&service("roundrobin"));
    let said = message(&response);
    assert!(said.contains("leno.dev/balancer") && !said.contains("fieldOfTheFuture"), "{said}");
}

#[test]
fn a_typo_that_keeps_a_pod_out_of_the_mesh_is_a_warning() {
    let mut pod = pod();
    pod["metadata"]["annotations"] = json!({"leno.dev/injct": "enabled"});
    let response = mutate(&create(pod), &shop(json!({})), &Options::default());
    assert!(response.allowed && response.patch.is_none());
    assert!(response.warnings[0].ends_with("did you mean leno.dev/inject?"), "{:?}", response.warnings);
}

#[test]
fn a_namespace_whose_pod_security_refuses_the_proxy_is_told() {
    let warnings = |level: &str, word: &str| {
        let labels = json!({"pod-security.kubernetes.io/enforce": level});
        let metadata = json!({"name": "shop", "labels": labels, "annotations": {"leno.dev/inject": word}});
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
        let response = validate(&AdmissionRequest { namespace: String::new(), ..create(object) });
        assert!(response.allowed);
        response.warnings
    };
    for level in ["baseline", "restricted"] {
        let expected = format!(
            "label pod-security.kubernetes.io/enforce: {level} does not allow leno-init, which needs NET_ADMIN, so no Pod \
             with a proxy can start here; set the label to privileged, or give the Pods no proxy with leno.dev/inject: grpc"
        );
        assert_eq!(warnings(level, "enabled"), [expected]);
        for word in ["disabled", "grpc"] {
            assert_eq!(warnings(level, word), [""; 0], "{word}");
        }
    }
    assert_eq!(warnings("privileged", "enabled"), [""; 0]);
}

#[test]
fn a_namespace_is_never_refused_and_told_what_is_wrong() {
    let namespace = |annotations: Value| {
        let object =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "annotations": annotations}});
        validate(&AdmissionRequest { namespace: String::new(), ..create(object) })
    };
    assert_eq!(namespace(json!({"leno.dev/inject": "enabled", "other.org/x": "y"})).warnings, [""; 0]);
    let response = namespace(json!({"leno.dev/inject": "yes", "leno.dev/injct": "enabled"}));
    assert!(response.allowed);
    assert!(response.warnings[0].contains("leno.dev/inject of the namespace: \"yes\" does not work"), "{response:?}");
    assert!(response.warnings[1].ends_with("did you mean leno.dev/inject?"), "{response:?}");
}
