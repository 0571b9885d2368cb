use super::Source;

fn source(text: &str) -> Source {
    Source::of(text.parse().expect(text))
}

#[test]
fn a_mapped_address_is_the_same_source_as_its_ipv4_address() {
    assert_eq!(source("::ffff:10.0.0.7"), source("10.0.0.7"));
}

#[test]
fn addresses_of_one_ipv6_network_are_one_source() {
    assert_eq!(source("2001:db8::1"), source("2001:db8::ffff:2"));
    assert_ne!(source("2001:db8::1"), source("2001:db8:0:1::1"));
    assert_eq!(source("2001:db8::1").to_string(), "2001:db8::/64");
}
