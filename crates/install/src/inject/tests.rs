use serde_json::json;

use super::*;
use crate::annotations::INJECT;
use crate::patch;
use crate::patch::apply;

fn template() -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {
            "initContainers": [{"name": "migrate", "image": "migrate:1"}],
            "containers": [{"name": "web", "image": "web:1", "ports": [{"containerPort": 8080}]}],
            "volumes": [{"name": "data", "emptyDir": {}}],
        },
    })
}

fn shop() -> Namespace {
    Namespace { name: "shop".to_owned(), annotations: Map::new() }
}

fn by_name(template: &Value) -> Result<Decision, Vec<Mistake>> {
    inject(template, &shop(), Asked::ByName, &Options::default())
}

fn skipped(template: &Value, namespace: &Namespace, asked: Asked) -> Skipped {
    match inject(template, namespace, asked, &Options::default()).expect("nothing is wrong").outcome {
        Outcome::Skipped(reason) => reason,
        Outcome::Injected { .. } => panic!("it was injected"),
    }
}

fn patched(template: &Value) -> Value {
    let Outcome::Injected { patch, .. } = by_name(template).expect("nothing is wrong").outcome else {
        panic!("it was skipped")
    };
    let mut patched = template.clone();
    patch::apply(&mut patched, &patch).expect("it fits");
    patched
}

fn names<'a>(template: &'a Value, list: &str) -> Vec<&'a str> {
    let items = template["spec"][list].as_array().expect("it is a list");
    items.iter().map(|item| item["name"].as_str().expect("it has a name")).collect()
}

fn annotated(annotations: Value) -> Value {
    let mut template = template();
    template["metadata"]["annotations"] = annotations;
    template
}

fn mistake(template: &Value) -> String {
    let mistakes = by_name(template).expect_err("something is wrong");
    assert_eq!(mistakes.len(), 1, "{mistakes:?}");
    mistakes[0].to_string()
}

#[test]
fn redirection_comes_first_then_the_proxy_then_the_applications_own() {
    let patched = patched(&template());
    assert_eq!(names(&patched, "initContainers"), ["leno-init", "leno-proxy", "migrate"]);
    assert_eq!(names(&patched, "volumes"), ["data", "leno-identity"]);
    assert_eq!(patched["metadata"]["labels"], json!({"app": "web", "leno.dev/injected": "true"}));
    assert_eq!(patched["spec"]["containers"], template()["spec"]["containers"]);
}

#[test]
fn the_proxy_is_a_native_sidecar_that_the_application_waits_for() {
    let proxy = &patched(&template())["spec"]["initContainers"][1];
    assert_eq!(proxy["restartPolicy"], "Always");
    let hook = &proxy["lifecycle"]["postStart"]["exec"]["command"];
    assert_eq!(hook, &json!(["/leno-proxy", "await-ready", "--admin=127.0.0.1:4191"]));
    assert_eq!(proxy["readinessProbe"]["httpGet"]["path"], "/ready");
    assert_eq!(proxy["livenessProbe"]["httpGet"]["path"], "/live");
}

#[test]
fn neither_container_can_do_more_than_it_must() {
    let patched = patched(&template());
    let [init, proxy] = [0, 1].map(|index| &patched["spec"]["initContainers"][index]["securityContext"]);
    for context in [init, proxy] {
        assert_eq!(context["allowPrivilegeEscalation"], false);
        assert_eq!(context["readOnlyRootFilesystem"], true);
        assert_eq!(context["seccompProfile"], json!({"type": "RuntimeDefault"}));
        assert_eq!(context["capabilities"]["drop"], json!(["ALL"]));
    }
    assert_eq!(init["capabilities"]["add"], json!(["NET_ADMIN"]));
    assert_eq!(proxy["capabilities"]["add"], Value::Null);
    assert_eq!((&proxy["runAsNonRoot"], &proxy["runAsUser"]), (&json!(true), &json!(2102)));
}

#[test]
fn the_proxy_proves_its_identity_with_a_token_for_the_mesh_alone() {
    let patched = patched(&template());
    let sources = &patched["spec"]["volumes"][1]["projected"]["sources"];
    assert_eq!(sources[0]["serviceAccountToken"]["audience"], "leno.dev");
    assert_eq!(sources[1]["configMap"]["name"], "leno-trust-bundle");
    let proxy = &patched["spec"]["initContainers"][1];
    assert_eq!(proxy["volumeMounts"][0]["mountPath"], "/var/run/secrets/leno.dev");
    let args = proxy["args"].as_array().expect("they are a list");
    for arg in ["--token=/var/run/secrets/leno.dev/token", "--identity=ns/$(POD_NAMESPACE)/sa/$(SERVICE_ACCOUNT)"] {
        assert!(args.contains(&json!(arg)), "{args:?}");
    }
}

