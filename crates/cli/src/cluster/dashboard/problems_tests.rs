use super::super::mesh::tests::readings;
use super::*;
use crate::cluster::source::tests::proxy_of;

/// Labels of calls to the Service shop/cart.
const OUTBOUND: &str = "direction=\"outbound\",dst_namespace=\"shop\",dst_service=\"cart\",dst_port=\"80\"";

/// The problems of a mesh whose proxies have these metrics pages.
fn found(pages: &[(&str, &str)]) -> Vec<Problem> {
    found_with(pages, &Configurations::default())
}

fn found_with(pages: &[(&str, &str)], configuration: &Configurations) -> Vec<Problem> {
    let readings = readings(pages);
    let methods: Vec<_> = readings.measured().flat_map(|measured| methods::rows(measured, None, SECOND)).collect();
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    let mesh = Mesh::of(&readings);
    problems(&Facts {
        readings: &readings,
        mesh: &mesh,
        methods: &methods,
        denials: &[],
        configuration,
        options: Some(" -n shop"),
        period: Duration::from_secs(10),
        now,
    })
}

#[test]
fn a_healthy_mesh_has_no_problem() {
    let page = "response_total{direction=\"inbound\",target_port=\"80\",classification=\"success\"} 100\n\
                control_identity_cert_expiration_timestamp_seconds 1050000\nleno_control_plane_connected 1\n";
    assert!(found(&[("web", page)]).is_empty());
}

#[test]
fn failing_calls_come_before_a_certificate_that_ends_and_a_lost_control_plane() {
    let page = "response_total{direction=\"inbound\",target_port=\"80\",classification=\"failure\"} 50\n\
                response_total{direction=\"inbound\",target_port=\"80\",classification=\"success\"} 50\n\
                control_identity_cert_expiration_timestamp_seconds 1000600\nleno_control_plane_connected 0\n";
    let found = found(&[("web", page)]);
    let kinds: Vec<_> = found.iter().map(|problem| (problem.severity, problem.kind)).collect();
    assert_eq!(
        kinds,
        [(Severity::Error, "failing calls"), (Severity::Warning, "certificate"), (Severity::Warning, "control plane"),]
    );
    assert_eq!(found[0].what, "shop/web fails 50.0 % of its calls, as its own proxies count them");
    assert!(found[0].fix.starts_with("leno stat methods -n shop shows which method fails"), "{}", found[0].fix);
    assert_eq!(found[1].what, "The certificate of pod of shop/web expires in 10 min");
}

#[test]
fn a_certificate_is_a_problem_if_its_renewal_is_late_or_its_authority_ends() {
    let page = |left_s: u64, lifetime_s: u64| {
        let end = 1_000_000 + left_s;
        format!(
            "control_identity_cert_expiration_timestamp_seconds {end}\n\
             control_identity_cert_refresh_timestamp_seconds {}\n",
            end - lifetime_s
        )
    };
    const DAY_S: u64 = 86_400;
    assert!(found(&[("web", &page(DAY_S / 9, DAY_S))]).is_empty(), "more than a tenth is left");
    let late = found(&[("web", &page(DAY_S / 11, DAY_S))]);
    assert_eq!(late[0].what, "The certificate of pod of shop/web expires in 2 h 10 min");
    // The proxies have renewed both certificates in time, but the certificates expire early, together with their
    // authority.
    let ending = found(&[("cart", &page(600, 1_500)), ("web", &page(600, 900))]);
    assert_eq!(ending.len(), 1, "{ending:?}");
    assert!(
        ending[0].what.ends_with(" expires in 10 min") && ending[0].what.contains("The authority that"),
        "{ending:?}"
    );
    assert_eq!((ending[0].kind, ending[0].severity), ("certificate", Severity::Error));
}

