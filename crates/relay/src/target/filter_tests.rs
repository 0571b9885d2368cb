use leno_http2::FieldSection;
use leno_model::route::{Header, HeaderModifier, PathMatch, PathRewrite, Rewrite};

use super::{modify, rewrite};

fn section(fields: &[(&str, &str)]) -> FieldSection {
    let mut section = FieldSection::new();
    fields.iter().for_each(|(name, value)| section.push(name.as_bytes(), value.as_bytes()));
    section
}

fn lines(section: &FieldSection) -> Vec<String> {
    section.iter().map(|line| format!("{line:?}")).collect()
}

fn headers(fields: &[(&str, &str)]) -> Box<[Header]> {
    fields.iter().map(|(name, value)| Header { name: (*name).into(), value: (*value).into() }).collect()
}

#[test]
fn fields_are_removed_then_set_then_added() {
    let mut fields = section(&[(":path", "/"), ("x-gone", "1"), ("x-set", "old"), ("x-set", "older"), ("x-add", "a")]);
    let modifier = HeaderModifier {
        set: headers(&[("x-set", "new"), ("x-fresh", "1")]),
        add: headers(&[("x-add", "b"), ("cookie", "c")]),
        remove: [Box::from("x-gone"), Box::from("x-never-there")].into(),
    };
    modify(&mut fields, &modifier);
    assert_eq!(lines(&fields), [":path: /", "x-add: a", "x-set: new", "x-fresh: 1", "x-add: b", "cookie: c"]);
}

#[test]
fn no_modifier_touches_what_frames_a_message_or_what_proxies_tell_each_other() {
    let before =
        [(":path", "/"), ("host", "a"), ("content-length", "3"), ("te", "trailers"), ("leno-orig-proto", "HTTP/1.1")];
    let protected = [
        ":path",
        ":status",
        ":method",
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "keep-alive",
        "upgrade",
        "proxy-connection",
        "te",
        "leno-orig-proto",
        "leno-upgrade",
        "leno-proxy-error",
        "leno-anything",
    ];
    let mut fields = section(&before);
    let forged: Vec<(&str, &str)> = protected.iter().map(|name| (*name, "forged")).collect();
    let remove = protected.iter().map(|name| Box::from(*name)).collect();
    modify(&mut fields, &HeaderModifier { set: headers(&forged), add: headers(&forged), remove });
    assert_eq!(lines(&fields), lines(&section(&before)));
}

#[test]
fn a_rewrite_changes_host_and_path_and_keeps_the_query() {
    let mut request =
        section(&[(":method", "GET"), (":authority", "cart"), (":path", "/v1/items?id=1"), ("host", "cart")]);
    let to_v2 = Rewrite { hostname: Some("carts.example".into()), path: Some(PathRewrite::Prefix("/v2".into())) };
    rewrite(&mut request, &to_v2, &PathMatch::prefix("/v1"));
    assert_eq!(lines(&request), [":method: GET", ":authority: carts.example", ":path: /v2/items?id=1"]);
}
