use super::super::Programs;
use super::*;
use crate::experiment::record::{CallPolicy, Protocol};

#[test]
fn every_backend_has_the_same_part_of_the_random_numbers() {
    let backends: Vec<SocketAddr> =
        ["127.0.0.1:11", "127.0.0.1:12", "127.0.0.1:13"].map(|text| text.parse().expect("an address")).into();
    let rules = rules(&backends);
    let map = "numgen random mod 3 map { 0 : 127.0.0.1 . 11, 1 : 127.0.0.1 . 12, 2 : 127.0.0.1 . 13 }";
    assert!(rules.contains(&format!("ip daddr 10.96.0.50 tcp dport 50051 dnat to {map}")), "{rules}");
}

#[test]
fn outside_a_namespace_of_its_own_nothing_is_started() {
    let backends = [SocketAddr::from((Ipv4Addr::LOCALHOST, 11))];
    let programs = Programs::default();
    let setting = Setting {
        backends: &backends,
        protocol: Protocol::Grpc,
        policy: CallPolicy::Once,
        dir: Path::new("/"),
        cpus: &[],
        programs: &programs,
    };
    let error = start(TargetKind::L4, &setting).err().expect("tests run in the machine's namespace").to_string();
    assert!(error.contains("network namespace"), "{error}");
}