/// A metrics page with calls of one method; `slow` calls take 0.3 to 0.5 s.
fn method(labels: &str, slow: u32, messages: u32) -> String {
    let labels = format!("{labels},grpc_service=\"s.S\",grpc_method=\"M\"");
    format!(
        "leno_method_requests_total{{{labels}}} 10\n\
         leno_method_messages_total{{{labels},side=\"response\"}} {messages}\n\
         leno_method_duration_seconds_bucket{{{labels},le=\"0.2\"}} {fast}\n\
         leno_method_duration_seconds_bucket{{{labels},le=\"0.3\"}} {fast}\n\
         leno_method_duration_seconds_bucket{{{labels},le=\"0.5\"}} 10\n\
         leno_method_duration_seconds_bucket{{{labels},le=\"+Inf\"}} 10\n",
        fast = 10 - slow
    )
}

#[test]
fn a_slow_method_is_named_and_a_stream_is_not() {
    const INBOUND: &str = "direction=\"inbound\",target_port=\"80\"";
    let slow = found(&[("web", &method(INBOUND, 2, 10))]);
    assert_eq!(
        slow[0].what,
        "s.S/M of shop/web is slow: 20.00 % of its calls take longer than 200 ms; p99 is between 300 and 500 ms"
    );
    assert_eq!(slow[0].fix, "The time passes in the application, or in the calls that it makes.");
    assert!(found(&[("web", &method(INBOUND, 2, 900))]).is_empty());
    assert!(found(&[("web", &method(INBOUND, 0, 10))]).is_empty());
    let slow = found(&[("web", &method(OUTBOUND, 2, 10))]);
    let beginning = "s.S/M of shop/cart is slow for shop/web: 20.00 % of the calls of shop/web take longer than";
    assert!(slow[0].what.starts_with(beginning), "{}", slow[0].what);
    assert_eq!(slow[0].service.as_deref(), Some("shop/cart"), "the page of the called Service has the endpoints");
}

#[test]
fn the_page_calls_the_same_calls_slow() {
    assert!(include_str!("page/format.js").contains(&format!("SLOW_MS = {};", methods::SLOW_MS)));
}

#[test]
fn a_slow_method_is_one_problem_however_many_proxies_count_it() {
    const INBOUND: &str = "direction=\"inbound\",target_port=\"80\"";
    let (cart, web) = (method(INBOUND, 2, 10), method(OUTBOUND, 3, 10));
    let [both] = &found(&[("cart", &cart), ("web", &web), ("mail", &web)])[..] else { panic!("one problem") };
    assert!(both.what.contains("is slow: 20.00 % of its calls"), "{both:?}");
    assert!(both.fix.starts_with("The time passes in the application") && both.fix.contains("leno tap"), "{both:?}");
    // The callers see far more slow calls than the application does, so the time passes between them, not in the
    // application.
    let two_ports = |slow| method(OUTBOUND, slow, 10) + &method(&OUTBOUND.replace("80", "81"), slow, 10);
    let (web, mail) = (two_ports(9), two_ports(3));
    let [waiting] = &found(&[("cart", &cart), ("web", &web), ("mail", &mail)])[..] else { panic!("one problem") };
    let beginning = "s.S/M of shop/cart is slow for shop/web and 1 more caller: 90.00 % of the calls of shop/web take";
    assert!(waiting.what.starts_with(beginning), "{waiting:?}");
    assert!(waiting.fix.starts_with("leno tap --slower-than 200ms -n shop"), "{waiting:?}");
}

