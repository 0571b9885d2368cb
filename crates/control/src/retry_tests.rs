use tokio::time::{sleep, timeout};

use super::*;

#[tokio::test(start_paused = true)]
async fn delays_double_until_an_attempt_succeeds() {
    let mut retry = Retry::default();
    for delay_s in [1, 2, 4, 8, 16, 32, 60, 60] {
        let since = Instant::now();
        retry.failed(|| true);
        retry.due().await;
        assert_eq!(since.elapsed().as_secs(), delay_s);
    }
    retry = Retry::default();
    assert!(timeout(MAX * 2, retry.due()).await.is_err(), "nothing has to be repeated");
    retry.failed(|| true);
    assert!(timeout(MIN * 2, retry.due()).await.is_ok(), "a new series has begun");
}

#[tokio::test(start_paused = true)]
async fn attempts_before_their_time_do_not_delay_the_next_one() {
    let mut retry = Retry::default();
    let since = Instant::now();
    for _ in 0..9 {
        retry.failed(|| true);
        sleep(MIN / 10).await;
    }
    retry.due().await;
    assert_eq!(since.elapsed().as_secs(), 1);
    retry.failed(|| true);
    retry.due().await;
    assert_eq!(since.elapsed().as_secs(), 3, "they do not double the delay either");
}

#[tokio::test(start_paused = true)]
async fn a_hastened_attempt_is_due_at_once_and_repeats_the_last_delay() {
    let mut retry = Retry::default();
    retry.hasten();
    assert!(retry.next.is_none(), "no attempt has failed");
    let since = Instant::now();
    for delay_s in [1, 2, 4] {
        retry.failed(|| true);
        assert_eq!(retry.next.map(|(at, _)| (at - Instant::now()).as_secs()), Some(delay_s));
        retry.due().await;
    }
    retry.failed(|| true);
    sleep(MIN).await;
    for _ in 0..9 {
        retry.hasten();
        assert!(retry.is_due());
    }
    assert_eq!(since.elapsed().as_secs(), 8);
    retry.failed(|| true);
    retry.due().await;
    assert_eq!(since.elapsed().as_secs(), 16);
}

#[tokio::test]
async fn a_series_of_failures_is_logged_once() {
    let mut retry = Retry::default();
    let mut logged = Vec::new();
    for failure in ["ignored", "first", "second", "success", "third", "fourth"] {
        if failure == "success" {
            retry = Retry::default();
            continue;
        }
        retry.failed(|| {
            logged.push(failure);
            failure != "ignored"
        });
    }
    assert_eq!(logged, ["ignored", "first", "third"]);
}
