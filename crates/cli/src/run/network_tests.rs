use serde_json::json;

use super::*;

fn network() -> Network {
    of_state("/run/leno")
}

fn of_state(state: &str) -> Network {
    Network { bridge: "leno0".to_owned(), state: state.into(), subnet: "10.244.77.0/24".parse().expect("a network") }
}

/// The output of `ip -json link show` on a machine with another device, and the bridge with this alias.
fn described(alias: Option<&str>) -> String {
    let link = alias.map_or_else(|| json!({"ifname": "leno0"}), |alias| json!({"ifname": "leno0", "ifalias": alias}));
    json!([{"ifname": "eth0", "ifalias": "uplink"}, {}, link]).to_string()
}

#[test]
fn a_bridge_belongs_to_the_directory_that_its_alias_names() {
    let (ours, theirs) = (of_state("/run/a"), of_state("/run/b"));
    assert!(ours.is_among(&described(Some(&ours.alias()))).expect("our own bridge"));
    let refused = ours.is_among(&described(Some(&theirs.alias()))).expect_err("the bridge of others").to_string();
    assert!(refused.starts_with("the bridge leno0 belongs to the runs with --state /run/b; "), "{refused}");
    assert!(refused.contains("--state /run/a another one with --bridge") && !refused.contains('\n'), "{refused}");
}

#[test]
fn a_device_that_no_run_made_is_no_bridge_for_runs() {
    for alias in [None, Some("uplink"), Some("leno run ")] {
        let refused = network().is_among(&described(alias)).expect_err("a foreign device").to_string();
        let wanted = "the network device leno0 exists, but leno run did not make it; choose another name with --bridge";
        assert!(refused.starts_with(wanted), "{refused}");
    }
}

#[test]
fn a_bridge_is_missing_only_if_the_devices_are_known() {
    let others = json!([{"ifname": "lo"}, {"ifname": "leno0-2", "ifalias": network().alias()}]).to_string();
    assert!(!network().is_among(&others).expect("the devices are known"));
    let unknown = network().is_among("Device list is busy").expect_err("no JSON").to_string();
    assert!(unknown.starts_with("reading the output of ip -json link show: "), "{unknown}");
}

#[test]
fn paths_that_differ_only_beyond_the_room_of_an_alias_are_told_apart() {
    let [one, other] = ["a", "b"].map(|end| of_state(&format!("/{}/{end}", "ä".repeat(200))));
    assert!(one.alias().len() <= 255 && other.alias().len() <= 255);
    one.is_among(&described(Some(&one.alias()))).expect("its own bridge");
    one.is_among(&described(Some(&other.alias()))).expect_err("the bridge of others");
}

#[test]
fn a_run_is_joined_to_the_bridge_by_a_device_of_its_own_name() {
    let outside = network().outside_commands(3);
    assert!(outside.starts_with("link add leno0-3 type veth peer name eth0 "), "{outside}");
    assert!(outside.ends_with(" netns leno0-3\nlink set leno0-3 master leno0 up\n"), "{outside}");
}

#[test]
fn an_address_has_one_ethernet_address_whoever_has_it() {
    let outside = network().outside_commands(3);
    assert!(outside.contains(" address 02:00:0a:f4:4d:03 "), "{outside}");
}

#[test]
fn the_bridge_is_the_first_host_and_the_way_out_of_every_run() {
    assert!(network().bridge_commands().contains("address add 10.244.77.1/24 dev leno0\n"));
    let inside = network().inside_commands(3);
    assert!(inside.contains("address add 10.244.77.3/24 dev eth0\n"), "{inside}");
    assert!(inside.ends_with("route add default via 10.244.77.1\n"), "{inside}");
}

#[test]
fn the_longest_names_fit_a_network_device() {
    let network = Network { bridge: "123456789".to_owned(), ..network() };
    assert!(network.name(u16::MAX).len() <= 15, "{}", network.name(u16::MAX));
}

#[test]
fn a_run_with_another_bridge_is_recognized_by_the_name_of_its_namespace() {
    let other = network().of_namespace("old-0-12", 12).expect("the namespace of run 12");
    assert_eq!((other.bridge.as_str(), other.subnet), ("old-0", network().subnet));
    for name in ["old0-12", "old0", ""] {
        assert!(network().of_namespace(name, 2).is_none(), "{name}");
    }
}
