use super::*;

#[test]
fn waits_double_up_to_the_longest() {
    let mut outage = Outage::new(Instant::now());
    let mut most = FIRST;
    for _ in 0..40 {
        let wait = outage.wait();
        assert!(wait >= most / 2 && wait <= most, "{wait:?} for at most {most:?}");
        most = (most * 2).min(LONGEST);
    }
}

#[test]
fn only_the_first_failure_is_news() {
    let mut outage = Outage::new(Instant::now());
    outage.wait();
    assert!(outage.is_new());
    outage.wait();
    assert!(!outage.is_new());
}
