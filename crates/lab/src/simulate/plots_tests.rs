use super::*;

#[test]
fn files_are_named_by_what_they_show() {
    assert_eq!(file_name("slow-pod: 5 endpoints, closed:200, +10 ms"), "slow-pod-5-endpoints-closed-200-10-ms.svg");
}

#[test]
fn a_title_says_what_fits() {
    assert_eq!(title("herd: 100 endpoints, median 5 ms, 10 calls/s"), "herd: median 5 ms, 10 calls/s");
}

#[test]
fn every_balancer_of_a_table_has_its_line() {
    let row = |kind, x| {
        Row::new(Scenario::SlowPod, "a setting".to_owned(), format!("+{x} ms"), kind)
            .at(x)
            .figure("p99 ms", 10.0 + x)
            .figure("its share %", 1.0)
    };
    let rows: Vec<Row> = [0.0, 10.0, 50.0].iter().flat_map(|x| Kind::COMPARED.map(|kind| row(kind, *x))).collect();
    let plots = draw(&rows);
    assert_eq!(plots.len(), 2, "p99 and share");
    for kind in Kind::COMPARED {
        assert!(plots.iter().all(|plot| plot.svg.contains(kind.name())), "{kind}");
    }
}
