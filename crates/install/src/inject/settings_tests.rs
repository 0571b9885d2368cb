use serde_json::json;

use super::*;

fn read(namespace: &Value, pod: &Value) -> Result<Settings, Vec<String>> {
    let read = Settings::default().with_annotations(namespace.as_object(), &Value::Null, pod.as_object());
    read.map_err(|mistakes| mistakes.iter().map(ToString::to_string).collect())
}

#[test]
fn a_pods_annotation_comes_before_its_namespaces_and_that_before_the_installations() {
    let namespace = json!({PROXY_LOG_LEVEL: "debug", PROXY_CPU_REQUEST: "1", "other.org/x": "y"});
    let pod = json!({PROXY_LOG_LEVEL: "warn,leno_proxy=trace"});
    let settings = read(&namespace, &pod).expect("all of them work");
    let expected =
        Settings { log_level: "warn,leno_proxy=trace".to_owned(), cpu_request: "1".to_owned(), ..Settings::default() };
    assert_eq!(settings, expected);
}

#[test]
fn every_annotation_takes_what_its_table_gives_as_an_example() {
    let examples = [
        (INJECT, "enabled"),
        (OPAQUE_PORTS, "3306, 9000-9010"),
        (HTTP_PORTS, "8080"),
        (SKIP_INBOUND_PORTS, "22"),
        (SKIP_OUTBOUND_PORTS, "25,1000-2000"),
        (SKIP_SUBNETS, "192.168.0.0/16, fd00::/8"),
        (DEFAULT_INBOUND_POLICY, "deny"),
        (FORWARDED_CLIENT_CERT, "true"),
        (FORWARDED_FOR, "set"),
        (PROXY_IMAGE, "registry.example:5000/mesh/leno-proxy"),
        (PROXY_VERSION, "0.2.0-rc.1"),
        (PROXY_IMAGE_PULL_POLICY, "Never"),
        (PROXY_CPU_REQUEST, "0.5"),
        (PROXY_CPU_LIMIT, "1500m"),
        (PROXY_MEMORY_REQUEST, "20Mi"),
        (PROXY_MEMORY_LIMIT, "1G"),
        (PROXY_WORKERS, "64"),
        (PROXY_LOG_LEVEL, "info,leno_proxy::worker=debug"),
        (PROXY_LOG_FORMAT, "json"),
        (ACCESS_LOG, "apache"),
        (TAP_HEADERS, "allowed"),
        (TRACE_RATIO, "0.25"),
        (TRACE_SLOWER_THAN, "1500ms"),
        (TRACE_FAILED, "true"),
        (SHUTDOWN_GRACE, "60m"),
        (EGRESS_CONNECT_TIMEOUT, "5s"),
        (INBOUND_PORT, "1"),
        (OUTBOUND_PORT, "65535"),
        (ADMIN_PORT, "9191"),
        (TAP_PORT, "9190"),
    ];
    assert_eq!(examples.map(|(name, _)| name), ALL.map(|(name, ..)| name), "each is here, in the table's order");
    let defaults = Settings::default();
    for (name, value) in examples {
        let settings = read(&json!({}), &json!({name: value})).unwrap_or_else(|mistakes| panic!("{mistakes:?}"));
        assert!(name == INJECT || settings != defaults, "{name} sets something");
    }
}

#[test]
fn what_does_not_work_is_told_in_one_line_with_what_would() {
    let pod = json!({PROXY_WORKERS: "0", ADMIN_PORT: "http"});
    let mistakes = read(&json!({INJECT: "yes"}), &pod).expect_err("none of them works");
    let expected = [
        r#"annotation leno.dev/inject of the namespace: "yes" does not work; use enabled, disabled, grpc"#,
        r#"annotation leno.dev/proxy-workers: "0" does not work; use 1 to 64"#,
        r#"annotation leno.dev/proxy-admin-port: "http" does not work; use 1 to 65535"#,
    ];
    assert_eq!(mistakes, expected);
}

