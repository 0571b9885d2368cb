use super::*;

/// The characters whose encoding is one byte, or two bytes that are not ASCII.
fn characters() -> impl Iterator<Item = char> {
    '\0'..='\u{ff}'
}

fn is_authority_of_http(authority: &str) -> bool {
    http::uri::Authority::try_from(authority).is_ok()
}

#[test]
fn methods_are_those_that_the_crate_http_accepts() {
    for byte in 0..=255u8 {
        let method = [b'A', byte, b'a'];
        assert_eq!(is_token(&method), http::Method::from_bytes(&method).is_ok(), "{byte:#x}");
    }
    assert!(!is_token(b""));
}

#[test]
fn values_are_those_that_the_crate_http_accepts() {
    for byte in 0..=255u8 {
        for len in [1, 3, 40] {
            for at in [0, len / 2, len - 1] {
                let mut value = vec![b'v'; len];
                value[at] = byte;
                let expected = http::HeaderValue::from_bytes(&value).is_ok();
                assert_eq!(is_value(&value), expected, "{byte:#x} at {at} of {len}");
            }
        }
    }
    assert!(is_value(b""));
}

#[test]
fn paths_of_uris_are_those_that_the_crate_http_accepts() {
    for c in characters() {
        for path in [format!("/a{c}b"), format!("/a?b{c}d")] {
            let parsed = http::uri::PathAndQuery::try_from(path.as_bytes());
            // The crate http drops a fragment.
            let expected = parsed.is_ok_and(|parsed| parsed.as_str() == path);
            assert_eq!(is_uri_path(path.as_bytes()), expected, "{path:?}");
            assert!(!expected || is_path(path.as_bytes()), "{path:?}");
        }
    }
}

#[test]
fn paths_that_clients_send_are_accepted() {
    for path in
        ["/", "*", "//a", "/a.B/C", "/caf\u{e9}/\u{4e16}", "/%20?a=b&c", "/a|b\"{}^\\?a|b{}^\\`??", "/a:b@c;d,e"]
    {
        assert!(is_path(path.as_bytes()) && is_uri_path(path.as_bytes()), "{path}");
    }
    for path in ["/a<b", "/a`b", "/a?up{job=\"b\"}", "/a?<b>"] {
        assert!(is_path(path.as_bytes()) && !is_uri_path(path.as_bytes()), "{path}");
    }
    for path in ["", "a", "?a", "**", "*/a", "http://a/b", "/a b", "/a#b", "/a\u{7f}"] {
        assert!(!is_path(path.as_bytes()) && !is_uri_path(path.as_bytes()), "{path}");
    }
    for path in [&b"/caf\xe9"[..], b"/a?\xff", b"/\xc0\xaf"] {
        assert!(is_path(path) && !is_uri_path(path), "{}", path.escape_ascii());
    }
}

#[test]
fn the_crate_http_accepts_every_authority_that_is_accepted_here() {
    for c in characters() {
        for authority in [format!("a{c}b"), format!("a:{c}"), format!("{c}:1"), format!("[::{c}]:1")] {
            if is_authority(authority.as_bytes()) {
                assert!(is_authority_of_http(&authority), "{authority:?}");
            }
        }
    }
}

#[test]
fn authorities_that_clients_send_are_accepted() {
    for authority in [
        "a",
        "a:1",
        "echo.default.svc.cluster.local:50051",
        "x_y-z~1:80",
        ":50051",
        "a:",
        "10.0.0.1:80",
        "[::1]",
        "[::1]:80",
        "[1:2:3:4:5:6:7::]:80",
        "[::ffff:10.0.0.1]:80",
    ] {
        assert!(is_authority(authority.as_bytes()) && is_authority_of_http(authority), "{authority}");
    }
}

#[test]
fn other_authorities_are_rejected() {
    for authority in [
        "",
        "a b",
        "a/b",
        "a?b",
        "a#b",
        "user@a",
        "a,b",
        "a%62",
        "a:1:2",
        "::1",
        "[::1",
        "::1]",
        "a[::1]",
        "[::1]a",
        "[::1]80",
        "[]",
        "[a]",
        "[10.0.0.1]",
        "[::1]:1:2",
        "[::1%25eth0]:1",
        "caf\u{e9}",
        "a\n",
    ] {
        assert!(!is_authority(authority.as_bytes()), "{authority}");
    }
    assert!(!is_authority(b"a\xff"));
}
