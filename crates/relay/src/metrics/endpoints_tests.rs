use leno_model::mesh::ClusterKey;

use crate::metrics::WorkerMetrics;
use crate::metrics::fixtures::{assert_line, scrape};

const CART: &str = r#"backend_group="core",backend_kind="Service",backend_namespace="shop",backend_name="cart",backend_port="80",backend_section_name="""#;

#[test]
fn the_worker_with_the_most_pending_endpoints_is_exported() {
    let key = ClusterKey { namespace: "shop".into(), service: "cart".into(), port: 80 };
    let workers = [WorkerMetrics::new(), WorkerMetrics::new(), WorkerMetrics::new()];
    // The third worker has forgotten the Service.
    let held: Vec<_> = workers.iter().map(|worker| worker.endpoints(&key)).collect();
    for (metrics, (ready, pending)) in held.iter().zip([(3, 0), (1, 2), (0, 0)]) {
        metrics.ready.set(ready);
        metrics.pending.set(pending);
    }
    let gauge = |state: &str| format!("outbound_http_balancer_endpoints{{endpoint_state=\"{state}\",{CART}}}");
    let text = scrape(&workers);
    assert_line(&text, "# TYPE outbound_http_balancer_endpoints gauge");
    assert_line(&text, &format!("{} 1", gauge("ready")));
    assert_line(&text, &format!("{} 2", gauge("pending")));
}
