use super::*;

fn line(event: &Event) -> String {
    let mut line = Vec::new();
    event.write(&mut line).expect("memory");
    String::from_utf8(line).expect("JSON")
}

#[test]
fn each_event_is_one_line_and_is_the_same_after_it() {
    for (event, text) in [
        (Event::Ready, r#"{"event":"ready"}"#),
        (Event::Connected, r#"{"event":"connected"}"#),
        (Event::Measuring, r#"{"event":"measuring"}"#),
        (Event::Running { answered: u64::MAX }, r#"{"event":"running","answered":18446744073709551615}"#),
        (Event::Failed { why: "two\nlines".to_owned() }, r#"{"event":"failed","why":"two\nlines"}"#),
    ] {
        assert_eq!(line(&event), format!("{text}\n"));
        assert_eq!(Event::of_line(text.as_bytes()).expect("an event"), event);
    }
    let recording = Recording { failed: 7, first_failure: Some("no\nanswer".to_owned()), ..Recording::default() };
    let event = Event::Finished { recording: Box::new(recording) };
    let text = line(&event);
    assert_eq!(text.lines().count(), 1);
    assert_eq!(Event::of_line(text.as_bytes()).expect("an event"), event);
}

#[test]
fn what_is_no_event_is_an_error_of_one_line() {
    for text in ["", "{}", "null", "{\"event\":\"gone\"}", "{\"event\":\"running\"}", "error: no such command", "\u{0}"]
    {
        let error = Event::of_line(text.as_bytes()).expect_err(text).to_string();
        assert!(error.starts_with("a line of a load in another process: "), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    let long = vec![b' '; Event::LINE_MAX_BYTES + 1];
    assert!(Event::of_line(&long).expect_err("too long").to_string().contains("67108864 bytes"));
}
