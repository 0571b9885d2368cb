use leno_http2::{ErrorCode, Event, FieldSection, Section};

use super::{Contents, MAX_UNRELEASED_BYTES, OUTPUT_HIGH_WATER_BYTES, Opaque};

fn accepted() -> Opaque {
    let mut opaque = Opaque::accepted("10.0.0.1:5432".to_owned(), Contents::Unknown);
    opaque.receive(&mut &b""[..], &mut FieldSection::new()).expect("the request");
    opaque
}

#[test]
fn an_accepted_connection_is_a_connect_request_and_then_its_bytes() {
    let mut opaque = Opaque::accepted("10.0.0.1:5432".to_owned(), Contents::Unknown);
    let (mut input, mut fields) = (&b"hello"[..], FieldSection::new());
    let first = opaque.receive(&mut input, &mut fields);
    assert!(matches!(first, Some(Event::Headers { section: Section::Request, end_stream: false, .. })));
    let lines: Vec<_> = fields.iter().map(|line| (line.name.to_vec(), line.value.to_vec())).collect();
    assert_eq!(
        lines,
        [(b":method".to_vec(), b"CONNECT".to_vec()), (b":authority".to_vec(), b"10.0.0.1:5432".to_vec())]
    );
    assert!(matches!(opaque.receive(&mut input, &mut fields), Some(Event::Data { bytes: b"hello", .. })));
    assert!(input.is_empty());
}

#[test]
fn an_opened_connection_answers_once_a_call_has_it() {
    let (mut opaque, mut fields) = (Opaque::opened(), FieldSection::new());
    assert!(opaque.receive(&mut &b""[..], &mut fields).is_none());
    assert!(opaque.takes_streams());
    opaque.open(7, false);
    assert!(!opaque.takes_streams());
    let answer = opaque.receive(&mut &b""[..], &mut fields);
    assert!(matches!(answer, Some(Event::Headers { section: Section::Response, token: 7, .. })));
}

#[test]
fn each_direction_ends_for_itself() {
    let mut opaque = accepted();
    assert!(matches!(opaque.input_ended(), Some(Event::Data { end_stream: true, .. })));
    assert!(opaque.input_ended().is_none());
    assert!(opaque.is_open() && !opaque.ends_output());
    opaque.send_data(b"bye", true);
    assert!(opaque.ends_output() && opaque.is_drained());
    assert_eq!(opaque.output(), b"bye");
    assert!(opaque.is_open(), "the peer has not accepted all bytes");
    opaque.advance_output(3);
    assert!(!opaque.is_open());
}

#[test]
fn bytes_that_nobody_takes_are_dropped_so_that_the_end_is_read() {
    let mut opaque = accepted();
    let mut fields = FieldSection::new();
    opaque.receive(&mut &b""[..], &mut fields);
    opaque.stop_receiving();
    let mut input = &b"more"[..];
    assert!(opaque.receive(&mut input, &mut fields).is_none() && input.is_empty());
}

#[test]
fn a_reader_that_does_not_release_pauses_and_goes_on_when_it_does() {
    let mut opaque = accepted();
    let (bytes, mut fields) = (vec![0; MAX_UNRELEASED_BYTES], FieldSection::new());
    assert!(opaque.receive(&mut &bytes[..], &mut fields).is_some());
    let mut more = &b"more"[..];
    assert!(opaque.is_paused() && opaque.receive(&mut more, &mut fields).is_none());
    assert_eq!(more, b"more");
    opaque.release(1);
    assert!(opaque.receive(&mut more, &mut fields).is_some());
}