#[test]
fn a_dual_stack_pods_proxy_listens_wherever_connections_are_redirected() {
    let patched = patched(&template());
    let args = patched["spec"]["initContainers"][1]["args"].as_array().expect("they are a list");
    let listeners =
        ["--inbound=[::]:4143", "--outbound=127.0.0.1:4140", "--outbound=[::1]:4140", "--tunnel=[::]:15008"];
    for arg in listeners {
        assert!(args.contains(&json!(arg)), "no {arg} in {args:?}");
    }
}

#[test]
fn annotations_change_what_the_containers_are_told() {
    let template = annotated(json!({
        "leno.dev/skip-outbound-ports": "25, 3306",
        "leno.dev/proxy-admin-port": "9191",
        "leno.dev/proxy-memory-limit": "64Mi",
        "leno.dev/proxy-version": "0.9",
        "leno.dev/access-log": "json",
        "leno.dev/tap-headers": "allowed",
        "leno.dev/egress-connect-timeout": "5s",
        "leno.dev/forwarded-client-cert": "true",
        "leno.dev/forwarded-for": "append",
    }));
    let patched = patched(&template);
    let [init, proxy] = [0, 1].map(|index| &patched["spec"]["initContainers"][index]);
    let has = |container: &Value, arg: &str| container["args"].as_array().expect("a list").contains(&json!(arg));
    assert!(has(init, "--skip-outbound-ports=25,3306") && has(init, "--admin-port=9191"), "{init}");
    assert!(has(proxy, "--admin=[::]:9191") && has(proxy, "--access-log=json"), "{proxy}");
    assert!(has(proxy, "--forwarded-client-cert") && has(proxy, "--forwarded-for=append"), "{proxy}");
    assert!(has(proxy, "--egress-connect-timeout=5s") && has(proxy, "--tap-headers"), "{proxy}");
    assert_eq!(proxy["lifecycle"]["postStart"]["exec"]["command"][2], "--admin=127.0.0.1:9191");
    assert_eq!(proxy["resources"]["limits"], json!({"memory": "64Mi"}));
    assert_eq!((&init["image"], &proxy["image"]), (&json!("leno-proxy:0.9"), &json!("leno-proxy:0.9")));
}

