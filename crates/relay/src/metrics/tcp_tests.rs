use std::time::Duration;

use super::{TcpMetrics, TcpTotals};

#[test]
fn open_connections_follow_opens_and_closes() {
    let (one, two) = (TcpMetrics::default(), TcpMetrics::default());
    one.opened();
    one.opened();
    one.closed(Duration::from_millis(30));
    two.opened();

    let mut totals = TcpTotals::default();
    one.add_to(&mut totals);
    two.add_to(&mut totals);
    assert_eq!((totals.open_total, totals.close_total, totals.open_connections), (3, 1, 2));
    assert_eq!((totals.durations.count(), totals.durations.sum_us), (1, 30_000));
}
