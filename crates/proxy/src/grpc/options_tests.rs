use std::ffi::OsString;
use std::path::Path;

use serde_json::Value;

use super::Options;
use crate::args::Exit;

const LINE: &str = "leno-proxy --directory /var/run/leno/grpc --control leno-control.leno.svc:15010 --node shop/web-1 \
                    --identity ns/shop/sa/web --issuer leno-control.leno.svc:15012 --token token --trust-bundle ca.crt";

fn read(line: &str) -> Result<Options, Exit> {
    Options::read(line.split_whitespace().map(OsString::from))
}

fn refused(line: &str) -> String {
    match read(line) {
        Err(Exit::Usage(line)) => line,
        other => panic!("it was not refused: {other:?}"),
    }
}

#[test]
fn the_bootstrap_names_the_control_plane_the_files_and_the_node() {
    let text = read(LINE).expect("it is complete").bootstrap(Path::new("/var/run/leno/grpc"));
    let bootstrap: Value = serde_json::from_str(&text).expect("JSON");
    let server = &bootstrap["xds_servers"][0];
    assert_eq!(server["server_uri"], "leno-control.leno.svc:15010");
    assert_eq!(server["channel_creds"][0]["type"], "tls");
    let provider = &bootstrap["certificate_providers"]["leno"]["config"];
    for files in [&server["channel_creds"][0]["config"], provider] {
        assert_eq!(files["certificate_file"], "/var/run/leno/grpc/tls.crt");
        assert_eq!(files["private_key_file"], "/var/run/leno/grpc/tls.key");
        assert_eq!(files["ca_certificate_file"], "/var/run/leno/grpc/ca.crt");
    }
    assert_eq!((&bootstrap["node"]["id"], &bootstrap["node"]["cluster"]), (&"shop/web-1".into(), &"shop".into()));
    assert_eq!(bootstrap["node"]["metadata"]["leno.dev"]["mutual-tls"], true);
}

#[test]
fn an_incomplete_command_line_is_refused_with_the_flag_that_is_missing() {
    let without = |words: &str| LINE.replace(words, "");
    assert!(refused(&without("--control leno-control.leno.svc:15010")).contains("--control"));
    assert!(refused(&without("--directory /var/run/leno/grpc")).contains("--directory"));
    assert!(refused("leno-proxy --directory a --control b:1").contains("--identity"));
    assert!(refused(&LINE.replace("svc:15012", "svc")).contains("--issuer leno-control.leno.svc: write a name"));
}
