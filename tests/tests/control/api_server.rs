//! The API server stops and restarts; meanwhile the control plane keeps its last state of the mesh.

use std::thread;
use std::time::Duration;

use leno_tests::control::Control;
use leno_tests::kubernetes::Cluster;

use crate::objects::echo;

#[test]
fn what_is_known_stays_in_force_while_the_api_server_is_away() {
    let Some(cluster) = Cluster::get() else { return };
    cluster.namespace("away");
    cluster.apply(&echo("away", &[("10.244.6.1", None)]));
    let control = Control::start(&cluster);
    let cluster_name = "echo.away:50051";
    control.wait_for_endpoints(cluster_name, &["10.244.6.1:50061"]);

    for round in 2..=3 {
        cluster.kill("kube-apiserver");
        control.wait_for_log(&["cannot be watched"]);
        thread::sleep(Duration::from_secs(2));
        let known = control.endpoints(cluster_name).expect("the cluster");
        assert_eq!(known, [format!("10.244.6.{}:50061", round - 1)]);
        cluster.start();
        cluster.apply(&echo("away", &[(&format!("10.244.6.{round}"), None)]));
        // The control plane lists all objects again. Until the lists are complete, the mesh keeps the Service and its
        // old endpoint.
        control.wait_until("the new endpoint is known", |_| {
            let known = control.endpoints(cluster_name).expect("the mesh always has the Service");
            assert_eq!(known.len(), 1, "an endpoint is replaced at once");
            known == [format!("10.244.6.{round}:50061")]
        });
    }
    control.wait_for_log(&["watched again"]);
}

#[test]
fn objects_that_went_while_the_api_server_was_away_are_forgotten() {
    let Some(cluster) = Cluster::get() else { return };
    cluster.namespace("gone");
    cluster.apply(&echo("gone", &[("10.244.7.1", None)]));
    let control = Control::start(&cluster);
    control.wait_for_endpoints("echo.gone:50051", &["10.244.7.1:50061"]);
    cluster.kubectl(&["-n", "gone", "delete", "service", "echo"]);
    cluster.kill("kube-apiserver");
    cluster.start();
    control.wait_until("the Service is forgotten", |_| control.endpoints("echo.gone:50051").is_none());
}

#[test]
fn it_may_start_before_the_api_server() {
    let Some(cluster) = Cluster::get() else { return };
    cluster.namespace("early");
    cluster.apply(&echo("early", &[("10.244.8.1", None)]));
    cluster.kill("kube-apiserver");
    let control = Control::start_early(&cluster);
    control.wait_for_log(&["cannot be watched"]);
    // Before the control plane has read the cluster, it is not ready, and sends nothing.
    assert_eq!(control.get("/ready").expect("the admin listener answers").0, 503);
    assert!(control.config()["mesh"].is_null());
    cluster.start();
    control.wait_until_ready();
    control.wait_for_endpoints("echo.early:50051", &["10.244.8.1:50061"]);
}
