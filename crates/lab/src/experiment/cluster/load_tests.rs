use super::*;

async fn read(text: &[u8]) -> Result<Event> {
    next(&mut BufReader::new(text), "load-0").await
}

#[tokio::test]
async fn a_load_that_ends_without_a_result_is_named() {
    let error = read(b"").await.expect_err("an error").to_string();
    assert_eq!(error, "the load in the Pod load-0: it ended without a result");
}

#[tokio::test]
async fn output_that_is_no_event_is_quoted_in_one_line() {
    let error = read(b"exec failed: no such file\n").await.expect_err("an error").to_string();
    assert!(error.contains("exec failed: no such file") && !error.contains('\n'), "{error}");
}

#[tokio::test]
async fn an_event_is_read() {
    let event = read(b"{\"event\":\"measuring\"}\n{\"event\":\"running\"}\n").await.expect("an event");
    assert!(matches!(event, Event::Measuring), "{event:?}");
}
