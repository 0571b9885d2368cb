use super::*;

const SOON: Duration = Duration::from_secs(20);

/// Runs a tap whose client may read nothing for a tenth of a second.
async fn tapped(sender: &mpsc::Sender<Bytes>) -> Option<String> {
    let tap = Tap::new(TapSelection::default());
    timeout(SOON, send(&tap, sender, Duration::from_millis(100))).await.expect("the tap ends")
}

#[tokio::test]
async fn a_tap_whose_client_reads_nothing_ends_and_the_last_line_says_why() {
    let (sender, mut lines) = mpsc::channel(PIECES + 1);
    let reason = tapped(&sender).await;
    assert_eq!(reason.as_deref(), Some("the client read nothing for 0 s"));
    drop(sender);
    assert_eq!(lines.recv().await.as_deref(), Some(&b"\n"[..]));
    let last = lines.recv().await.expect("the last line");
    assert_eq!(last, "{\"dropped\":0,\"ended\":\"the client read nothing for 0 s\"}\n");
    assert_eq!(lines.recv().await, None);
}

#[tokio::test]
async fn a_tap_whose_client_leaves_ends_without_a_reason() {
    let (sender, lines) = mpsc::channel(PIECES + 1);
    let leaving = async {
        sleep(EVERY).await;
        drop(lines);
    };
    let (reason, ()) = tokio::join!(tapped(&sender), leaving);
    assert_eq!(reason, None);
}