#[test]
fn room_for_what_exceeds_the_high_water_mark_comes_when_the_socket_has_taken_it() {
    let mut opaque = accepted();
    let bytes = vec![1; OUTPUT_HIGH_WATER_BYTES + 1_000];
    assert_eq!(opaque.send_data(&bytes, false), OUTPUT_HIGH_WATER_BYTES);
    assert_eq!(opaque.send_data(b"xy", false), 0);
    assert_eq!((opaque.queued_bytes(), opaque.next_drained()), (1_002, None));
    opaque.advance_output(600 + 1_002);
    assert_eq!(opaque.next_drained().map(|drained| drained.bytes), Some(600));
    opaque.advance_output(opaque.pending_output());
    assert_eq!(opaque.next_drained().map(|drained| drained.bytes), Some(402));
    assert_eq!((opaque.next_drained(), opaque.queued_bytes()), (None, 0));
}

#[test]
fn a_reset_and_a_refusal_cut_the_connection_unless_an_alert_tells_of_it() {
    let mut opaque = accepted();
    opaque.send_data(b"half", false);
    opaque.reset(ErrorCode::CANCEL);
    assert!(opaque.is_aborted() && opaque.output().is_empty() && !opaque.is_open());
    let mut refused = accepted();
    let mut fields = FieldSection::new();
    fields.push(b":status", b"503");
    refused.send_headers(&fields, false);
    refused.send_data(b"why", true);
    assert!(refused.is_aborted() && !refused.ends_output() && refused.output().is_empty() && !refused.is_open());
    let mut refused = Opaque::accepted("example.org:443".to_owned(), Contents::Tls(Some("example.org".into())));
    refused.receive(&mut &b""[..], &mut FieldSection::new()).expect("the request");
    refused.send_headers(&fields, true);
    assert!(!refused.is_aborted() && refused.is_drained());
    assert_eq!(refused.output(), [21, 3, 3, 0, 2, 2, 112]);
}

#[test]
fn what_an_http2_server_says_to_a_silent_client_is_kept_from_it() {
    let mut opaque = Opaque::guessed("10.0.0.1:80".into());
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    assert_eq!(opaque.send_data(&settings, false), settings.len());
    assert_eq!(opaque.send_data(b"more", true), 4);
    assert!(opaque.is_recalled() && opaque.is_paused() && opaque.output().is_empty() && !opaque.ends_output());

    let mut opaque = Opaque::guessed("10.0.0.1:3306".into());
    assert_eq!(opaque.send_data(b"220 ready", false), 9);
    assert!(!opaque.is_recalled() && opaque.takes_server_first() && !opaque.takes_server_first());
    assert_eq!(opaque.output(), b"220 ready");
}

#[test]
fn a_guess_is_wrong_if_the_servers_proxy_accepts_no_opaque_bytes() {
    let refused = |mut opaque: Opaque, status: &[u8]| {
        let mut fields = FieldSection::new();
        fields.push(b":status", status);
        opaque.send_headers(&fields, true);
        opaque
    };
    let guessed = || Opaque::guessed("10.0.0.1:80".into());
    assert!(refused(guessed(), b"404").is_recalled());
    assert!(refused(guessed(), b"503").is_aborted());
    assert!(refused(accepted(), b"404").ends_output());
}

#[test]
fn a_guess_is_over_when_the_server_has_ended_without_a_word() {
    let mut opaque = Opaque::guessed("10.0.0.1:80".into());
    assert!(opaque.is_guess());
    opaque.send_data(b"", true);
    assert!(!opaque.is_guess() && !opaque.takes_server_first() && opaque.ends_output());
}

#[test]
fn no_empty_output_buffer_is_kept_while_memory_is_short() {
    let mut opaque = accepted();
    opaque.send_data(b"hello", false);
    opaque.advance_output(5);
    assert!(opaque.memory_bytes() > 0);
    opaque.save_memory(true);
    assert_eq!(opaque.memory_bytes(), 0);
    opaque.send_data(b"hello", false);
    opaque.save_memory(true);
    assert_eq!(opaque.output(), b"hello", "output that waits is not lost");
    opaque.advance_output(5);
    assert_eq!(opaque.memory_bytes(), 0);
}