#[test]
fn a_method_that_burns_its_budget_is_named_and_a_single_miss_is_not() {
    let page = |calls: f64, misses: f64| {
        let labels = "direction=\"outbound\",dst_namespace=\"shop\",dst_service=\"cart\",dst_port=\"80\",\
                      grpc_service=\"s.S\",grpc_method=\"M\"";
        let objective = format!("{labels},objective=\"success\"");
        format!(
            "leno_method_requests_total{{{labels}}} {calls}\n\
             leno_method_objective_calls_total{{{objective}}} {calls}\n\
             leno_method_objective_misses_total{{{objective}}} {misses}\n\
             leno_method_objective_ratio{{{objective}}} 0.99\n"
        )
    };
    let burning = found(&[("web", &page(100.0, 20.0))]);
    assert_eq!((burning[0].severity, burning[0].kind), (Severity::Error, "objective"));
    assert_eq!(burning[0].service.as_deref(), Some("shop/cart"));
    assert_eq!(
        burning[0].what,
        "s.S/M called by shop/web at cart.shop:80 misses its objective (success 99 %): 20.0 % of the calls miss success, \
         20 times as many as the objective allows"
    );
    assert_eq!(found(&[("web", &page(100.0, 10.0))])[0].severity, Severity::Warning);
    assert!(found(&[("web", &page(100.0, 5.0))]).is_empty(), "slower than the warning");
    assert!(found(&[("web", &page(0.2, 0.2))]).is_empty(), "too few misses");
}

#[test]
fn a_part_with_too_few_misses_does_not_hide_the_other_part() {
    let labels = format!("{OUTBOUND},grpc_service=\"s.S\",grpc_method=\"M\"");
    let part = |part: &str, calls: f64, misses: f64, ratio: f64| {
        let labels = format!("{labels},objective=\"{part}\"");
        format!(
            "leno_method_objective_calls_total{{{labels}}} {calls}\n\
             leno_method_objective_misses_total{{{labels}}} {misses}\n\
             leno_method_objective_ratio{{{labels}}} {ratio}\n"
        )
    };
    // In the period of 10 s, 2 of 1,000 calls fail, and 150 of the other 998 calls are slow: burn rates of 20 and 15.
    let page = format!("leno_method_requests_total{{{labels}}} 100\n")
        + &part("success", 100.0, 0.2, 0.9999)
        + &part("latency", 99.8, 15.0, 0.99)
        + &format!("leno_method_objective_bound_seconds{{{labels},objective=\"latency\"}} 0.05\n");
    let found = found(&[("web", &page)]);
    let burning = found.iter().find(|problem| problem.kind == "objective").expect("the slow calls are a problem");
    assert_eq!(burning.severity, Severity::Error);
    assert!(burning.what.contains("15.0 % of the calls miss latency, 15 times as many"), "{}", burning.what);
    assert!(burning.fix.starts_with("leno tap --slower-than 50ms"), "{}", burning.fix);
}

#[test]
fn only_the_name_of_a_service_becomes_a_part_of_a_command() {
    let fix = |service: &str| {
        let to = OUTBOUND.replace("\"cart\"", &format!("\"{service}\""));
        let page = format!("request_total{{{to}}} 10\nresponse_total{{{to},classification=\"failure\"}} 10\n");
        found(&[("web", &page)]).into_iter().find(|problem| problem.kind == "failing calls").expect("a problem").fix
    };
    assert!(fix("cart").starts_with("leno stat methods --to cart.shop -n shop shows"), "{}", fix("cart"));
    assert!(fix("x;reboot;").starts_with("leno stat methods -n shop shows"), "{}", fix("x;reboot;"));
}

#[test]
fn denied_calls_of_one_caller_do_not_hide_that_all_calls_of_the_others_fail() {
    let page = format!(
        "request_total{{{OUTBOUND}}} 100\n\
         response_total{{{OUTBOUND},classification=\"denied\",status_code=\"403\"}} 96\n\
         response_total{{{OUTBOUND},classification=\"failure\",status_code=\"503\"}} 4\n"
    );
    let found = found(&[("web", &page)]);
    assert_eq!((found[0].kind, found[0].severity), ("failing calls", Severity::Error), "{found:?}");
    assert!(found[0].what.starts_with("shop/cart fails 100.0 % of its calls"), "{found:?}");
}

