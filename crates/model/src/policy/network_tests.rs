use super::{BadNetwork, Network};

#[test]
fn a_network_has_the_addresses_of_its_prefix_and_its_family() {
    for (network, address, expected) in [
        ("10.0.0.0/8", "10.255.255.255", true),
        ("10.0.0.0/8", "11.0.0.0", false),
        ("10.0.0.0/8", "::ffff:10.1.2.3", true),
        ("10.0.0.0/8", "a00::", false),
        ("192.168.1.128/25", "192.168.1.128", true),
        ("192.168.1.128/25", "192.168.1.127", false),
        ("10.1.2.3", "10.1.2.3", true),
        ("10.1.2.3", "10.1.2.2", false),
        ("0.0.0.0/0", "255.255.255.255", true),
        ("0.0.0.0/0", "::1", false),
        ("::/0", "ffff::1", true),
        ("::/0", "10.0.0.1", false),
        ("::/0", "::ffff:10.0.0.1", false),
        ("fd00::/8", "fdff::1", true),
        ("fd00::/8", "fe00::1", false),
        ("2001:db8::1", "2001:db8::1", true),
        ("2001:db8::1/128", "2001:db8::2", false),
    ] {
        let contains = network.parse::<Network>().expect("a network").contains(address.parse().expect("an address"));
        assert_eq!(contains, expected, "{network} {address}");
    }
}

#[test]
fn what_is_no_network_is_refused() {
    for text in [
        "",
        "/",
        "10.0.0.0/",
        "/8",
        "10.0.0.0/33",
        "::/129",
        "10.0.0/8",
        "10.0.0.0/-1",
        "10.0.0.0/+8",
        "10.0.0.0/256",
        "10.0.0.0/8/8",
        "any",
        "fe80::1%eth0",
        "010.0.0.1",
    ] {
        assert_eq!(text.parse::<Network>(), Err(BadNetwork::Form), "{text:?}");
    }
    for text in ["::ffff:10.0.0.0/104", "::ffff:10.0.0.1"] {
        assert_eq!(text.parse::<Network>(), Err(BadNetwork::Mapped), "{text:?}");
    }
    for (text, network) in [("10.1.0.0/8", "10.0.0.0/8"), ("fd00::1/64", "fd00::/64"), ("1.2.3.4/0", "0.0.0.0/0")] {
        let error = text.parse::<Network>().expect_err("beyond the prefix").to_string();
        assert!(error.starts_with(&format!("write {network} for the network")), "{error}");
    }
}
