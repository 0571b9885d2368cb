use super::*;
use crate::echo::proto::{DESCRIPTORS, EchoRequest};

fn name(text: &str) -> MethodName {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn call_echo(method: &str, json: &str) -> Result<UnaryCall> {
    let descriptors = DescriptorPool::decode(DESCRIPTORS).expect("descriptors");
    call(&descriptors, &name(method), json)
}

fn refused(method: &str, json: &str) -> String {
    let error = call_echo(method, json).expect_err("an error").to_string();
    assert_eq!(error.lines().count(), 1, "{error}");
    error
}

#[test]
fn json_becomes_the_request_of_its_method() {
    let json = r#"{"payload": "aGVsbG8=", "responseBytes": 7, "delay_ms": 3}"#;
    let call = call_echo("leno.echo.v1.Echo/Unary", json).expect("a call");
    assert_eq!(call.path, "/leno.echo.v1.Echo/Unary");
    let request = EchoRequest::decode(&call.message[..]).expect("a request");
    let expected = EchoRequest { payload: b"hello".into(), response_bytes: 7, delay_ms: 3, ..EchoRequest::default() };
    assert_eq!(request, expected);
    assert!(call_echo("leno.echo.v1.Echo/Unary", "{}").expect("a call").message.is_empty());
}

#[test]
fn json_of_another_message_is_refused_with_the_place() {
    for (json, why) in [
        (r#"{"payload": "aGVsbG8=", "size": 7}"#, "'size'"),
        (r#"{"responseBytes": -1}"#, "line 1 column"),
        ("{} {}", "trailing characters"),
        ("", "EOF"),
        ("[]", "line 1 column"),
    ] {
        let error = refused("leno.echo.v1.Echo/Unary", json);
        assert!(error.starts_with("--data for leno.echo.v1.Echo/Unary is no leno.echo.v1.EchoRequest"), "{error}");
        assert!(error.contains(why), "{error}");
    }
    let error = refused("leno.echo.v1.Echo/Unary", &format!("{{\"payload\": \"{}\"}}", "A".repeat(1_500_000)));
    assert!(error.contains("the request has 1125004 bytes, more than 1048576"), "{error}");
}

#[test]
fn a_wrong_name_is_refused_with_the_right_ones() {
    let error = refused("leno.echo.v1.Echo/Unry", "{}");
    assert!(error.starts_with("--call leno.echo.v1.Echo/Unry: there is no such method"), "{error}");
    assert!(error.contains("Unary, ServerStream, ClientStream, Bidi, SetDelay"), "{error}");
    let error = refused("leno.echo.Echo/Unary", "{}");
    assert!(error.ends_with("the services are: leno.echo.v1.Echo"), "{error}");
}

#[test]
fn a_streaming_method_is_refused() {
    for method in ["ServerStream", "ClientStream", "Bidi"] {
        let error = refused(&format!("leno.echo.v1.Echo/{method}"), "{}");
        assert!(error.contains("the method streams messages"), "{error}");
    }
}

#[test]
fn a_name_has_a_service_and_a_method() {
    assert_eq!(name("/a.b.C/D").to_string(), "a.b.C/D");
    for text in ["a.b.C", "a.b.C/", "/D", "", "a b/C", "a/b/c", "a/b\r\nc"] {
        let error = text.parse::<MethodName>().expect_err(text);
        assert!(error.starts_with("write PACKAGE.SERVICE/METHOD"), "{error}");
    }
}

#[test]
fn a_list_of_names_is_short_and_one_line() {
    let names = |count: usize| list((0..count).map(|number| format!("a\n\u{1b}{number}")));
    assert_eq!(names(2), "a  0, a  1");
    assert!(names(500).ends_with("a  19, and 480 more"), "{}", names(500));
    assert_eq!(names(0), "none");
}
