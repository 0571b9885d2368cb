use std::io::Write;

use clap::Parser;

use super::*;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    options: Options,
}

fn parse(words: &str) -> std::result::Result<Options, String> {
    let words = std::iter::once("run").chain(words.split_whitespace());
    Command::try_parse_from(words).map(|command| command.options).map_err(|error| error.to_string())
}

fn options(words: &str) -> Options {
    parse(words).unwrap_or_else(|error| panic!("{words}: {error}"))
}

fn refused(words: &str) -> String {
    match options(words).settings() {
        Err(error) => error.to_string(),
        Ok(_) => panic!("{words} was accepted"),
    }
}

const CALL: &str = "--cluster --service shop/hello:grpc --call a.B/C";
const URL: &str = "--cluster --service hello:80 --url /hello?x=1";

#[test]
fn the_scenarios_that_leave_the_servers_alone_are_accepted() {
    for scenario in ["ladder", "connections", "crowd", "footprint"] {
        for (request, protocol) in [
            (CALL.to_owned(), Protocol::Grpc),
            (URL.to_owned(), Protocol::Http1),
            (format!("{URL} --protocol http2"), Protocol::Http2),
            (format!("{CALL} --protocol grpc --rate 10 --arrivals poisson --warm-up-rate ramp"), Protocol::Grpc),
        ] {
            let words = format!("{scenario} {request}");
            let settings = options(&words).settings().unwrap_or_else(|error| panic!("{words}: {error}"));
            assert_eq!(settings.protocol, protocol, "{words}");
            assert_eq!((settings.traffic.request_bytes, settings.traffic.response_bytes), (0, 0), "{words}");
            assert!(settings.cases.iter().all(|case| case.skew_ms == 0), "{words}");
        }
    }
}

#[test]
fn other_scenarios_are_refused_with_those_that_run() {
    for scenario in ["slow-pod", "recover", "fast-fail", "rollout", "streams"] {
        let error = refused(&format!("{scenario} {CALL}"));
        assert!(error.starts_with(&format!("{scenario} cannot run with --service: ")), "{error}");
        assert!(error.ends_with("use one of connections, ladder, crowd, footprint"), "{error}");
    }
}

#[test]
fn a_service_needs_exactly_one_request() {
    let error = refused("ladder --cluster --service hello:80");
    assert!(error.contains("--call") && error.contains("--url"), "{error}");
    let error = parse(&format!("ladder {CALL} --url /")).expect_err("two requests");
    assert!(error.contains("cannot be used with"), "{error}");
}

#[test]
fn each_option_names_the_option_that_it_needs() {
    for (words, needed) in [
        ("ladder --service hello:80 --url /", "--cluster"),
        ("ladder --cluster --url /", "--service"),
        ("ladder --cluster --call a.B/C", "--service"),
        ("ladder --cluster --service hello:80 --data x", "--call"),
        ("ladder --cluster --service hello:80 --descriptor-set x", "--call"),
    ] {
        let error = parse(words).expect_err(words);
        assert!(error.contains(needed), "{words}: {error}");
    }
    for flag in ["--data", "--descriptor-set"] {
        let error = refused(&format!("ladder {URL} {flag} x"));
        assert!(error.starts_with(&format!("{flag} means nothing with --url")), "{error}");
    }
}

#[test]
fn options_of_the_labs_servers_are_refused() {
    for (words, flag) in [
        ("--skew-ms 50", "--skew-ms"),
        ("--backends 3", "--backends"),
        ("--work-ms 1", "--work-ms"),
        ("--spread-ms 1", "--spread-ms"),
        ("--exchange unary", "--exchange"),
        ("--messages 2", "--messages"),
        ("--payload-bytes 10", "--payload-bytes"),
        ("--response-bytes 10", "--response-bytes"),
    ] {
        for request in [CALL, URL] {
            let error = refused(&format!("ladder {request} {words}"));
            assert!(error.starts_with(&format!("{flag} means nothing with --service: ")), "{error}");
        }
    }
    let error = refused(&format!("ladder {CALL} --protocol http1"));
    assert!(error.starts_with("--protocol http1 cannot carry --call"), "{error}");
    let error = refused(&format!("ladder {URL} --protocol grpc"));
    assert!(error.starts_with("--protocol grpc cannot carry --url"), "{error}");
}

#[test]
fn a_service_has_a_name_and_a_port() {
    let of = |text: &str| text.parse::<ServicePort>();
    let hello = |namespace: Option<&str>, port| ServicePort {
        namespace: namespace.map(str::to_owned),
        name: "hello".to_owned(),
        port,
    };
    assert_eq!(of("shop/hello:80"), Ok(hello(Some("shop"), PortName::Number(80))));
    assert_eq!(of("hello:http-alt"), Ok(hello(None, PortName::Name("http-alt".to_owned()))));
    for text in ["hello", "hello:", "/hello:80", "a/b/c:80", "Hello:80", "hello:0", "hello:65536", "hello:80:80", ":80"]
    {
        let error = of(text).expect_err(text);
        assert!(error.contains("write ") && !error.contains('\n'), "{error}");
    }
}

#[test]
fn a_url_is_a_path() {
    for url in ["hello", "http://hello/", "/a#b", "*"] {
        let error = parse(&format!("ladder --cluster --service hello:80 --url {url}")).expect_err(url);
        assert!(error.contains("/hello?x=1"), "{url}: {error}");
    }
}

#[test]
fn the_request_is_read_from_its_file() {
    let json = |options: &str| {
        let request = options_of(options).request(Protocol::Grpc);
        match request {
            Ok(Some(Request::Call { json, .. })) => json,
            other => panic!("{options}: {other:?}"),
        }
    };
    assert_eq!(json(""), "{}");
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(b"{\"x\": 1}").expect("room");
    assert_eq!(json(&format!("--data {}", file.path().display())), "{\"x\": 1}");
    for (words, flag) in
        [("--data /does/not/exist", "--data"), ("--descriptor-set /does/not/exist", "--descriptor-set")]
    {
        let error = options_of(words).request(Protocol::Grpc).map(drop).expect_err(words).to_string();
        assert!(error.starts_with(&format!("{flag} /does/not/exist: ")), "{error}");
    }
    let words = format!("--descriptor-set {}", file.path().display());
    let error = options_of(&words).request(Protocol::Grpc).map(drop).expect_err("no descriptors").to_string();
    assert!(error.contains("--include_imports") && !error.contains('\n'), "{error}");
}

fn options_of(words: &str) -> WorkloadOptions {
    options(&format!("ladder {CALL} {words}")).cluster.workload
}
