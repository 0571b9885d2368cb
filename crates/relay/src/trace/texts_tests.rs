use super::*;

fn printable(bytes: &[u8]) -> String {
    let texts = Texts::new(|text, to| {
        if text == Text::Path {
            push_printable(bytes, to);
        }
    });
    texts.get(Text::Path).to_owned()
}

#[test]
fn each_text_is_found_again() {
    let texts = Texts::new(|text, to| match text {
        Text::Method => to.push_str("POST"),
        Text::Authority => to.push_str("cart:80"),
        Text::Route => to.push_str("GRPCRoute shop/canary"),
        Text::TraceState | Text::Path | Text::Target => {}
    });
    let all = Text::ALL.map(|text| texts.get(text));
    assert_eq!(all, ["", "POST", "", "cart:80", "", "GRPCRoute shop/canary"]);
    assert_eq!(Texts::default().get(Text::Route), "");
}

#[test]
fn a_peer_cannot_fill_the_memory_or_confuse_a_terminal() {
    assert_eq!(printable(b"/shop.v1.Cart/Get~ "), "/shop.v1.Cart/Get~ ");
    assert_eq!(printable(b"/a\x1b[2J\"\xff"), r#"/a\x1b[2J\"\xff"#);
    assert_eq!(printable(&[b'x'; 100_000]).len(), Texts::MAX_BYTES);
    assert_eq!(printable(&[0xff; 100_000]).len(), Texts::MAX_BYTES);
}

#[test]
fn every_text_has_room_for_its_longest() {
    let texts = Texts::new(|_, to| to.push_str(&"ä".repeat(Texts::MAX_BYTES)));
    for text in Text::ALL {
        assert_eq!(texts.get(text), "ä".repeat(Texts::MAX_BYTES / 2));
    }
}

/// Returns the text of a `tracestate` that is divided into these fields.
fn trace_state(fields: &[&str]) -> String {
    let mut text = String::new();
    push_trace_state(fields.iter().map(|field| field.as_bytes()), &mut text);
    text
}

#[test]
fn all_fields_of_a_tracestate_are_one_list() {
    assert_eq!(trace_state(&[]), "");
    assert_eq!(trace_state(&["a=1,b=2", "", "c=3 , ,\td=4"]), "a=1,b=2,c=3,d=4");
    assert_eq!(trace_state(&[r#"a="x\y'""#]), r#"a="x\y'""#, "printable bytes stay as they are");
    assert_eq!(trace_state(&["a=1,b=\u{1b}[2J", "c=3"]), "");
    assert_eq!(trace_state(&["a=1,b=ä"]), "");
}

#[test]
fn a_long_tracestate_ends_after_a_whole_member() {
    let first = format!("a={}", "x".repeat(198));
    let [fits, exceeds] = [53, 54].map(|length| format!("b={}", "y".repeat(length)));
    let whole = format!("{first},{fits}");
    assert_eq!(whole.len(), Texts::MAX_BYTES);
    assert_eq!(trace_state(&[&first, &fits]), whole);
    assert_eq!(trace_state(&[&first, &exceeds, "c=3"]), first);
    assert_eq!(trace_state(&[&"x".repeat(100_000)]), "");
}
