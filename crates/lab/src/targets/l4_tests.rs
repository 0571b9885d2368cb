use super::super::Programs;
use super::*;
use crate::experiment::record::{CallPolicy, Protocol};

#[test]
fn every_backend_has_the_same_part_of_the_random_numbers() {
    let backends: Vec<SocketAddr> =
        ["127.0.0.1:11", "127.0.0.1:12", "127.0.0.1:13"].map(|text| text.parse().expect("an address")).into();
    let rules = table("leno-lab-50051", &balance(&backends));
    let map = "numgen random mod 3 map { 0 : 127.0.0.1 . 11, 1 : 127.0.0.1 . 12, 2 : 127.0.0.1 . 13 }";
    assert!(rules.contains(&format!("ip daddr 10.96.0.50 tcp dport 50051 dnat to {map}")), "{rules}");
}

#[test]
fn every_redirection_is_a_rule_of_the_same_table() {
    let address = |text: &str| text.parse().expect("an address");
    let redirections = [
        Redirection { from: address("10.96.0.50:16001"), to: address("127.0.0.1:16002") },
        Redirection { from: address("10.244.0.50:16003"), to: address("127.0.0.1:16003") },
    ];
    let rules: String = redirections.iter().map(Redirection::rule).collect();
    let text = table("leno-lab-16001", &rules);
    assert!(text.starts_with("table ip leno-lab-16001 {"), "{text}");
    assert!(text.contains("ip daddr 10.96.0.50 tcp dport 16001 dnat to 127.0.0.1:16002\n"), "{text}");
    assert!(text.contains("ip daddr 10.244.0.50 tcp dport 16003 dnat to 127.0.0.1:16003\n"), "{text}");
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
