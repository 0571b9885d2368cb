use gateway_api::experimental::xbackendtrafficpolicies::XBackendTrafficPolicy;
use gateway_api::grpcroutes::GrpcRoute;
use gateway_api::httproutes::HttpRoute;
use gateway_api::referencegrants::ReferenceGrant;
use gateway_api::tlsroutes::TlsRoute;
use k8s_openapi::api::core::v1::Service;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::super::read_object;
use crate::fixtures::lines;
use crate::object::Object;

/// Reads `object` after a check that Kubernetes' own type has all of its fields.
fn read_as<T: Serialize + DeserializeOwned>(object: &Value) -> Object {
    let typed: T = serde_json::from_value(object.clone()).expect("what Kubernetes stores");
    let value = serde_json::to_value(&typed).expect("JSON");
    assert_eq!(&value, object);
    read_object(value).map_err(|refused| lines(&refused.problems)).expect("no mistake").objects.remove(0)
}

/// Checks that our type lacks or misspells no field of Kubernetes' own type.
#[test]
fn http_routes_have_the_fields_that_kubernetes_knows() {
    let reference = json!({"group": "", "kind": "Service", "namespace": "shop", "name": "cart", "port": 80});
    let headers = json!({"set": [{"name": "a", "value": "b"}], "add": [{"name": "c", "value": "d"}], "remove": ["e"]});
    let path = json!({"type": "ReplacePrefixMatch", "replacePrefixMatch": "/b"});
    let filters = json!([
        {"type": "RequestHeaderModifier", "requestHeaderModifier": headers},
        {"type": "ResponseHeaderModifier", "responseHeaderModifier": headers},
        {"type": "RequestMirror", "requestMirror": {"backendRef": reference, "percent": 5}},
        {"type": "RequestMirror", "requestMirror": {"backendRef": reference, "fraction": {"numerator": 1, "denominator": 2}}},
        {"type": "URLRewrite", "urlRewrite": {"hostname": "a.b", "path": path}},
        {"type": "CORS", "cors": {"allowOrigins": ["*"]}},
        {"type": "ExtensionRef", "extensionRef": {"group": "a.b", "kind": "C", "name": "d"}},
    ]);
    let redirect = json!({"scheme": "https", "hostname": "a.b", "port": 443, "statusCode": 301,
        "path": {"type": "ReplaceFullPath", "replaceFullPath": "/b"}});
    let mut backend = reference.clone();
    backend["weight"] = json!(3);
    backend["filters"] = json!([{"type": "RequestHeaderModifier", "requestHeaderModifier": headers}]);
    let mut parent = reference.clone();
    parent["sectionName"] = json!("http");
    let matches = json!([{
        "path": {"type": "PathPrefix", "value": "/a"},
        "method": "GET",
        "headers": [{"type": "RegularExpression", "name": "a", "value": "b"}],
        "queryParams": [{"type": "Exact", "name": "a", "value": "b"}],
    }]);
    let status = json!({"parents": [{"controllerName": "a.b/c", "parentRef": parent, "conditions": []}]});
    let object = json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": "a", "namespace": "shop", "creationTimestamp": "2026-11-22T06:00:00Z", "generation": 1},
        "spec": {
            "parentRefs": [parent],
            "hostnames": ["example.org"],
            "rules": [
                {"name": "one", "matches": matches, "filters": filters, "backendRefs": [backend],
                 "timeouts": {"request": "2s", "backendRequest": "1s"}},
                {"filters": [{"type": "RequestRedirect", "requestRedirect": redirect}]},
            ],
        },
        "status": status,
    });
    let Object::Route(route) = read_as::<HttpRoute>(&object) else { panic!("not a route") };
    assert_eq!((&*route.identity.namespace, &*route.identity.name, route.created), ("shop", "a", Some(1_795_327_200)));
    assert_eq!((route.rules.len(), route.rules[0].filters.mirrors.len()), (2, 2));
    // The mesh does not support the filters CORS and ExtensionRef, so each causes a refusal.
    assert_eq!(route.rules[0].refusals.len(), 2);
}

#[test]
fn grpc_routes_have_the_fields_that_kubernetes_knows() {
    let reference = json!({"group": "", "kind": "Service", "namespace": "shop", "name": "cart", "port": 80});
    let headers = json!({"set": [{"name": "a", "value": "b"}]});
    let mut backend = reference.clone();
    backend["weight"] = json!(3);
    backend["filters"] = json!([{"type": "ResponseHeaderModifier", "responseHeaderModifier": headers}]);
    let matches = json!([{
        "method": {"type": "Exact", "service": "a.B", "method": "C"},
        "headers": [{"type": "Exact", "name": "a", "value": "b"}],
    }]);
    let filters = json!([
        {"type": "RequestHeaderModifier", "requestHeaderModifier": headers},
        {"type": "RequestMirror", "requestMirror": {"backendRef": reference}},
        {"type": "ExtensionRef", "extensionRef": {"group": "a.b", "kind": "C", "name": "d"}},
    ]);
    let object = json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "GRPCRoute",
        "metadata": {"name": "a"},
        "spec": {
            "parentRefs": [reference],
            "hostnames": ["example.org"],
            "rules": [{"name": "one", "matches": matches, "filters": filters, "backendRefs": [backend]}],
        },
    });
    let Object::Route(route) = read_as::<GrpcRoute>(&object) else { panic!("not a route") };
    assert_eq!((route.rules[0].matches.len(), route.rules[0].backends.len()), (1, 1));
}