#[test]
fn callers_are_told_that_their_calls_are_denied_if_the_denying_proxies_are_not_read() {
    let page = |status: u32| {
        format!(
            "request_total{{{OUTBOUND}}} 50\n\
             response_total{{{OUTBOUND},classification=\"success\",status_code=\"{status}\"}} 50\n"
        )
    };
    let denied = found(&[("web", &page(403))]);
    assert_eq!((denied[0].kind, denied[0].severity), ("denied calls", Severity::Warning));
    assert_eq!(
        denied[0].what,
        "shop/cart denies 50.0 of the 50.0 calls a second that it gets from the callers watched here"
    );
    assert!(found(&[("web", &page(200))]).is_empty());
    let served = "request_total{direction=\"inbound\",target_port=\"80\"} 1\n";
    assert!(found(&[("web", &page(403)), ("cart", served)]).is_empty(), "its own proxies count the denials");
}

#[test]
fn a_caller_with_an_identity_is_named_as_policies_write_it() {
    let denied = |caller: &str, policy| {
        how_to_allow(&Key { workload: "shop/echo".into(), port: "80".into(), caller: caller.into(), policy })
    };
    let own = || Policy::Authorization("shop/only-mail".into());
    assert!(denied("reports/nightly", own()).contains("add ns/reports/sa/nightly to spec.allow[].identities of the"));
    assert!(denied("no identity", own()).contains("add the caller to the policy"));
    let fix = denied("shop/web", Policy::Default("deny".into()));
    assert!(fix.contains("for port 80 of shop/echo that allows ns/shop/sa/web and all other callers"), "{fix}");
    let fix = denied("no identity", Policy::Default("all-authenticated".into()));
    assert!(fix.contains("give it an identity (a proxy in its Pod), or write an AuthorizationPolicy"), "{fix}");
}

#[test]
fn the_remedy_for_a_mistake_in_a_file_names_what_of_the_file_is_in_force() {
    let reported = |until_corrected: Option<&str>| Reported {
        what: "a.yaml:4: 80000 is no port".to_owned(),
        until_corrected: until_corrected.map(str::to_owned),
        by: "web".to_owned(),
    };
    let problems = vec![reported(Some("the file is invalid; no part of it is in force")), reported(None)];
    let found = found_with(&[], &Configurations { problems, ..Configurations::default() });
    let fixes: Vec<_> = found.iter().map(|problem| problem.fix.as_str()).collect();
    assert_eq!(fixes, ["The file is invalid; no part of it is in force.", "Correct the file."]);
    assert_eq!(found[0].what, "a.yaml:4: 80000 is no port (reported by web)");
}

#[test]
fn proxies_whose_problems_of_configuration_are_unknown_are_named() {
    let unread = vec![(proxy_of("web", "web-1"), "it did not send its /config within 3 s".to_owned())];
    let unasked = (0..7).map(|number| proxy_of("cart", &format!("cart-{number}"))).collect();
    let configuration = Configurations { unread, unasked, ..Configurations::default() };
    let found = found_with(&[], &configuration);
    let what: Vec<_> = found.iter().map(|problem| (problem.severity, problem.what.as_str())).collect();
    assert_eq!(
        what,
        [
            (
                Severity::Warning,
                "The proxy web-1 of shop/web has problems of configuration, which could not be read: it did not send \
                 its /config within 3 s"
            ),
            (
                Severity::Warning,
                "Problems of configuration were not read from 7 proxies, because there were too many or the time was over: cart-0 of shop/cart, cart-1 of \
                 shop/cart, cart-2 of shop/cart, cart-3 of shop/cart, cart-4 of shop/cart and 2 more"
            ),
        ]
    );
}

#[test]
fn names_that_the_control_plane_refuses_are_a_problem() {
    let found = found(&[("web", "leno_control_plane_connected 1\nleno_control_plane_refused_names 12\n")]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(
        found[0].what,
        "The control plane refuses 12 names of the proxy pod of shop/web, because of a limit, and sends no updates of them"
    );
}
