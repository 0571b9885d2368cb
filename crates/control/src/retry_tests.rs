use tokio::time::{Instant, timeout};

use super::*;

#[tokio::test(start_paused = true)]
async fn delays_double_until_an_attempt_succeeds() {
    let mut retry = Retry::new();
    for delay_s in [1, 2, 4, 8, 16, 32, 60, 60] {
        let since = Instant::now();
        retry.attempted(Some(&()), |()| true);
        retry.due().await;
        assert_eq!(since.elapsed().as_secs(), delay_s);
    }
    retry.attempted(None::<&()>, |()| true);
    assert!(timeout(MAX * 2, retry.due()).await.is_err(), "nothing has to be repeated");
    retry.attempted(Some(&()), |()| true);
    assert!(timeout(MIN * 2, retry.due()).await.is_ok(), "a new series has begun");
}

#[test]
fn a_series_of_failures_is_logged_once() {
    let mut retry = Retry::new();
    let mut logged = Vec::new();
    let series = [Some("ignored"), Some("first"), Some("second"), None, Some("third"), Some("fourth")];
    for failed in &series {
        retry.attempted(failed.as_ref(), |failed| {
            logged.push(*failed);
            *failed != "ignored"
        });
    }
    assert_eq!(logged, ["ignored", "first", "third"]);
}