/// Also covers TCPRoutes, which have the same fields except for the hostnames.
#[test]
fn tls_routes_have_the_fields_that_kubernetes_knows() {
    let reference = json!({"group": "", "kind": "Service", "namespace": "shop", "name": "cart", "port": 443});
    let mut backend = reference.clone();
    backend["weight"] = json!(3);
    let mut parent = reference.clone();
    parent["sectionName"] = json!("tls");
    let mut object = json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "TLSRoute",
        "metadata": {"name": "a"},
        "spec": {
            "parentRefs": [parent],
            "hostnames": ["example.org"],
            "rules": [{"name": "one", "backendRefs": [backend]}],
        },
    });
    let Object::Route(route) = read_as::<TlsRoute>(&object) else { panic!("not a route") };
    assert_eq!((route.rules[0].matches.len(), route.rules[0].backends[0].weight), (1, 3));
    object["kind"] = json!("TCPRoute");
    object["spec"].as_object_mut().expect("a spec").remove("hostnames");
    let read = read_object(object).expect("no mistake").objects.remove(0);
    let Object::Route(route) = read else { panic!("not a route") };
    assert_eq!((route.rules[0].name.as_deref(), route.rules[0].backends.len()), (Some("one"), 1));
}

#[test]
fn backend_traffic_policies_have_the_fields_that_kubernetes_knows() {
    let object = json!({
        "apiVersion": "gateway.networking.x-k8s.io/v1alpha1",
        "kind": "XBackendTrafficPolicy",
        "metadata": {"name": "a"},
        "spec": {
            "targetRefs": [{"group": "", "kind": "Service", "name": "cart"}],
            "retryConstraint": {
                "budget": {"percent": 5, "interval": "20s"},
                "minRetryRate": {"count": 3, "interval": "1s"},
            },
            "sessionPersistence": {"sessionName": "a", "type": "Cookie", "cookieConfig": {"lifetimeType": "Session"}},
        },
        "status": {"ancestors": []},
    });
    let Object::TrafficPolicy(policy) = read_as::<XBackendTrafficPolicy>(&object) else { panic!("not a policy") };
    let budget = policy.retry_budget.as_ref().expect("a retry budget").value;
    assert_eq!((budget.percent, budget.interval.as_secs(), budget.min_per_second), (5, 20, 3));
}

#[test]
fn reference_grants_have_the_fields_that_kubernetes_knows() {
    let object = json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "ReferenceGrant",
        "metadata": {"name": "a"},
        "spec": {
            "from": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "web"}],
            "to": [{"group": "", "kind": "Service", "name": "cart"}],
        },
    });
    let Object::ReferenceGrant(grant) = read_as::<ReferenceGrant>(&object) else { panic!("not a grant") };
    assert_eq!(grant.referrers("gateway.networking.k8s.io").collect::<Vec<_>>(), [("HTTPRoute", "web")]);
    assert_eq!(grant.services().collect::<Vec<_>>(), [Some("cart")]);
}

#[test]
fn an_object_in_no_file_is_read_like_one_in_a_file() {
    let mut object = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "echo", "namespace": "shop"},
        "spec": {"clusterIP": "10.96.0.10", "ports": [{"port": 80, "protocol": "TCP"}]},
        "status": {"loadBalancer": {}},
    });
    let Object::Service(service) = read_as::<Service>(&object) else { panic!("not a Service") };
    assert_eq!((service.ports[0].port, service.cluster_ips.len()), (80, 1));
    object["spec"]["ports"][0]["port"] = json!(0);
    let problems = read_object(object).expect_err("a mistake").problems;
    assert_eq!(lines(&problems), ["spec.ports[0].port of Service shop/echo: 0 is not a port; use 1 to 65535"]);
}

#[test]
fn every_value_of_json_is_what_it_is_in_a_file() {
    let node: super::Node = serde_json::from_str(r#"{"a": [1, -1, 1.5, true, null, "1"]}"#).expect("JSON");
    let Some(super::Value::List(items)) = node.get("a").map(|node| &node.value) else { panic!("{node:?}") };
    let texts: Vec<_> = items.iter().map(super::Node::text).collect();
    assert_eq!(texts, [Some("1"), Some("-1"), Some("1.5"), Some("true"), None, Some("1")]);
    assert!(items[4].is_null());
    assert!(matches!(items[5].value, super::Value::Scalar { quoted: true, .. }));
}
