use super::super::problems::Severity;
use super::*;
use crate::cluster::clock::BootInstant;
use crate::cluster::scrape::Scrape;
use crate::cluster::source::Proxies;
use crate::cluster::source::tests::proxy;

const WINDOW: Duration = Duration::from_secs(300);

/// The metrics page of a proxy that has counted `calls` calls; `failures` calls failed. The called method has an
/// objective of 99 % successful calls.
fn page(calls: u32, failures: u32) -> Scrape {
    let inbound = "direction=\"inbound\",target_port=\"80\"";
    let outbound = "direction=\"outbound\",dst_namespace=\"shop\",dst_service=\"cart\",dst_port=\"80\",\
                    grpc_service=\"s.S\",grpc_method=\"M\"";
    let objective = format!("{outbound},objective=\"success\"");
    Scrape::parse(&format!(
        "response_total{{{inbound},classification=\"failure\"}} {failures}\n\
         response_total{{{inbound},classification=\"success\"}} {}\n\
         leno_method_requests_total{{{outbound}}} {calls}\n\
         leno_method_objective_calls_total{{{objective}}} {calls}\n\
         leno_method_objective_misses_total{{{objective}}} {failures}\n\
         leno_method_objective_ratio{{{objective}}} 0.99\n",
        calls - failures
    ))
}

/// Returns the kinds of problems that the dashboard shows as errors after 300 s. It reads the proxy every 2 s. In the
/// first 10 s, the proxy counts 100 calls, and `failures` of the 100 calls fail. Afterwards, it counts no further call.
fn errors(window: Option<Duration>, failures: u32) -> Vec<&'static str> {
    let (every, start) = (Duration::from_secs(2), BootInstant::now());
    let state = State::new(Proxies::on_this_machine(Vec::new()), None, every, window);
    let mut readings = state.readings.borrow_mut();
    readings.take(News::Proxies([proxy()].into()));
    for second in (0..=300).step_by(2) {
        let page = if second < 10 { page(0, 0) } else { page(100, failures) };
        readings.take(News::Page(proxy(), page, start + SECOND * second));
    }
    drop(readings);
    snapshot(&state);
    let problems = state.problems.take();
    problems.iter().filter(|problem| problem.severity == Severity::Error).map(|problem| problem.kind).collect()
}

#[test]
fn a_window_remembers_a_fault_in_its_first_minute() {
    assert_eq!(errors(Some(WINDOW), 50), ["failing calls", "objective"]);
    assert_eq!(errors(Some(WINDOW), 2), [""; 0], "too few calls failed");
    assert_eq!(errors(None, 50), [""; 0], "the dashboard shows the present");
}