#[test]
fn values_that_almost_work_do_not() {
    let wrong = [
        (OPAQUE_PORTS, "3306;25"),
        (FORWARDED_CLIENT_CERT, "yes"),
        (FORWARDED_FOR, "yes"),
        (SKIP_INBOUND_PORTS, "2000-1000"),
        (SKIP_INBOUND_PORTS, ","),
        (SKIP_SUBNETS, "10.0.0.1"),
        (SKIP_SUBNETS, ","),
        (DEFAULT_INBOUND_POLICY, "allow"),
        (PROXY_IMAGE, "leno-proxy:1.0"),
        (PROXY_IMAGE, "a b"),
        (PROXY_VERSION, "-x"),
        (PROXY_IMAGE_PULL_POLICY, "always"),
        (PROXY_CPU_REQUEST, "1x"),
        (PROXY_CPU_LIMIT, "-1"),
        (PROXY_MEMORY_REQUEST, "16MB"),
        (PROXY_MEMORY_LIMIT, "Mi"),
        (PROXY_MEMORY_LIMIT, "128m"),
        (PROXY_MEMORY_LIMIT, "128"),
        (PROXY_MEMORY_LIMIT, "4095Ki"),
        (PROXY_WORKERS, "65"),
        (PROXY_WORKERS, "+1"),
        (PROXY_LOG_LEVEL, "loud"),
        (PROXY_LOG_LEVEL, "=info"),
        (PROXY_LOG_FORMAT, "xml"),
        (ACCESS_LOG, "on"),
        (TRACE_RATIO, "1.5"),
        (TRACE_RATIO, "1e-3"),
        (TRACE_RATIO, "nan"),
        (TRACE_SLOWER_THAN, "0s"),
        (TRACE_SLOWER_THAN, "fast"),
        (TRACE_FAILED, "always"),
        (SHUTDOWN_GRACE, "30"),
        (SHUTDOWN_GRACE, "61m"),
        (SHUTDOWN_GRACE, "s"),
        (EGRESS_CONNECT_TIMEOUT, "9ms"),
        (EGRESS_CONNECT_TIMEOUT, "61s"),
        (EGRESS_CONNECT_TIMEOUT, "5"),
        (INBOUND_PORT, "65536"),
        (OUTBOUND_PORT, ""),
    ];
    for (name, value) in wrong {
        assert!(read(&json!({}), &json!({name: value})).is_err(), "{name}: {value:?}");
    }
    for name in [PROXY_WORKERS, SKIP_INBOUND_PORTS] {
        assert!(read(&json!({}), &json!({name: 2})).is_err(), "annotations are text");
    }
}

#[test]
fn an_empty_list_undoes_the_list_of_the_namespace() {
    let lists = [OPAQUE_PORTS, HTTP_PORTS, SKIP_INBOUND_PORTS, SKIP_OUTBOUND_PORTS];
    let namespace: Map<String, Value> = lists
        .map(|name| (name.to_owned(), json!("22")))
        .into_iter()
        .chain([(SKIP_SUBNETS.to_owned(), json!("10.0.0.0/8"))])
        .collect();
    let pod: Map<String, Value> = namespace.keys().map(|name| (name.clone(), json!(" "))).collect();
    let (namespace, pod) = (Value::Object(namespace), Value::Object(pod));
    assert_ne!(read(&namespace, &json!({})), Ok(Settings::default()));
    assert_eq!(read(&namespace, &pod), Ok(Settings::default()));
}

#[test]
fn an_annotated_request_raises_the_installations_limit_and_an_annotated_limit_lowers_its_request() {
    let installed = Settings { cpu_limit: "50m".to_owned(), ..Settings::default() };
    let annotated = |namespace: Value, pod: Value| {
        let settings = installed.with_annotations(namespace.as_object(), &Value::Null, pod.as_object());
        let settings = settings.expect("they are valid");
        let Settings { cpu_request, cpu_limit, memory_request, memory_limit, .. } = settings;
        ([cpu_request, cpu_limit], [memory_request, memory_limit])
    };
    let cpu = |namespace, pod| annotated(namespace, pod).0;
    let memory = |namespace, pod| annotated(namespace, pod).1;
    assert_eq!(cpu(json!({}), json!({PROXY_CPU_REQUEST: "100m"})), ["100m", "100m"]);
    assert_eq!(cpu(json!({PROXY_CPU_REQUEST: "0.1"}), json!({})), ["0.1", "0.1"]);
    assert_eq!(cpu(json!({}), json!({PROXY_CPU_REQUEST: "0.05"})), ["0.05", "50m"]);
    assert_eq!(cpu(json!({}), json!({PROXY_CPU_LIMIT: "5m"})), ["5m", "5m"]);
    assert_eq!(cpu(json!({}), json!({PROXY_CPU_LIMIT: "1"})), ["10m", "1"]);
    assert_eq!(cpu(json!({PROXY_CPU_LIMIT: "1"}), json!({PROXY_CPU_REQUEST: "500m"})), ["500m", "1"]);
    assert_eq!(memory(json!({}), json!({PROXY_MEMORY_REQUEST: "1G"})), ["1G", "1G"]);
    assert_eq!(memory(json!({}), json!({PROXY_MEMORY_REQUEST: "100M"})), ["100M", "128Mi"]);
    assert_eq!(memory(json!({PROXY_MEMORY_LIMIT: "8Mi"}), json!({})), ["8Mi", "8Mi"]);
    assert_eq!(memory(json!({}), json!({PROXY_MEMORY_LIMIT: "16777216"})), ["16Mi", "16777216"]);
}

