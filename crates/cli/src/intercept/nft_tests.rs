use super::super::options::parse;
use super::*;

#[test]
fn the_least_that_can_be_asked_for_is_a_table_that_replaces_itself() {
    let options = parse("--proxy-uid 2102").expect("it is enough");
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
    meta l4proto tcp redirect to :4143
  }
  chain outbound {
    type nat hook output priority -101; policy accept;
    meta skuid 2102 return
    oifname \"lo\" return
    meta l4proto tcp redirect to :4140
  }
}
";
    assert_eq!(up(&options), rules);
}

#[test]
fn what_is_skipped_returns_before_the_redirection_of_its_own_direction_only() {
    let words = "--proxy-uid 7 --inbound-port 1 --outbound-port 2 --skip-inbound-ports 22,1000-2000 \
                 --skip-outbound-ports 25 --skip-subnets 10.0.0.0/8,fd00::/8";
    let rules = up(&parse(words).expect("all are fine"));
    let (inbound, outbound) = rules.split_once("chain outbound").expect("there are two chains");
    assert!(
        inbound.contains("tcp dport 22 return\n    tcp dport 1000-2000 return\n    meta l4proto tcp redirect to :1\n")
    );
    let skipped = "tcp dport 25 return\n    ip daddr 10.0.0.0/8 return\n    ip6 daddr fd00::/8 return\n    \
                   meta l4proto tcp redirect to :2\n";
    assert!(outbound.contains(skipped), "{outbound}");
    assert!(outbound.contains("meta skuid 7 return"), "{outbound}");
}