#[test]
fn where_a_pod_has_resources_as_a_whole_its_containers_get_none_of_these_unless_an_annotation_says_so() {
    let resources = |whole: Value, annotations: Value| {
        let mut template = annotated(annotations);
        template["spec"]["resources"] = whole;
        let patched = patched(&template);
        let [init, proxy] = [0, 1].map(|index| patched["spec"]["initContainers"][index]["resources"].clone());
        assert_eq!(init, proxy);
        proxy
    };
    let usual = json!({"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "128Mi"}});
    assert_eq!(resources(json!({}), json!({})), usual);
    let of_memory = json!({"requests": {"memory": "16Mi"}, "limits": {"memory": "128Mi"}});
    assert_eq!(resources(json!({"requests": {"cpu": "1"}}), json!({})), of_memory);
    assert_eq!(resources(json!({"limits": {"memory": "64Mi"}}), json!({})), json!({"requests": {"cpu": "10m"}}));
    let whole = json!({"requests": {"cpu": "1"}, "limits": {"cpu": "1", "memory": "64Mi"}});
    assert_eq!(resources(whole.clone(), json!({})), json!({}));
    let own = json!({"leno.dev/proxy-memory-request": "32Mi"});
    assert_eq!(resources(whole, own), json!({"requests": {"memory": "32Mi"}}));
}

#[test]
fn the_annotations_of_a_namespace_give_the_proxy_no_resources_beside_those_of_a_pod_as_a_whole() {
    let namespace =
        Namespace { annotations: Map::from_iter([("leno.dev/proxy-cpu-limit".to_owned(), json!("1"))]), ..shop() };
    let resources = |whole: Value| {
        let mut template = template();
        template["spec"]["resources"] = whole;
        let decision = inject(&template, &namespace, Asked::ByName, &Options::default()).expect("nothing is wrong");
        let Outcome::Injected { patch, .. } = decision.outcome else { panic!("it was skipped") };
        patch::apply(&mut template, &patch).expect("it fits");
        template["spec"]["initContainers"][1]["resources"].clone()
    };
    let memory = json!({"requests": {"memory": "16Mi"}, "limits": {"memory": "128Mi"}});
    assert_eq!(resources(json!({"limits": {"cpu": "500m"}})), memory);
    assert_eq!(resources(json!({}))["limits"], json!({"cpu": "1", "memory": "128Mi"}));
    let mut template = annotated(json!({"leno.dev/proxy-workers": "0"}));
    template["spec"]["resources"] = json!({"limits": {"cpu": "500m"}});
    let annotations = Map::from_iter([("leno.dev/proxy-cpu-limit".to_owned(), json!("fast"))]);
    let of_both = Namespace { annotations, ..shop() };
    let mistakes = inject(&template, &of_both, Asked::ByName, &Options::default()).expect_err("both are wrong");
    assert_eq!(mistakes.len(), 2, "{mistakes:?}");
}

#[test]
fn a_profile_of_the_application_does_not_confine_our_containers() {
    let profiles = |profile: Value| {
        let mut template = template();
        template["spec"]["securityContext"] = json!({ "appArmorProfile": profile });
        let patched = patched(&template);
        [0, 1].map(|index| patched["spec"]["initContainers"][index]["securityContext"]["appArmorProfile"].clone())
    };
    let default = json!({"type": "RuntimeDefault"});
    assert_eq!(profiles(json!({"type": "Localhost", "localhostProfile": "web"})), [default.clone(), default]);
    for profile in [json!({"type": "RuntimeDefault"}), json!({"type": "Unconfined"}), Value::Null] {
        assert_eq!(profiles(profile), [Value::Null, Value::Null]);
    }
}

#[test]
fn the_author_of_a_pod_with_an_selinux_type_is_warned() {
    let warnings = |context: Value| {
        let mut template = template();
        template["spec"]["securityContext"] = context;
        by_name(&template).expect("no mistake").warnings
    };
    let found = warnings(json!({"seLinuxOptions": {"type": "web_t"}}));
    assert!(found.len() == 1 && found[0].starts_with("the Pod's seLinuxOptions.type \"web_t\" applies"), "{found:?}");
    assert_eq!(warnings(json!({"seLinuxOptions": {"level": "s0:c123,c456"}})), [""; 0]);
}

#[test]
fn the_author_of_a_pod_that_seems_to_run_on_windows_is_warned() {
    let warnings = |spec: &[(&str, Value)]| {
        let mut template = template();
        for (field, value) in spec {
            template["spec"][*field] = value.clone();
        }
        by_name(&template).expect("no mistake").warnings
    };
    let affinity = |terms: Value| {
        let required = json!({ "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms } });
        ("affinity", json!({ "nodeAffinity": required }))
    };
    let term = |os: &str| json!({"matchExpressions": [{"key": "kubernetes.io/os", "operator": "In", "values": [os]}]});
    let windows = || affinity(json!([term("windows")]));
    let found = warnings(&[windows()]);
    assert!(found.len() == 1 && found[0].starts_with("the required nodeAffinity suggests"), "{found:?}");
    let options = ("securityContext", json!({"windowsOptions": {"runAsUserName": "ContainerUser"}}));
    let found = warnings(&[options]);
    assert!(found.len() == 1 && found[0].starts_with("windowsOptions suggests"), "{found:?}");
    assert_eq!(warnings(&[affinity(json!([term("windows"), term("linux")]))]), [""; 0]);
    assert_eq!(warnings(&[windows(), ("os", json!({"name": "linux"}))]), [""; 0]);
}

#[test]
fn proxies_trace_calls_if_there_is_a_collector() {
    let mut template = annotated(json!({"leno.dev/trace-ratio": "0.5", "leno.dev/trace-failed": "true"}));
    template["metadata"]["labels"] = json!({"app": "old-name", "app.kubernetes.io/name": "cart"});
    let traces = |options: &Options| -> Vec<String> {
        let decision = inject(&template, &shop(), Asked::ByName, options).expect("no mistakes");
        let Outcome::Injected { patch, .. } = decision.outcome else { panic!("{decision:?}") };
        let mut patched = template.clone();
        apply(&mut patched, &patch).expect("it fits");
        let args = patched["spec"]["initContainers"][1]["args"].as_array().expect("a list").clone();
        args.iter().filter_map(Value::as_str).filter(|arg| arg.starts_with("--trace-")).map(str::to_owned).collect()
    };
    assert!(traces(&Options::default()).is_empty());
    let proxy = Settings { trace_collector: "otel-collector.observability:4317".to_owned(), ..Settings::default() };
    assert_eq!(
        traces(&Options { proxy, ..Options::default() }),
        [
            "--trace-collector=otel-collector.observability:4317",
            "--trace-ratio=0.5",
            "--trace-failed",
            "--trace-service=cart",
            "--trace-attribute=k8s.namespace.name=$(POD_NAMESPACE)",
            "--trace-attribute=k8s.pod.name=$(POD_NAME)",
            "--trace-attribute=k8s.node.name=$(NODE_NAME)",
        ]
    );
}

#[test]
fn what_is_injected_already_is_left_alone() {
    let once = patched(&template());
    assert_eq!(skipped(&once, &shop(), Asked::ByName), Skipped::Unchanged);
}

#[test]
fn another_proxy_of_ours_is_replaced_for_a_person_and_kept_for_the_cluster() {
    let mut old = patched(&template());
    old["spec"]["initContainers"][1]["image"] = json!("leno-proxy:0.0.1");
    old["spec"]["initContainers"].as_array_mut().expect("a list").rotate_left(1);
    assert_eq!(patched(&old), patched(&template()));
    let asking = Namespace { annotations: Map::from_iter([(INJECT.to_owned(), json!("enabled"))]), ..shop() };
    assert_eq!(skipped(&old, &asking, Asked::ByAnnotation), Skipped::HasProxy);
}

#[test]
fn the_nodes_network_and_other_systems_and_meshes_are_left_alone() {
    let with = |path: &str, value: Value| {
        let mut template = template();
        template["spec"][path] = value;
        skipped(&template, &shop(), Asked::ByName)
    };
    assert_eq!(with("hostNetwork", json!(true)), Skipped::HostNetwork);
    assert_eq!(with("os", json!({"name": "windows"})), Skipped::Windows);
    assert_eq!(with("nodeSelector", json!({"kubernetes.io/os": "windows"})), Skipped::Windows);
    let linkerd = with("initContainers", json!([{"name": "linkerd-proxy"}]));
    assert_eq!(linkerd, Skipped::OtherMesh("linkerd-proxy".to_owned()));
}

#[test]
fn the_clusters_own_namespaces_and_the_meshs_are_never_touched() {
    for name in ["kube-system", "kube-public", "kube-node-lease", "leno"] {
        let namespace = Namespace { name: name.to_owned(), annotations: Map::new() };
        let asking = annotated(json!({INJECT: "enabled"}));
        for asked in [Asked::ByName, Asked::ByAnnotation] {
            assert_eq!(skipped(&asking, &namespace, asked), Skipped::SystemNamespace(name.to_owned()));
        }
    }
}

#[test]
fn the_pods_word_comes_before_its_namespaces() {
    let namespace =
        |word: &str| Namespace { annotations: Map::from_iter([(INJECT.to_owned(), json!(word))]), ..shop() };
    let bare = template();
    let asks = annotated(json!({INJECT: "enabled"}));
    let declines = annotated(json!({INJECT: "disabled"}));
    for asked in [Asked::ByName, Asked::ByAnnotation] {
        assert_eq!(skipped(&declines, &namespace("enabled"), asked), Skipped::DisabledByPod);
        assert_eq!(skipped(&bare, &namespace("disabled"), asked), Skipped::DisabledByNamespace);
        let decision = inject(&asks, &namespace("disabled"), asked, &Options::default()).expect("nothing is wrong");
        assert!(matches!(decision.outcome, Outcome::Injected { .. }));
    }
    assert_eq!(skipped(&bare, &shop(), Asked::ByAnnotation), Skipped::NotAsked);
}

#[test]
fn a_container_on_a_port_of_the_proxys_is_a_mistake_unless_the_proxy_moves() {
    let mut template = annotated(json!({}));
    template["spec"]["containers"][0]["ports"] =
        json!([{"containerPort": 4191, "protocol": "UDP"}, {"containerPort": 4191}]);
    let expected = "container web listens on 4191, a port of the proxy's; \
                    give the proxy another port with the annotation leno.dev/proxy-admin-port";
    assert_eq!(mistake(&template), expected);
    template["metadata"]["annotations"] = json!({"leno.dev/proxy-admin-port": "9191"});
    assert!(by_name(&template).is_ok());
    template["metadata"]["annotations"] = json!({"leno.dev/proxy-admin-port": "4140"});
    template["spec"]["containers"][0]["ports"] = json!([]);
    assert!(mistake(&template).contains("leno.dev/proxy-admin-port: \"4140\""), "{}", mistake(&template));
}

#[test]
fn a_container_that_runs_as_the_proxys_user_is_a_mistake() {
    let mut template = template();
    template["spec"]["securityContext"] = json!({"runAsUser": 2102});
    template["spec"]["initContainers"][0]["securityContext"] = json!({"runAsUser": 1000});
    assert!(mistake(&template).starts_with("container web runs as user 2102"), "{}", mistake(&template));
}

#[test]
fn the_author_of_a_pod_that_asks_other_dns_servers_than_the_clusters_is_warned() {
    let warnings = |policy: &str| {
        let mut template = template();
        template["spec"]["dnsPolicy"] = json!(policy);
        by_name(&template).expect("no mistake").warnings
    };
    let expected = "with dnsPolicy: Default, leno-proxy asks the node's DNS servers; if they do not know the cluster's Services, the \
                    Pod never starts; use dnsPolicy: ClusterFirst";
    assert_eq!(warnings("Default"), [expected]);
    let expected = "with dnsPolicy: None, leno-proxy asks the DNS servers in dnsConfig; if they do not know the cluster's Services, the \
                    Pod never starts; use dnsPolicy: ClusterFirst";
    assert_eq!(warnings("None"), [expected]);
    for policy in ["ClusterFirst", "ClusterFirstWithHostNet"] {
        assert_eq!(warnings(policy), [""; 0], "{policy}");
    }
}

#[test]
fn an_annotation_that_nothing_reads_is_told_and_does_no_harm() {
    let template = annotated(json!({"leno.dev/proxy-log-levle": "debug"}));
    let decision = by_name(&template).expect("nothing is wrong");
    let expected = "annotation leno.dev/proxy-log-levle: there is no such annotation of Pods; \
                    did you mean leno.dev/proxy-log-level?";
    assert_eq!(decision.warnings, [expected]);
}

/// Returns whether `large` contains everything in `small`. The items of a list in `small` must appear in `large` in the
/// same order, but need not be adjacent.
fn holds(large: &Value, small: &Value) -> bool {
    match (large, small) {
        (Value::Object(large), Value::Object(small)) => {
            small.iter().all(|(key, value)| large.get(key).is_some_and(|other| holds(other, value)))
        }
        (Value::Array(large), Value::Array(small)) => {
            let mut rest = large.iter();
            small.iter().all(|item| rest.any(|other| holds(other, item)))
        }
        (large, small) => large == small,
    }
}

#[test]
fn whatever_a_template_holds_it_keeps_and_gets_back() {
    let seed = leno_testing::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..300 {
        let template = any_template(&mut random);
        let injected = patched(&template);
        assert!(holds(&injected, &template), "seed {seed}: {template:#}\n{injected:#}");
        assert_eq!(names(&injected, "initContainers")[..2], ["leno-init", "leno-proxy"], "seed {seed}");
        assert_eq!(skipped(&injected, &shop(), Asked::ByName), Skipped::Unchanged, "seed {seed}");
        let mut back = injected;
        let removal = uninject(&back);
        patch::apply(&mut back, &removal).expect("it fits");
        assert_eq!(back, template, "seed {seed}");
        assert_eq!(uninject(&back), [], "seed {seed}");
    }
}

/// Makes a random Pod template. Each field that injection changes is present or absent at random. Some fields are
/// unknown to Kubernetes.
fn any_template(random: &mut fastrand::Rng) -> Value {
    let some = |random: &mut fastrand::Rng, prefix: &str| -> Value {
        (0..random.usize(1..4)).map(|n| json!({"name": format!("{prefix}{n}"), "future": random.u8(..)})).collect()
    };
    let mut template = json!({"spec": {"containers": some(random, "c"), "newField": {"deep": [random.u8(..)]}}});
    if random.bool() {
        template["spec"]["initContainers"] = some(random, "i");
    }
    if random.bool() {
        template["spec"]["volumes"] = some(random, "v");
    }
    if random.bool() {
        template["metadata"] = json!({"creationTimestamp": null});
    }
    if random.bool() {
        template["metadata"]["labels"] = json!({"app": "web", "a/b~c": "d"});
    }
    if random.bool() {
        template["metadata"]["annotations"] = json!({"other.org/x": "y"});
    }
    template
}
