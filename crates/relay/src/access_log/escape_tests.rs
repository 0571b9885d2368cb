use super::{push_json, push_quoted};

fn json(bytes: &[u8], max_bytes: usize) -> String {
    let mut line = Vec::new();
    push_json(&mut line, bytes, max_bytes);
    String::from_utf8(line).expect("it is ASCII")
}

fn quoted(bytes: &[u8], max_bytes: usize) -> String {
    let mut line = Vec::new();
    push_quoted(&mut line, bytes, max_bytes);
    String::from_utf8(line).expect("it is ASCII")
}

#[test]
fn printable_ascii_is_written_as_it_is() {
    let printable: Vec<u8> = (b' '..=b'~').filter(|byte| !b"\"\\".contains(byte)).collect();
    assert_eq!(json(&printable, 100).as_bytes(), printable);
    assert_eq!(quoted(&printable, 100).as_bytes(), printable);
}

#[test]
fn quotes_and_line_ends_cannot_break_out() {
    assert_eq!(json(b"a\"b\\c\r\n\x1b[2J\0", 100), r#"a\"b\\c\u000d\u000a\u001b[2J\u0000"#);
    assert_eq!(quoted(b"a\"b\\c\r\n\x1b[2J\0", 100), r#"a\"b\\c\x0d\x0a\x1b[2J\x00"#);
}

#[test]
fn json_keeps_characters_and_marks_what_is_none() {
    let sent = "é\u{202e}😀";
    assert_eq!(json(sent.as_bytes(), 100), r"\u00e9\u202e\ud83d\ude00");
    let read: String = serde_json::from_str(&format!("\"{}\"", json(sent.as_bytes(), 100))).expect("it is JSON");
    assert_eq!(read, sent);
    assert_eq!(json(b"a\xff\xc3b", 100), r"a\ufffd\ufffdb");
    assert_eq!(quoted("é".as_bytes(), 100), r"\xc3\xa9");
}

#[test]
fn long_fields_are_cut_between_characters() {
    assert_eq!(json(b"abcdef", 6), "abcdef");
    assert_eq!(json(b"abcdefg", 6), "abcdef...");
    assert_eq!(json("abcde€".as_bytes(), 6), "abcde...");
    assert_eq!(json(&[0x80; 20], 6), r"\ufffd".repeat(6) + "...");
    assert_eq!(quoted(b"ab\"\"cd", 4), r#"ab\"\"..."#);
}
