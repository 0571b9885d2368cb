//! Measures the time to translate many objects into a mesh, and the time to translate them again after one object has
//! changed. Run it with:
//!
//! `cargo run --release -p leno-model --example translate_cost`.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use leno_model::manifest::{SourceFile, parse_file};
use leno_model::mesh::Dialled;
use leno_model::object::Object;
use leno_model::translate::{Memo, translate, translate_again};

const SERVICES: usize = 1_000;
const ENDPOINTS_OF_EACH: usize = 10;
const ROUNDS: usize = 100;

fn main() {
    let mut objects: Vec<Object> = (0..SERVICES).flat_map(service).collect();
    measure("all of it", || {
        black_box(translate(&objects, "default"));
    });
    let mut memo = Memo::default();
    let mut mesh = translate_again(&objects, "default", Dialled::Pods, &mut memo).mesh;
    let mut changed = 1;
    measure("after a change of one Service's endpoints", || {
        if let Some(Object::EndpointSlice(slice)) = objects.get_mut(changed) {
            Arc::make_mut(slice).addresses.reverse();
        }
        changed = (changed + 2) % objects.len();
        mesh = translate_again(&objects, "default", Dialled::Pods, &mut memo).mesh.sharing(&mesh);
    });
}

fn measure(what: &str, mut action: impl FnMut()) {
    let mut costs_ms: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            action();
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    costs_ms.sort_by(f64::total_cmp);
    let [least, median] = [costs_ms[0], costs_ms[ROUNDS / 2]];
    println!(
        "{SERVICES} Services, {} endpoints, {what}: least {least:.2} ms, median {median:.2} ms",
        SERVICES * ENDPOINTS_OF_EACH
    );
}

/// A Service and its EndpointSlice.
fn service(number: usize) -> Vec<Object> {
    let (high, low) = (number / 250, number % 250 + 1);
    let mut text = format!(
        "{{apiVersion: v1, kind: Service, metadata: {{name: echo-{number}, namespace: shop}},
  spec: {{clusterIP: 10.96.{high}.{low}, ports: [{{name: grpc, port: 50051}}]}}}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: echo-{number}-1, namespace: shop, labels: {{kubernetes.io/service-name: echo-{number}}}}}
addressType: IPv4
ports: [{{name: grpc, port: 50061}}]
endpoints:
"
    );
    for endpoint in 0..ENDPOINTS_OF_EACH {
        let at = number * ENDPOINTS_OF_EACH + endpoint;
        let (high, low) = (at / 250, at % 250 + 1);
        text += &format!(
            "- {{addresses: [10.244.{high}.{low}], nodeName: node-1, zone: zone-1, \
             targetRef: {{kind: Pod, name: echo-{number}-5d9f8b7c6d-{endpoint:05}}}}}\n"
        );
    }
    let file = SourceFile { path: String::new(), text };
    parse_file(&file, "default").expect("a manifest without mistakes").objects
}
