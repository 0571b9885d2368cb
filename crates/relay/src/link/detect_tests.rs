use std::sync::Arc;

use leno_http2::frame::PREFACE;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use super::*;

/// Returns the first bytes that a TLS client sends: its ClientHello.
fn client_hello(name: &str) -> Vec<u8> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).expect("a name");
    let mut client = ClientConnection::new(Arc::new(config), name).expect("a client");
    let mut hello = Vec::new();
    client.write_tls(&mut hello).expect("memory");
    hello
}

#[test]
fn the_first_bytes_tell_what_is_spoken() {
    assert_eq!(detect(PREFACE), Detected::Http2);
    assert_eq!(detect(b"GET / HTTP/1.1\r\n"), Detected::Http1);
    assert_eq!(detect(b"OPTIONS * HTTP/1.0\r\n"), Detected::Http1);
    assert_eq!(detect(b"M-SEARCH * HTTP/1.1\r\n"), Detected::Http1);
    for other in
        [&b"SSH-2.0-OpenSSH\r\n"[..], b" GET /", &[0, 0, 0, 4], b"INVALID CONNECTION PREFACE\r\n\r\n", b"SELECT 1\n"]
    {
        assert_eq!(detect(other), Detected::Opaque, "{other:?}");
    }
}

#[test]
fn the_front_of_a_preface_or_of_a_request_line_waits_for_the_rest() {
    for come in 0..PREFACE.len() {
        assert_eq!(detect(&PREFACE[..come]), Detected::Undecided, "{come}");
    }
    let line = b"DELETE /a/target HTTP/1.1\r\n";
    for come in 0..line.len() {
        assert_eq!(detect(&line[..come]), Detected::Undecided, "{come}");
    }
    assert_eq!(detect(&[b"PUT /", [b'a'; DETECT_BYTES].as_slice()].concat()), Detected::Opaque);
}

#[test]
fn the_server_name_of_a_client_hello_is_read_once_all_of_it_is_there() {
    let hello = client_hello("50051.leno.internal");
    for come in 1..hello.len() {
        assert_eq!(detect(&hello[..come]), Detected::Undecided, "{come} of {}", hello.len());
    }
    let server_name = Some("50051.leno.internal".to_owned());
    assert_eq!(detect(&hello), Detected::Tls { server_name });
    assert_eq!(detect(&client_hello("127.0.0.1")), Detected::Tls { server_name: None });
}

#[test]
fn a_client_hello_in_records_of_a_byte_is_read_once_all_of_it_is_there() {
    let whole = client_hello("echo.example.org");
    let (header, message) = whole.split_at(5);
    let records: Vec<u8> = message.iter().flat_map(|byte| [header[0], header[1], header[2], 0, 1, *byte]).collect();
    for length in 1..records.len() {
        assert_eq!(detect(&records[..length]), Detected::Undecided, "{length} bytes");
        assert_ne!(has_whole_message(&records[..length]), Some(true), "{length} bytes are not parsed");
    }
    assert_eq!(detect(&records), Detected::Tls { server_name: Some("echo.example.org".to_owned()) });
}

#[test]
fn a_client_hello_that_is_too_long_to_be_read_names_no_server() {
    let hello = [[22, 3, 1, 0x40, 0, 1].as_slice(), &[7; DETECT_BYTES]].concat();
    assert_eq!(detect(&hello[..DETECT_BYTES - 1]), Detected::Undecided);
    assert_eq!(detect(&hello[..DETECT_BYTES]), Detected::Tls { server_name: None });
    assert!((1..10).all(|come| begins_tls(&hello[..come])));
    for other in [&b""[..], &[23], &[22, 2], &[22, 3, 1, 0, 5, 2], b"GET /"] {
        assert!(!begins_tls(other), "{other:?}");
    }
}

#[test]
fn what_only_begins_like_tls_is_opaque() {
    assert_eq!(detect(&[22, 3, 1, 0, 4, 9, 9, 9, 9]), Detected::Opaque);
    assert_eq!(detect(&[22, 3, 16, 0, 0]), Detected::Opaque);
    assert_eq!(detect(&[22, 3, 16, 0, 0, 1, 0]), Detected::Opaque);
    assert_eq!(detect(&[[22, 3, 1, 255, 255].as_slice(), &[1; 100]].concat()), Detected::Opaque);
}

#[test]
fn a_server_that_begins_with_settings_speaks_http2_and_a_greeting_is_none() {
    let settings = [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 100];
    assert!(is_server_preface(&settings) && is_server_preface(&[0, 0, 0, 4, 0, 0, 0, 0, 0]));
    let acknowledgement = [0, 0, 0, 4, 1, 0, 0, 0, 0];
    let greeting_of_mariadb = b"\x5a\0\0\0\x0a5.5.5-10.11.6-MariaDB";
    for other in
        [&acknowledgement[..], &settings[..8], b"SSH-2.0-OpenSSH_9.2", b"220 mail ESMTP", greeting_of_mariadb, b""]
    {
        assert!(!is_server_preface(other), "{other:?}");
    }
}
