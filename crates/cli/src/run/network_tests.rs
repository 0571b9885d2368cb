use super::*;

fn network() -> Network {
    Network { bridge: "leno0".to_owned(), subnet: "10.244.77.0/24".parse().expect("a network") }
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
