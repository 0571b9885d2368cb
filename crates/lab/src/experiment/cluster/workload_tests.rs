use std::convert::Infallible;

use http::Response;
use kube::Client as KubeClient;
use kube::client::Body;
use prost_reflect::DescriptorPool;
use serde_json::{Value, json};

use super::*;
use crate::echo::proto::DESCRIPTORS;

fn service(spec: &Value) -> Service {
    serde_json::from_value(json!({"metadata": {"name": "hello"}, "spec": spec})).expect("a Service")
}

fn with_ports() -> Service {
    service(&json!({"clusterIP": "10.96.0.7", "ports": [
        {"name": "grpc", "port": 9000},
        {"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"},
        {"name": "dns", "port": 53, "protocol": "UDP"},
    ]}))
}

#[test]
fn a_port_is_found_by_its_number_and_by_its_name() {
    let http = Called { address: ([10, 96, 0, 7], 80).into(), port_name: "http".to_owned() };
    assert_eq!(called(&with_ports(), &PortName::Number(80)), Ok(http));
    let grpc = Called { address: ([10, 96, 0, 7], 9000).into(), port_name: "grpc".to_owned() };
    assert_eq!(called(&with_ports(), &PortName::Name("grpc".to_owned())), Ok(grpc));
    let unnamed = service(&json!({"clusterIP": "fd00::7", "ports": [{"port": 80}]}));
    assert_eq!(called(&unnamed, &PortName::Number(80)).map(|called| called.port_name), Ok(String::new()));
}

#[test]
fn a_port_that_does_not_exist_is_refused_with_those_that_do() {
    for port in [PortName::Number(8080), PortName::Number(53), PortName::Name("dns".to_owned())] {
        let why = called(&with_ports(), &port).expect_err("an error");
        assert_eq!(why, "the Service has no such TCP port; its ports are: 9000 (grpc), 80 (http)");
    }
}

#[test]
fn a_service_without_a_cluster_ip_is_refused() {
    for (spec, why) in [
        (json!({"clusterIP": "None", "ports": [{"port": 80}]}), "the Service is headless: "),
        (json!({"type": "ExternalName", "externalName": "example.org"}), "the Service has no cluster IP: "),
        (json!({"clusterIP": "x", "ports": [{"port": 80}]}), "its cluster IP \"x\" is no address"),
    ] {
        let error = called(&service(&spec), &PortName::Number(80)).expect_err(why);
        assert!(error.starts_with(why), "{error}");
    }
}

#[test]
fn the_proxies_are_those_of_pods_that_have_one() {
    let pod = |name: &str, containers: Value| {
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": containers})).expect("a Pod")
    };
    let workload = Workload {
        client: Client { address: ([10, 96, 0, 7], 80).into(), authority: "hello.shop:80".to_owned() },
        exchange: Exchange::Http1Get("/".to_owned()),
        servers: 3,
        pods: vec![
            pod("a", json!({"containers": [{"name": "app"}]})),
            pod("b", json!({"containers": [{"name": "app"}, {"name": "leno-proxy"}]})),
            pod("c", json!({"initContainers": [{"name": "leno-proxy"}], "containers": [{"name": "app"}]})),
        ],
        namespace: "shop".to_owned(),
        description: record::Workload { service: "shop/hello:80".to_owned(), call: "GET /".to_owned() },
    };
    let proxies = workload.proxies(Mesh::Leno);
    assert_eq!(proxies.iter().map(|it| it.pod.as_str()).collect::<Vec<_>>(), ["b", "c"]);
    assert!(proxies.iter().all(|it| it.namespace == "shop" && it.container == "leno-proxy"));
    for mesh in [Mesh::None, Mesh::Istio, Mesh::Ambient] {
        assert_eq!(workload.proxies(mesh), []);
    }
}

/// A cluster whose API server has one Service, `hello` in the namespace `shop`, with this specification and these
/// EndpointSlices. Its Pods are `a` and `b`, and the kubeconfig's namespace is `shop`.
fn cluster(spec: &Value, slices: &Value) -> Access {
    let service = json!({"metadata": {"name": "hello"}, "spec": spec});
    let pods = json!([
        {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "app"}, {"name": "leno-proxy"}]}},
        {"metadata": {"name": "b"}, "spec": {"containers": [{"name": "app"}, {"name": "leno-proxy"}]}},
    ]);
    let list = |kind: &str, items: &Value| json!({"kind": format!("{kind}List"), "apiVersion": "v1", "metadata": {}, "items": items});
    let (slices, pods) = (list("EndpointSlice", slices), list("Pod", &pods));
    let api = tower::service_fn(move |request: http::Request<Body>| {
        let missing =
            json!({"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound", "message": "none"});
        let uri = request.uri().to_string();
        let (status, answer) = match &uri[..] {
            "/api/v1/namespaces/shop/services/hello" => (200, service.clone()),
            "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices?&labelSelector=kubernetes.io%2Fservice-name%3Dhello" => {
                (200, slices.clone())
            }
            "/api/v1/namespaces/shop/pods?" => (200, pods.clone()),
            path if path.starts_with("/api/v1/namespaces/") && path.contains("/services/") => (404, missing),
            path => panic!("an unexpected request: {path}"),
        };
        let answer = Response::builder().status(status).body(Body::from(answer.to_string().into_bytes()));
        std::future::ready(Ok::<_, Infallible>(answer.expect("a valid answer")))
    });
    Access { client: KubeClient::new(api, "shop") }
}

