use tokio::time::sleep;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn add(responses: &Arc<UnreadResponses>, bytes: usize) -> Bytes {
    responses.add(Bytes::from(vec![0; bytes]), None)
}

/// Leaves a response of this size unread. Returns the time until it is late, after checking that this is the time that
/// the client had.
async fn late_after(bytes: usize) -> Duration {
    let (responses, began) = (Arc::new(UnreadResponses::default()), Instant::now());
    let unread = add(&responses, bytes);
    let most = responses.wait_until_late().await;
    let passed = began.elapsed();
    assert!((most..most + SECOND).contains(&passed), "{passed:?} for {bytes} bytes");
    drop(unread);
    most
}

/// Adds two responses. The client reads the first one after `read_after`, and does not read the second one. Returns the
/// time until the second response is late.
async fn second_late_after(bytes: [usize; 2], read_after: Duration) -> Duration {
    let (responses, began) = (Arc::new(UnreadResponses::default()), Instant::now());
    let [first, second] = bytes.map(|bytes| add(&responses, bytes));
    let reading = async move {
        sleep(read_after).await;
        drop(first);
    };
    tokio::join!(responses.wait_until_late(), reading);
    drop(second);
    began.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_long_response_may_take_a_longer_time() {
    assert_eq!(late_after(100).await, UNREAD_MAX);
    assert_eq!(late_after(RESPONSE_BYTES + 100).await, UNREAD_MAX, "a full response is a little longer");
    assert_eq!(late_after(3 * RESPONSE_BYTES).await, UNREAD_MAX * 3);
    assert_eq!(late_after(40 * RESPONSE_BYTES).await, UNREAD_MAX * UNREAD_FACTOR_MAX);
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_response_begins_when_the_responses_before_it_are_read() {
    let read_after = UNREAD_MAX - SECOND;
    let passed = second_late_after([100, 100], read_after).await;
    let expected = read_after + UNREAD_MAX;
    assert!((expected..expected + SECOND).contains(&passed), "{passed:?}");
}

#[tokio::test(start_paused = true)]
async fn a_short_response_after_a_long_one_has_only_its_own_time() {
    let passed = second_late_after([4 * RESPONSE_BYTES, 100], SECOND).await;
    let expected = SECOND + UNREAD_MAX;
    assert!((expected..expected + SECOND).contains(&passed), "{passed:?}");
}
