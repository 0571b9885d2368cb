use super::*;
use crate::experiment::record::{CallPolicy, Protocol};

#[test]
fn outside_a_namespace_of_its_own_no_ztunnel_is_started_and_no_file_is_written() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (backends, programs) = ([SocketAddr::from(([127, 0, 0, 1], 11))], Programs::default());
    let setting = Setting {
        backends: &backends,
        protocol: Protocol::Grpc,
        policy: CallPolicy::Once,
        dir: dir.path(),
        cpus: &[],
        programs: &programs,
    };
    let error = start_with_ztunnel(&setting, Path::new("/nowhere/ztunnel")).map(|_| ()).expect_err("it is outside");
    assert!(error.to_string().contains("need a network namespace of their own"), "{error}");
    assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 0);
}

#[test]
fn only_a_version_that_begins_with_ztunnels_own_is_with_ztunnel() {
    assert!(is_with_ztunnel("Envoy 1.40.0 with ztunnel 1.28.0, release build, tls-ring"));
    assert!(!is_with_ztunnel(
        "Envoy 1.40.0 with a bare TLS tunnel in place of ztunnel, because x with ztunnel 1 fails"
    ));
    assert!(!is_with_ztunnel("Envoy 1.40.0"));
}
