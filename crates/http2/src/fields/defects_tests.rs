use super::*;

fn name_defects(name: &[u8]) -> Defects {
    Facts::of_name(name).defects
}

fn field_defects(name: &str, value: &[u8]) -> Defects {
    let text = [name.as_bytes(), value].concat();
    Facts::of_field(Facts::of_name(name.as_bytes()), &text, name.len()).defects
}

#[test]
fn every_byte_that_is_no_lower_case_token_makes_a_bad_name() {
    for byte in 0..=255u8 {
        let is_token = byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"!#$%&'*+-.^_`|~".contains(&byte);
        let expected = if is_token { Defects::NONE } else { Defects::BAD_NAME };
        assert_eq!(name_defects(&[b'x', byte, b'x']), expected, "{byte:#x}");
        assert!(!is_token || http::HeaderName::from_lowercase(&[b'x', byte, b'x']).is_ok(), "{byte:#x}");
    }
}

#[test]
fn empty_name_is_bad() {
    assert_eq!(name_defects(b""), Defects::BAD_NAME);
}

#[test]
fn colon_may_only_come_first() {
    assert_eq!(name_defects(b":path"), Defects::NONE);
    assert_eq!(name_defects(b"pa:th"), Defects::BAD_NAME);
    assert_eq!(name_defects(b":unknown"), Defects::UNKNOWN_PSEUDO);
    assert_eq!(name_defects(b"::path"), Defects::UNKNOWN_PSEUDO | Defects::BAD_NAME);
    assert_eq!(name_defects(b":"), Defects::UNKNOWN_PSEUDO | Defects::BAD_NAME);
}

#[test]
fn control_characters_make_a_bad_value_wherever_they_are() {
    for byte in 0..=255u8 {
        let is_control = byte < b' ' && byte != b'\t' || byte == 0x7f;
        let expected = if is_control { Defects::BAD_VALUE } else { Defects::NONE };
        for len in [3, 40] {
            for at in [1, len / 2, len - 2] {
                let mut value = vec![b'v'; len];
                value[at] = byte;
                assert_eq!(field_defects("x", &value), expected, "{byte:#x} at {at} of {len}");
            }
        }
    }
}

#[test]
fn white_space_at_either_end_of_a_value_is_marked() {
    for value in [" v", "v ", "\tv", "v\t", " "] {
        assert_eq!(field_defects("x", value.as_bytes()), Defects::PADDED_VALUE, "{value:?}");
    }
    for value in ["", "a b", "a\tb"] {
        assert_eq!(field_defects("x", value.as_bytes()), Defects::NONE, "{value:?}");
    }
}

#[test]
fn fields_about_one_connection_are_marked() {
    for name in ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"] {
        assert_eq!(field_defects(name, b"x"), Defects::CONNECTION_SPECIFIC, "{name}");
    }
}

#[test]
fn te_may_only_be_trailers() {
    assert_eq!(field_defects("te", b"trailers"), Defects::NONE);
    assert_eq!(field_defects("te", b"Trailers"), Defects::CONNECTION_SPECIFIC);
    assert_eq!(field_defects("te", b"trailers, deflate"), Defects::CONNECTION_SPECIFIC);
    assert_eq!(field_defects("te", b""), Defects::CONNECTION_SPECIFIC);
}

#[test]
fn values_of_a_requests_pseudo_header_fields_have_their_syntax() {
    for (name, good, bad) in [(":method", "GET", "GET /"), (":path", "/a", "a")] {
        assert_eq!(field_defects(name, good.as_bytes()), Defects::NONE, "{name}");
        assert_eq!(field_defects(name, bad.as_bytes()), Defects::BAD_VALUE, "{name}");
        assert_eq!(field_defects(name, b""), Defects::BAD_VALUE, "{name}");
        assert_eq!(field_defects(name, b"/ "), Defects::BAD_VALUE | Defects::PADDED_VALUE, "{name}");
    }
}

#[test]
fn values_that_some_servers_reject_are_unusual() {
    assert_eq!(field_defects(":path", b"/a<b"), Defects::UNUSUAL_PATH);
    for name in [":authority", "host"] {
        assert_eq!(field_defects(name, b"a:1"), Defects::NONE);
        for value in ["extension/auth", "user@a", ""] {
            let defects = field_defects(name, value.as_bytes());
            assert!(defects == Defects::UNUSUAL_AUTHORITY && !defects.is_malformed(), "{name}: {value}");
        }
    }
    assert_eq!(field_defects(":authority", b"a b"), Defects::BAD_VALUE);
}

#[test]
fn hash_depends_on_where_the_name_ends() {
    assert_ne!(hash(b"abc", 1), hash(b"abc", 2));
    assert_eq!(hash(b"abc", 1), hash(b"abc", 1));
}

#[test]
fn hash_of_a_long_field_depends_on_both_ends_and_the_length() {
    let text = vec![b'v'; 1000];
    for at in [0, 63, 936, 999] {
        let mut other = text.clone();
        other[at] = b'w';
        assert_ne!(hash(&other, 1), hash(&text, 1), "byte {at}");
    }
    assert_ne!(hash(&text[..999], 1), hash(&text, 1));
}

#[test]
fn sets_of_defects_join_and_contain() {
    let both = Defects::BAD_NAME | Defects::OVERSIZE;
    assert!(both.contains(Defects::OVERSIZE) && both.contains(Defects::BAD_NAME));
    assert!(!both.contains(Defects::BAD_VALUE));
    assert!(Defects::NONE.is_empty() && !both.is_empty());
}
