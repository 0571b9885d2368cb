use super::super::mesh::Node;
use super::*;

fn mesh(calls: f64) -> Mesh {
    let mut node = Node { is_service: true, ..Node::default() };
    node.asked.calls = calls;
    Mesh { nodes: [("shop/cart".to_owned(), node)].into(), ..Mesh::default() }
}

#[test]
fn a_point_is_the_mean_of_its_snapshots_and_a_gap_is_null() {
    let mut history = History::default();
    for (second, calls) in [(0, 10.0), (5, 20.0), (30, 7.0), (41, 0.0)] {
        history.add(&mesh(calls), Duration::from_secs(second));
    }
    assert_eq!(history.series("shop/cart", 360).rate, [Some(15.0), None, None, Some(7.0)]);
    assert_eq!(history.series("shop/cart", 1).rate, [Some(7.0)]);
    assert_eq!(history.series("other", 2).rate, [None, None]);
}

#[test]
fn the_history_has_at_most_an_hour_and_a_fixed_number_of_series() {
    let mut history = History::default();
    for point in 0..500 {
        history.add(&mesh(1.0), POINT * point);
    }
    assert!(history.series["shop/cart"].len() <= POINTS);
    let node = || Node { is_service: true, ..Node::default() };
    let nodes = (0..SERIES_MAX + 10).map(|n| (format!("s-{n}"), node())).collect();
    history.add(&Mesh { nodes, ..Mesh::default() }, POINT * 501);
    history.add(&mesh(1.0), POINT * 502);
    assert_eq!(history.series.len(), SERIES_MAX);
}

#[test]
fn small_charts_have_three_digits() {
    let mut history = History::default();
    for (second, calls) in [(0, 0.123_456), (10, 1.0 / 3.0), (20, 12.345), (30, 12_345.678), (40, 0.0)] {
        history.add(&mesh(calls), Duration::from_secs(second));
    }
    let rates = history.rates(4);
    assert_eq!(rates[&"shop/cart".to_owned()], [Some(0.12), Some(0.33), Some(12.3), Some(12_346.0)]);
    assert_eq!(serde_json::to_string(&rates).expect("JSON"), r#"{"shop/cart":[0.12,0.33,12.3,12346.0]}"#);
}