#[test]
fn an_annotated_request_above_an_annotated_limit_is_a_mistake() {
    let namespace = json!({PROXY_CPU_REQUEST: "200m", PROXY_MEMORY_LIMIT: "200Mi"});
    let pod = json!({PROXY_CPU_LIMIT: "0.1", PROXY_MEMORY_REQUEST: "256Mi"});
    let expected = [
        "annotation leno.dev/proxy-cpu-request of the namespace: \"200m\" does not work; use at most 0.1, the value of \
         leno.dev/proxy-cpu-limit, or raise leno.dev/proxy-cpu-limit",
        "annotation leno.dev/proxy-memory-request: \"256Mi\" does not work; use at most 200Mi, the value of \
         leno.dev/proxy-memory-limit, or raise leno.dev/proxy-memory-limit",
    ];
    assert_eq!(read(&namespace, &pod).expect_err("they contradict each other"), expected);
    // An invalid value is reported once, and not as a contradiction too.
    let pod = json!({PROXY_MEMORY_REQUEST: "256Mi", PROXY_MEMORY_LIMIT: "64MB"});
    let mistakes = read(&json!({}), &pod).expect_err("the limit is not a quantity");
    assert_eq!(mistakes.len(), 1, "{mistakes:?}");
}

#[test]
fn quantities_are_compared_as_numbers() {
    for (request, limit) in
        [("1", "500m"), ("0.5", "499m"), ("65Mi", "67108864"), ("1Gi", "1G"), ("1001e-3", "1"), ("2e3", "1k")]
    {
        assert!(is_above(request, limit) && !is_above(limit, request), "{request}, {limit}");
    }
    for (one, other) in
        [("64Mi", "67108864"), ("0.5", "500m"), ("0.009", "9m"), ("9e-3", "9m"), ("1e3", "1k"), ("1.07G", "1070M")]
    {
        assert!(!is_above(one, other) && !is_above(other, one), "{one}, {other}");
    }
    assert!(!is_above("", "1") && !is_above("1", ""));
}

#[test]
fn values_have_all_forms_that_kubernetes_and_the_proxy_take() {
    for quantity_of in ["0", "100m", "1.5", "64Mi", "1e3", "2E6", "1E"] {
        assert_eq!(quantity(quantity_of).as_deref(), Some(quantity_of));
    }
    for bad in ["", "-1", "1e", "e3", "1ee3", "Mi"] {
        assert_eq!(quantity(bad), None, "{bad}");
    }
    for limit in ["0", "4Mi", "4194304", "5M"] {
        assert_eq!(memory_limit(limit).as_deref(), Some(limit));
    }
    for levels in ["INFO", "3", "warn,leno_relay=Debug,h2=0"] {
        assert_eq!(log_levels(levels).as_deref(), Some(levels));
    }
    for bad in ["6", "12", "loud", "=info", "info,"] {
        assert_eq!(log_levels(bad), None, "{bad}");
    }
    assert!(tag("1.2@sha256:0123abcd").is_some());
    assert!(tag("1.2@md5:0").is_none() && tag("@sha256:0").is_none());
}

#[test]
fn an_image_is_a_registry_and_a_path_in_lower_case() {
    for valid in ["leno-proxy", "mesh/leno-proxy", "Registry.example:5000/mesh/x_y/leno-proxy", "localhost/leno-proxy"]
    {
        assert_eq!(image(valid).as_deref(), Some(valid));
    }
    for invalid in [
        "",
        "https://registry.example/leno-proxy",
        "registry.example//leno-proxy",
        "registry.example/leno-proxy/",
        "registry.example/Mesh/leno-proxy",
        "registry.example:port/leno-proxy",
        "registry.example/leno-proxy:1.0",
        "leno-proxy:1.0",
    ] {
        assert_eq!(image(invalid), None, "{invalid}");
    }
}
