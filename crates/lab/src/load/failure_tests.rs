use super::*;

#[test]
fn a_class_has_the_name_that_its_protocol_gives_it() {
    for (class, name) in [
        (FailureClass::Grpc(14), "gRPC UNAVAILABLE"),
        (FailureClass::Grpc(99), "gRPC 99"),
        (FailureClass::Http(503), "HTTP 503"),
        (FailureClass::Reset(7), "reset REFUSED_STREAM"),
        (FailureClass::TimeOut, "time-out"),
    ] {
        assert_eq!(class.to_string(), name);
    }
}

#[test]
fn an_error_of_a_connection_is_not_a_reset() {
    let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
    assert_eq!(Failure::connection(refused).class, FailureClass::Connection);
    assert_eq!(Failure::from(h2::Error::from(Reason::CANCEL)).class, FailureClass::Connection);
}

#[test]
fn every_class_is_the_same_after_json() {
    for (class, json) in [
        (FailureClass::Grpc(14), r#"{"grpc":14}"#),
        (FailureClass::Http(503), r#"{"http":503}"#),
        (FailureClass::Reset(u32::MAX), r#"{"reset":4294967295}"#),
        (FailureClass::Connection, r#""connection""#),
        (FailureClass::TimeOut, r#""time-out""#),
        (FailureClass::NotSent, r#""not-sent""#),
        (FailureClass::Protocol, r#""protocol""#),
        (FailureClass::Other, r#""other""#),
    ] {
        assert_eq!(serde_json::to_string(&class).expect("JSON"), json);
        assert_eq!(serde_json::from_str::<FailureClass>(json).expect("a class"), class);
    }
}
