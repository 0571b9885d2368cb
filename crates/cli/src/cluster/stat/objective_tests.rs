use super::*;
use crate::cluster::scrape::Scrape;

const CART: &str = "direction=\"outbound\",dst_service=\"cart\",grpc_method=\"Get\"";

fn growth(page: &str) -> Growth {
    Growth { grown: Scrape::parse(page), now: Scrape::parse(page) }
}

fn page(calls: u32, misses: u32, slow: u32) -> String {
    let line = |metric: &str, part: &str, value: f64| {
        format!("leno_method_objective_{metric}{{{CART},objective=\"{part}\"}} {value}\n")
    };
    [
        line("calls_total", "success", calls.into()),
        line("misses_total", "success", misses.into()),
        line("ratio", "success", 0.999),
        line("calls_total", "latency", (calls - misses).into()),
        line("misses_total", "latency", slow.into()),
        line("ratio", "latency", 0.99),
        line("bound_seconds", "latency", 0.05),
    ]
    .concat()
}

fn only(pages: &[String]) -> Objective {
    let growths: Vec<Growth> = pages.iter().map(|page| growth(page)).collect();
    objectives(&growths, |_| Some(())).remove(&()).expect("an objective")
}

#[test]
fn counts_of_proxies_are_summed_and_their_ratios_are_not() {
    let objective = only(&[page(400, 4, 3), page(600, 0, 0)]);
    let success = objective.success.clone().expect("a part");
    assert_eq!((success.ratio, success.calls, success.misses), (0.999, 1_000.0, 4.0));
    assert!((success.burn_rate.expect("calls") - 4.0).abs() < 1e-6);
    assert_eq!(objective.text(), "success 99.9 %, p99 50ms");
    assert_eq!(objective.worse(|_| true).expect("a part").0, "success");
}

#[test]
fn the_worse_part_gives_the_burn_rate() {
    let objective = only(&[page(1_000, 1, 100)]);
    assert_eq!(objective.worse(|_| true).expect("a part").0, "latency");
    assert!((objective.burn_rate().expect("calls") - 10.01).abs() < 0.01);
}

#[test]
fn without_calls_there_is_an_objective_and_no_burn_rate() {
    let objective = only(&[page(0, 0, 0)]);
    assert_eq!((objective.burn_rate(), objective.text()), (None, "success 99.9 %, p99 50ms".to_owned()));
}

#[test]
fn counts_without_a_ratio_are_no_objective() {
    let page = page(1_000, 10, 0).replace("ratio", "other");
    assert!(objectives(&[growth(&page)], |_| Some(())).is_empty());
}