fn usual_spec() -> Value {
    json!({"clusterIP": "10.96.0.7", "ports": [{"name": "grpc", "port": 9000}, {"name": "http", "port": 80}]})
}

fn usual_slices(is_ready: bool) -> Value {
    let endpoint = json!({
        "addresses": ["10.0.0.1"], "conditions": {"ready": is_ready}, "targetRef": {"kind": "Pod", "name": "a"},
    });
    json!([{"metadata": {"name": "hello-1"}, "addressType": "IPv4", "endpoints": [endpoint], "ports": [
        {"name": "grpc", "port": 50051}, {"name": "http", "port": 8080},
    ]}])
}

async fn find(access: &Access, service: &str, request: Request) -> Result<Workload> {
    Workload::find(access, &service.parse().expect("a Service"), request).await
}

fn get(path: &str) -> Request {
    Request::Get { path: path.to_owned(), protocol: Protocol::Http2 }
}

fn echo(method: &str, json: &str) -> Request {
    let descriptors = Some(DescriptorPool::decode(DESCRIPTORS).expect("descriptors"));
    Request::Call { method: method.parse().expect("a method"), json: json.to_owned(), descriptors }
}

#[tokio::test]
async fn a_workload_is_found_with_its_address_its_request_and_its_pods() {
    let access = cluster(&usual_spec(), &usual_slices(true));
    // The namespace comes from the kubeconfig.
    let workload = find(&access, "hello:http", get("/hello?x=1")).await.expect("a workload");
    assert_eq!(workload.client.address, ([10, 96, 0, 7], 80).into());
    assert_eq!(workload.client.authority, "hello.shop:80");
    assert!(matches!(&workload.exchange, Exchange::Http2Get(path) if path == "/hello?x=1"), "{:?}", workload.exchange);
    assert_eq!(workload.servers, 1);
    assert_eq!(workload.proxies(Mesh::Leno).len(), 1, "only the Pods behind the Service count");
    let record::Workload { service, call } = &workload.description;
    assert_eq!((&service[..], &call[..]), ("shop/hello:http", "GET /hello?x=1"));

    let call = echo("leno.echo.v1.Echo/Unary", r#"{"payload": "eA=="}"#);
    let workload = find(&access, "shop/hello:9000", call).await.expect("a workload");
    assert!(matches!(&workload.exchange, Exchange::Call(call) if call.message == [10, 1, b'x']));
    assert_eq!(workload.description.call, "leno.echo.v1.Echo/Unary");
}

#[tokio::test]
async fn what_cannot_be_called_is_refused_in_one_line_with_the_fix() {
    let no_pods = json!([{"metadata": {}, "addressType": "IPv4", "endpoints": [{"addresses": ["192.0.2.1"]}], "ports": [
        {"name": "grpc", "port": 50051},
    ]}]);
    let headless = json!({"clusterIP": "None", "ports": [{"name": "grpc", "port": 9000}]});
    let unreflected =
        Request::Call { method: "a.B/C".parse().expect("a name"), json: "{}".to_owned(), descriptors: None };
    for (spec, slices, service, request, why) in [
        (usual_spec(), usual_slices(true), "shop/hi:80", get("/"), "--service shop/hi:80: there is no such Service"),
        (usual_spec(), usual_slices(true), "other/hello:80", get("/"), "kubectl get services -n other"),
        (usual_spec(), usual_slices(true), "hello:81", get("/"), "its ports are: 9000 (grpc), 80 (http)"),
        (usual_spec(), usual_slices(false), "hello:80", get("/"), "no endpoint is ready"),
        (usual_spec(), json!([]), "hello:80", get("/"), "kubectl get endpointslices -n shop"),
        (headless, usual_slices(true), "hello:9000", get("/"), "the Service is headless"),
        (usual_spec(), no_pods, "hello:grpc", unreflected, "use --descriptor-set FILE"),
        (usual_spec(), usual_slices(true), "hello:grpc", echo("leno.echo.v1.Echo/X", "{}"), "methods are: Unary"),
        (usual_spec(), usual_slices(true), "hello:grpc", echo("leno.echo.v1.Echo/Unary", "{\"x\": 1}"), "--data"),
    ] {
        let found = find(&cluster(&spec, &slices), service, request).await;
        let error = found.map(|_| ()).expect_err(why).to_string();
        assert!(error.contains(why) && error.lines().count() == 1, "{why}: {error}");
    }
}
