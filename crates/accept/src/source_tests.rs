use super::Source;

#[test]
fn a_mapped_address_is_the_same_source_as_its_ipv4_address() {
    assert_eq!(
        Source::of("::ffff:10.0.0.7".parse().expect("an address")),
        Source::of("10.0.0.7".parse().expect("an address"))
    );
}

#[test]
fn addresses_of_one_ipv6_network_are_one_source() {
    let source = |text: &str| Source::of(text.parse().expect("an address"));
    assert_eq!(source("2001:db8::1"), source("2001:db8::ffff:2"));
    assert_ne!(source("2001:db8::1"), source("2001:db8:0:1::1"));
    assert_eq!(source("2001:db8::1").to_string(), "2001:db8::/64");
}
