use std::num::NonZeroU16;

use super::*;

#[test]
fn masks_have_as_many_leading_bits_as_the_prefix() {
    let mask = |bits| std::array::from_fn::<u8, 4, _>(|index| mask_byte(bits, index));
    assert_eq!(mask(0), [0, 0, 0, 0]);
    assert_eq!(mask(8), [255, 0, 0, 0]);
    assert_eq!(mask(12), [255, 240, 0, 0]);
    assert_eq!(mask(31), [255, 255, 255, 254]);
    assert_eq!(mask(32), [255, 255, 255, 255]);
    assert_eq!(std::array::from_fn::<u8, 16, _>(|index| mask_byte(128, index)), [255; 16]);
}

#[test]
fn the_least_that_can_be_asked_for_is_a_table_that_replaces_itself() {
    let options = Redirection::new(2102);
    let rules = "\
add table inet leno
delete table inet leno
table inet leno {
  chain inbound {
    type nat hook prerouting priority -101; policy accept;
    iifname \"lo\" return
    fib daddr type != local return
    tcp dport 4143 return
    tcp dport 4140 return
    tcp dport 15008 return
    tcp dport 4191 return
    tcp flags syn / fin,syn,rst,ack redirect to :4143
  }
  chain inbound_guard {
    type filter hook input priority 0; policy accept;
    iifname \"lo\" return
    tcp flags != syn / syn,ack return
    tcp dport 4143 return
    tcp dport 4140 return
    tcp dport 15008 return
    tcp dport 4191 return
    meta l4proto tcp drop
  }
  chain outbound {
    type nat hook output priority -101; policy accept;
    meta skuid 2102 return
    oifname \"lo\" return
    ip6 daddr fe80::/10 return
    tcp flags syn / fin,syn,rst,ack redirect to :4140
  }
  chain outbound_guard {
    type filter hook output priority 0; policy accept;
    tcp flags != syn / syn,ack return
    meta skuid 2102 return
    oifname \"lo\" return
    ip6 daddr fe80::/10 return
    meta l4proto tcp fib daddr type != local drop
  }
}
";
    assert_eq!(description(&options), rules);
}

#[test]
fn what_is_skipped_returns_before_the_redirection_of_its_own_direction_only() {
    let port = |port: u16| NonZeroU16::new(port).expect("not zero");
    let options = Redirection {
        inbound_port: port(1),
        outbound_port: port(2),
        skip_inbound_ports: vec!["22".parse().expect("a port"), "1000-2000".parse().expect("ports")],
        skip_outbound_ports: vec!["25".parse().expect("a port")],
        skip_subnets: vec!["10.0.0.0/8".parse().expect("a network"), "fd00::/8".parse().expect("a network")],
        ..Redirection::new(7)
    };
    let rules = description(&options);
    let [_, inbound, inbound_guard, outbound, outbound_guard] = rules.split("  chain ").collect::<Vec<_>>()[..] else {
        panic!("four chains: {rules}")
    };
    let ports = "tcp dport 22 return\n    tcp dport 1000-2000 return\n    ";
    for (chain, last) in
        [(inbound, "tcp flags syn / fin,syn,rst,ack redirect to :1\n"), (inbound_guard, "meta l4proto tcp drop\n")]
    {
        assert!(chain.contains(&format!("{ports}{last}")), "{chain}");
    }
    let skipped = "tcp dport 25 return\n    ip daddr 10.0.0.0/8 return\n    ip6 daddr fd00::/8 return\n    ";
    for (chain, last) in [
        (outbound, "tcp flags syn / fin,syn,rst,ack redirect to :2\n"),
        (outbound_guard, "meta l4proto tcp fib daddr type != local drop\n"),
    ] {
        assert!(chain.contains(&format!("{skipped}{last}")), "{chain}");
        assert!(chain.contains("meta skuid 7 return"), "{chain}");
    }
    for chain in [inbound, inbound_guard] {
        assert!(!chain.contains("fe80"), "a neighbor must not bypass the proxy: {chain}");
    }
}
