use super::*;

/// The example of RFC 7515 appendix A.1.
const RFC: &str = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9\
    .eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ\
    .dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";

/// base64url for the tests, written independently of the code under test.
fn encoded(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let bits: Vec<u8> = bytes.iter().flat_map(|byte| (0..8).rev().map(move |place| byte >> place & 1)).collect();
    let value = |group: &[u8]| (0..6).fold(0, |value, place| value << 1 | group.get(place).copied().unwrap_or(0));
    bits.chunks(6).map(|group| char::from(ALPHABET[usize::from(value(group))])).collect()
}

fn token(claims: &str) -> String {
    format!("{}.{}.{}", encoded(br#"{"alg":"RS256","kid":"x"}"#), encoded(claims.as_bytes()), encoded(b"signature"))
}

#[test]
fn base64url_is_decoded_as_the_rfc_has_it() {
    let mut parts = RFC.split('.');
    assert_eq!(
        base64url(parts.next().expect("a header")).as_deref(),
        Some(b"{\"typ\":\"JWT\",\r\n \"alg\":\"HS256\"}".as_slice())
    );
    assert_eq!(base64url(parts.nth(1).expect("a signature")).map(|bytes| bytes.len()), Some(32));
    for length in 0..40 {
        let bytes: Vec<u8> = (0..length).map(|number: u8| number.wrapping_mul(83)).collect();
        assert_eq!(base64url(&encoded(&bytes)), Some(bytes));
    }
    for wrong in ["A", "AAAAA", "AA==", "A+", "A/", "A A", "é"] {
        assert_eq!(base64url(wrong), None, "{wrong}");
    }
}

#[test]
fn a_token_of_kubernetes_is_read() {
    let text = r#"{"aud":["leno.dev"],"exp":1767225600,"iat":1767222000,"iss":"https://kubernetes.default.svc.cluster.local",
        "kubernetes.io":{"namespace":"shop","pod":{"name":"cart"}},"nbf":1767222000,"sub":"system:serviceaccount:shop:cart"}"#;
    let claims = Claims::read(&token(text)).expect("a token");
    assert_eq!(claims.issuer, "https://kubernetes.default.svc.cluster.local");
    assert_eq!(claims.subject, "system:serviceaccount:shop:cart");
    assert_eq!(claims.audiences, ["leno.dev"]);
    let expires = SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_225_600);
    assert!(!claims.is_expired(expires + CLOCKS_DIFFER_MAX - Duration::from_secs(1)));
    assert!(claims.is_expired(expires + CLOCKS_DIFFER_MAX + Duration::from_secs(1)));
}

#[test]
fn what_is_no_token_is_refused() {
    for text in ["", ".", "..", "a.b", "a.b.c.d", "nonsense", "a b.c.d", "AAAA..AAAA"] {
        assert_eq!(Claims::read(text), Err(NoToken::Form), "{text}");
    }
    // The RFC's example has no audience and no subject.
    for text in [RFC.to_owned(), token("[]"), token("{"), token(r#"{"iss":1,"sub":"a","aud":"b","exp":1}"#)] {
        assert_eq!(Claims::read(&text), Err(NoToken::Claims), "{text}");
    }
    assert_eq!(Claims::read(&"a".repeat(TOKEN_MAX_BYTES + 1)), Err(NoToken::TooLong(TOKEN_MAX_BYTES + 1)));
}

#[test]
fn audiences_are_a_text_or_a_short_list() {
    let with = |audiences: &str| Claims::read(&token(&format!(r#"{{"iss":"i","sub":"s","aud":{audiences},"exp":1}}"#)));
    assert_eq!(with("\"a\"").expect("one").audiences, ["a"]);
    assert_eq!(with("[]").expect("none").audiences, [""; 0]);
    let list = |length: usize| format!("[{}]", vec!["\"a\""; length].join(","));
    assert_eq!(with(&list(AUDIENCES_MAX)).expect("few enough").audiences.len(), AUDIENCES_MAX);
    assert_eq!(with(&list(AUDIENCES_MAX + 1)), Err(NoToken::Claims));
    assert_eq!(with("7"), Err(NoToken::Claims));
}
