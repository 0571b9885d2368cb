use leno_http2::FieldSection;

use super::*;

fn pushed(fields: &[(&str, &str)]) -> String {
    let mut section = FieldSection::new();
    for (name, value) in fields {
        section.push(name.as_bytes(), value.as_bytes());
    }
    let mut line = Vec::new();
    push(&mut line, "headers", &section);
    String::from_utf8(line).expect("text")
}

#[test]
fn fields_keep_their_order_and_are_escaped() {
    assert_eq!(
        pushed(&[(":method", "GET"), ("x-a", "say \"hi\""), ("x-a", "2")]),
        r#","headers":[[":method","GET"],["x-a","say \"hi\""],["x-a","2"]]"#
    );
    assert_eq!(pushed(&[]), "");
}

#[test]
fn secrets_are_blanked_wherever_they_may_be() {
    for name in [
        "authorization",
        "Cookie",
        "x-auth-token",
        "x-api-key",
        "My-Session-Id",
        "x-user-password",
        "x-jwt",
        "x-forwarded-authorization",
        "x-original-cookie",
        "x-amzn-oidc-data",
        "x-functions-key",
        "x-otp",
        "trace-bin",
    ] {
        let text = pushed(&[(name, "hunter2")]);
        assert!(!text.contains("hunter2") && text.contains("(blanked)"), "{text}");
    }
    for (name, url) in [(":path", "/items"), ("location", "https://a.example/cb"), ("referer", "http://a.example/")] {
        let text = pushed(&[(name, &format!("{url}?code=hunter2"))]);
        assert!(text.contains(&format!("[\"{name}\",\"{url}\"]")), "{text}");
    }
    assert!(pushed(&[("grpc-message", "what is this?")]).contains("what is this?"));
    for name in [":authority", "content-type", "grpc-timeout", "user-agent", "x-request-id"] {
        assert!(pushed(&[(name, "shown")]).contains("shown"), "{name}");
    }
}

#[test]
fn long_sections_are_cut() {
    let value = "v".repeat(10_000);
    let fields: Vec<_> = (0..100).map(|_| ("x-a", value.as_str())).collect();
    let text = pushed(&fields);
    assert!(text.len() < MAX_SECTION_BYTES + 2 * MAX_TEXT_BYTES, "{} bytes", text.len());
    let json = format!("{{\"a\":1{text}}}");
    serde_json::from_str::<serde_json::Value>(&json).expect("JSON");
}
