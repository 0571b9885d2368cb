use std::io::ErrorKind;
use std::time::Duration;

use super::{TcpMetrics, TcpTotals};

#[test]
fn open_connections_follow_opens_and_closes() {
    let (one, two) = (TcpMetrics::default(), TcpMetrics::default());
    one.opened();
    one.opened();
    one.closed(Duration::from_millis(30), None);
    two.opened();

    let mut totals = TcpTotals::default();
    one.add_to(&mut totals);
    two.add_to(&mut totals);
    assert_eq!((totals.open_total, totals.closed_in_order, totals.open_connections), (3, 1, 2));
    assert_eq!((totals.durations.count(), totals.durations.sum_us), (1, 30_000));
}

#[test]
fn connections_that_an_error_ended_are_told_apart_and_counted_once() {
    let tcp = TcpMetrics::default();
    for error in
        [None, Some(ErrorKind::ConnectionReset), Some(ErrorKind::ConnectionReset), Some(ErrorKind::OutOfMemory)]
    {
        tcp.opened();
        tcp.closed(Duration::from_millis(1), error);
    }
    let mut totals = TcpTotals::default();
    tcp.add_to(&mut totals);
    assert_eq!(Vec::from_iter(totals.closed_by_errno()), [("", 1), ("ECONNRESET", 2), ("other", 1)]);
}
