use super::super::{Arrivals, CALL_MAX_BYTES, Hello, Shape, UnaryCall};
use super::*;

fn plan() -> Plan {
    let client = |port: u16| Client { address: ([10, 0, 0, 1], port).into(), authority: format!("echo:{port}") };
    Plan {
        clients: vec![client(80), client(81)],
        servers: vec!["s1".to_owned(), "s2".to_owned()],
        exchange: Exchange::Grpc,
        traffic: Traffic { shape: Shape::BidiStream, arrivals: Arrivals::Poisson, ..Traffic::default() },
        pattern: Pattern::Open { rate_per_s: 200, max_in_flight: 1_000 },
        warm_up: Duration::from_millis(1_500),
        measured: Duration::from_nanos(3_000_000_001),
        cpus: vec![2, 3],
        seed: u64::MAX,
    }
}

fn read(line: &str) -> Result<Plan> {
    Plan::read(line.as_bytes())
}

#[test]
fn a_plan_is_the_same_after_json() {
    let call = UnaryCall { path: "/a.B/C".to_owned(), message: vec![0, 10, 255] };
    let get = "/hello?x=1".to_owned();
    for exchange in [
        Exchange::Grpc,
        Exchange::TracedGrpc,
        Exchange::Http1,
        Exchange::Http2,
        Exchange::Call(call),
        Exchange::Http1Get(get.clone()),
        Exchange::Http2Get(get),
    ] {
        for pattern in [Pattern::Closed { in_flight: 8 }, plan().pattern] {
            let plan = Plan { exchange: exchange.clone(), pattern, ..plan() };
            let line = plan.to_line().expect("JSON");
            assert_eq!(line.find('\n'), Some(line.len() - 1));
            let again = read(&line).expect("a plan");
            assert_eq!(format!("{again:?}"), format!("{plan:?}"));
        }
    }
}

#[test]
fn a_plan_is_read_with_or_without_a_line_feed_and_no_further() {
    let line = plan().to_line().expect("JSON");
    assert!(read(line.trim_end()).is_ok());
    let two = line.clone() + "rest";
    let mut input = two.as_bytes();
    assert!(Plan::read(&mut input).is_ok());
    assert_eq!(input, b"rest");
}

#[test]
fn handshakes_cannot_be_sent_to_another_process() {
    let config = rustls::ClientConfig::builder_with_provider(rustls::crypto::aws_lc_rs::default_provider().into())
        .with_safe_default_protocol_versions()
        .expect("the provider's versions")
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let hello = Hello::new(config.into(), "echo").expect("a name");
    let error = Plan { exchange: Exchange::Handshake(hello), ..plan() }.to_line().expect_err("it has keys").to_string();
    assert!(error.starts_with("writing the plan of a load: ") && error.contains("Handshake"), "{error}");
}

#[test]
fn an_invalid_plan_is_an_error_of_one_line() {
    let hour = Duration::from_secs(3600);
    let valid = plan().to_line().expect("JSON");
    let line = |plan: Plan| plan.to_line().expect("JSON");
    let call = |path: &str, bytes| Exchange::Call(UnaryCall { path: path.to_owned(), message: vec![0; bytes] });
    let traffic = Traffic { response_bytes: u32::MAX, ..Traffic::default() };
    for (line, why) in [
        (String::new(), "EOF"),
        ("{\"clients\":\n".to_owned(), "EOF"),
        ("\0\u{7f}\n".to_owned(), "expected value"),
        (valid.replace("\"seed\"", "\"sed\""), "unknown field `sed`"),
        (valid.replace("\"grpc\"", "\"handshake\""), "unknown variant `handshake`"),
        (valid.replace("10.0.0.1", "10.0.0"), "invalid socket address"),
        (line(Plan { clients: Vec::new(), ..plan() }), "no clients"),
        (line(Plan { exchange: Exchange::Http1Get("/ \r\nx: y".to_owned()), ..plan() }), "its path"),
        (line(Plan { exchange: call("/a b", 0), ..plan() }), "its path"),
        (line(Plan { exchange: call("/a.B/C", CALL_MAX_BYTES + 1), ..plan() }), "its request of 1048577 bytes"),
        (line(Plan { servers: vec![String::new(); 1_001], ..plan() }), "1001 servers"),
        (line(Plan { warm_up: hour, measured: hour + Duration::from_nanos(1), ..plan() }), "longer than 7200 s"),
        (line(Plan { measured: Duration::MAX, ..plan() }), "longer than 7200 s"),
        (line(Plan { traffic, ..plan() }), "payload of 4294967295 bytes"),
    ] {
        let error = read(&line).expect_err(why).to_string();
        assert!(error.starts_with("reading the plan of a load: ") && error.contains(why), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn a_line_without_end_is_read_up_to_the_limit() {
    let error = Plan::read(std::io::BufReader::new(std::io::repeat(b' '))).expect_err("no plan").to_string();
    assert_eq!(error, "reading the plan of a load: its line has more than 16777216 bytes");
}
