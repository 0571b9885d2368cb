//! Connections that netfilter redirected: the original destination selects the Service.
//!
//! The test runs itself again in a separate network namespace, because only there it has the right to use nft.

use std::process::Command;

use leno_tests::backend::Backend;
use leno_tests::client::{Call, Client};
use leno_tests::manifests::Service;
use leno_tests::programs;
use leno_tests::proxy::Proxy;

/// Firewall rules: a connection to one of the test's two clusterIPs is redirected to the proxy's port.
const RULES: &str = "table inet leno {
  chain output {
    type nat hook output priority -100;
    ip daddr 10.96.0.10 tcp dport 50051 redirect to :4140
    ip6 daddr fd00:96::10 tcp dport 50051 redirect to :4140
  }
}";

#[test]
fn a_redirected_connection_goes_to_the_service_it_was_meant_for() {
    let rules = tempfile::NamedTempFile::new().expect("a file for the rules");
    std::fs::write(rules.path(), RULES).expect("the rules are written");
    let test = std::env::current_exe().expect("this program");
    let script = "ip link set lo up
        ip address add 10.96.0.10/32 dev lo && ip address add fd00:96::10/128 dev lo nodad
        nft -f \"$0\" && exec \"$1\" --exact redirect::inside_the_namespace --ignored --nocapture";
    let output = Command::new("unshare")
        .args(["--map-root-user", "--net", "sh", "-ec", script])
        .args([rules.path(), &test])
        .output()
        .expect("unshare (util-linux) runs");
    let printed = programs::text(&output);
    assert!(output.status.success() && printed.contains("1 passed"), "{}: {printed}", output.status);
}

#[ignore = "runs inside the namespace that a_redirected_connection_goes_to_the_service_it_was_meant_for makes"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inside_the_namespace() {
    let backend = Backend::start().await;
    for address in ["10.96.0.10:50051", "[fd00:96::10]:50051"] {
        let address = address.parse().expect("an address");
        let outbound = "[::]:4140".parse().expect("an address");
        let meant = Service::new("meant", &[backend.address()]).at(address);
        let proxy = Proxy::start_with(outbound, &[meant], &[]);
        // The call's authority does not matter: the connection has an original destination.
        let client = Client::connect(address, "whatever.example").await;
        let answer = client.call(&Call::new("Echo"), b"hello").await;
        assert_eq!(answer.grpc_status(), Some(0), "{address}: {answer:?}");
        assert!(proxy.scrape().sum("request_total", &[r#"dst_service="meant""#]) >= 1.0);
    }
    assert_eq!(backend.calls(), 2);
}
