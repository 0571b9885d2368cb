use super::*;

fn section(fields: &[(&str, &str)]) -> FieldSection {
    let mut section = FieldSection::new();
    for (name, value) in fields {
        section.push(name.as_bytes(), value.as_bytes());
    }
    section
}

fn lines(section: &FieldSection) -> Vec<String> {
    section.iter().map(|field| format!("{field:?}")).collect()
}

#[test]
fn fields_come_back_in_order() {
    let section = section(&[(":method", "POST"), ("te", "trailers"), ("x", "1"), ("x", "2")]);
    assert_eq!(lines(&section), [":method: POST", "te: trailers", "x: 1", "x: 2"]);
    assert_eq!((section.len(), section.is_empty()), (4, false));
    assert_eq!(section.list_size(), 4 * 32 + 11 + 10 + 2 + 2);
    let known: Vec<_> = section.iter().map(|field| field.known).collect();
    assert_eq!(known, [Known::Method, Known::Te, Known::Other, Known::Other]);
}

#[test]
fn get_finds_the_first_field_of_a_name() {
    let section = section(&[("host", "a"), ("host", "b"), ("x", "1")]);
    assert_eq!(section.get(Known::Host), Some(&b"a"[..]));
    assert_eq!(section.get(Known::Te), None);
    assert_eq!(section.get(Known::Other), None);
}

#[test]
fn get_finds_the_first_field_after_any_changes() {
    let mut random = fastrand::Rng::with_seed(leno_testing::seed());
    let names = [Known::Authority, Known::Method, Known::Path, Known::Scheme, Known::Status, Known::Te, Known::Host];
    let mut section = FieldSection::new();
    for round in 0..20_000 {
        let (known, value) = (*random.choice(&names).expect("a name"), random.u8(..).to_string());
        match random.u8(..20) {
            0 => section.clear(),
            1..=6 => section.remove(known),
            7..=12 => section.set(known, value.as_bytes()),
            13 => {
                let mut copy = FieldSection::new();
                copy.copy_from(&section);
                section = copy;
            }
            _ => section.push(known.name().as_bytes(), value.as_bytes()),
        }
        for known in names {
            let first = section.iter().find(|line| line.known == known).map(|line| line.value);
            assert_eq!(section.get(known), first, "round {round}: {known:?} of {section:?}");
        }
    }
}

#[test]
fn cleared_section_is_as_new_and_keeps_its_memory() {
    let mut section = section(&[("connection", "close"), (":path", "/")]);
    let capacity = section.capacity_bytes();
    section.clear();
    assert!(section.is_empty() && section.defects().is_empty());
    assert_eq!((section.list_size(), section.capacity_bytes()), (0, capacity));
    assert_eq!(section.get(Known::Path), None);
    section.push(b":path", b"/");
    assert!(section.defects().is_empty(), "nothing is left of the fields before");
}

#[test]
fn shrink_gives_memory_back_above_the_bound_only() {
    let mut section = section(&[("x", &"v".repeat(10_000))]);
    section.clear();
    section.shrink(20_000);
    assert!(section.capacity_bytes() >= 10_000);
    section.shrink(9_999);
    assert_eq!(section.capacity_bytes(), 0);
}

#[test]
fn set_replaces_the_first_field_of_a_name_in_its_place() {
    let mut section = section(&[("grpc-timeout", "1S"), ("x", "1"), ("grpc-timeout", "2S")]);
    section.set(Known::GrpcTimeout, b"999874u");
    assert_eq!(lines(&section), ["grpc-timeout: 999874u", "x: 1", "grpc-timeout: 2S"]);
    assert_eq!(section.list_size(), 3 * 32 + 19 + 2 + 14);
}

#[test]
fn set_appends_a_regular_field_and_puts_a_pseudo_field_before_the_regular_ones() {
    let mut section = section(&[(":method", "GET"), ("x", "1")]);
    section.set(Known::GrpcTimeout, b"1S");
    section.set(Known::Authority, b"echo");
    assert_eq!(lines(&section), [":method: GET", ":authority: echo", "x: 1", "grpc-timeout: 1S"]);
    assert_eq!(section.get(Known::Authority), Some(&b"echo"[..]));
    assert_eq!(section.list_size(), 4 * 32 + 10 + 14 + 2 + 14);
    assert!(section.defects().is_empty());
}

#[test]
fn set_and_remove_do_nothing_for_what_is_no_single_name() {
    let mut section = section(&[("x", "1"), (":y", "2")]);
    for known in [Known::Other, Known::UnknownPseudo] {
        section.set(known, b"3");
        section.remove(known);
    }
    assert_eq!(lines(&section), ["x: 1", ":y: 2"]);
}

#[test]
fn set_keeps_a_field_never_indexed() {
    let mut section = FieldSection::new();
    section.push_never_indexed(b"host", b"a");
    section.set(Known::Host, b"b");
    assert_eq!(section.iter().map(|field| field.never_indexed).collect::<Vec<_>>(), [true]);
}

#[test]
fn remove_takes_every_field_of_a_name() {
    let mut section = section(&[("cookie", "a"), ("x", "1"), ("cookie", "b")]);
    section.remove(Known::Cookie);
    section.remove(Known::Te);
    assert_eq!(lines(&section), ["x: 1"]);
    assert_eq!(section.list_size(), 34);
    assert_eq!(section.get(Known::Cookie), None);
}

#[test]
fn fields_are_removed_by_name_whether_the_name_is_known_or_not() {
    let mut section = section(&[("x-a", "1"), ("cookie", "a"), ("x-ab", "2"), ("x-a", "3"), ("te", "trailers")]);
    section.remove_named(b"x-a");
    section.remove_named(b"cookie");
    section.remove_named(b"x-missing");
    assert_eq!(lines(&section), ["x-ab: 2", "te: trailers"]);
    assert_eq!(section.list_size(), 37 + 42);
    assert_eq!(section.get(Known::Cookie), None);
}

#[test]
fn pseudo_field_after_a_regular_one_is_a_defect() {
    assert_eq!(section(&[(":method", "GET"), ("x", "1")]).defects(), Defects::NONE);
    assert_eq!(section(&[("x", "1"), (":method", "GET")]).defects(), Defects::PSEUDO_AFTER_REGULAR);
}

#[test]
fn second_pseudo_field_of_a_name_is_a_defect_and_a_second_regular_one_is_not() {
    assert_eq!(section(&[(":path", "/"), (":path", "/")]).defects(), Defects::DUPLICATE_PSEUDO);
    assert_eq!(section(&[("te", "trailers"), ("te", "trailers")]).defects(), Defects::NONE);
}

#[test]
fn trimmed_values_lose_white_space_at_their_ends() {
    let mut section = FieldSection::new();
    for (name, value) in [("a", " \tv w\t "), ("b", "as it is"), ("te", "trailers "), ("c", "  "), ("d", "1 ")] {
        section.push(name.as_bytes(), value.as_bytes());
    }
    section.trim_values();
    let mut expected = FieldSection::new();
    for (name, value) in [("a", "v w"), ("b", "as it is"), ("te", "trailers"), ("c", ""), ("d", "1")] {
        expected.push(name.as_bytes(), value.as_bytes());
    }
    let lines = |section: &FieldSection| {
        section.iter().map(|line| (line.text.to_vec(), line.name.to_vec(), line.hash)).collect::<Vec<_>>()
    };
    assert_eq!(lines(&section), lines(&expected));
    assert_eq!((section.list_size(), section.defects()), (expected.list_size(), Defects::NONE));
}

#[test]
fn defects_of_all_fields_add_up() {
    let section = section(&[(":new", "1"), ("Bad", "\n"), ("upgrade", "h2c")]);
    for defect in [Defects::UNKNOWN_PSEUDO, Defects::BAD_NAME, Defects::BAD_VALUE, Defects::CONNECTION_SPECIFIC] {
        assert!(section.defects().contains(defect), "{defect:?}");
    }
    assert!(!section.defects().contains(Defects::OVERSIZE | Defects::DUPLICATE_PSEUDO));
}

#[test]
fn new_section_allocates_nothing() {
    assert_eq!(FieldSection::new().capacity_bytes(), 0);
}

#[test]
fn a_prepared_field_is_the_same_as_one_that_is_pushed() {
    let (mut pushed, mut prepared) = (section(&[("x", "1")]), section(&[("x", "1")]));
    pushed.push(b"leno-client-id", b"spiffe://a/ns/b/sa/c");
    prepared.push_prepared(&PreparedField::new(Known::LenoClientId, b"spiffe://a/ns/b/sa/c"));
    assert_eq!(lines(&prepared), lines(&pushed));
    assert_eq!(prepared.get(Known::LenoClientId), pushed.get(Known::LenoClientId));
    assert_eq!(prepared.list_size(), pushed.list_size());
    let hashes = |section: &FieldSection| section.iter().map(|field| field.hash).collect::<Vec<_>>();
    assert_eq!(hashes(&prepared), hashes(&pushed));
}

#[test]
fn notes_follow_their_fields_and_are_part_of_nothing_else() {
    let mut noted = FieldSection::new();
    noted.push_with_note(b":status", b"200", b"Fine");
    noted.push(b"x", b"1");
    noted.push_with_note(b"accept", b"a", b"ACCEPT");
    noted.push_with_note(b"y", b"2", &[b'Y'; 256]);
    let notes: Vec<_> = noted.iter_with_notes().map(|(line, note)| (line.name, line.value, note)).collect();
    let expected: [(&[u8], &[u8], &[u8]); 4] =
        [(b":status", b"200", b"Fine"), (b"x", b"1", b""), (b"accept", b"a", b"ACCEPT"), (b"y", b"2", b"")];
    assert_eq!(notes, expected);

    let plain = section(&[(":status", "200"), ("x", "1"), ("accept", "a"), ("y", "2")]);
    assert_eq!(lines(&noted), lines(&plain));
    assert!(noted.iter().zip(plain.iter()).all(|(noted, plain)| noted == plain));
    assert_eq!((noted.list_size(), noted.defects()), (plain.list_size(), plain.defects()));
    // A field with a new value must lose the note about the old value.
    noted.set(Known::Status, b"404");
    noted.remove_named(b"x");
    let notes: Vec<_> = noted.iter_with_notes().map(|(line, note)| (line.value, note)).collect();
    let expected: [(&[u8], &[u8]); 3] = [(b"404", b""), (b"a", b"ACCEPT"), (b"2", b"")];
    assert_eq!(notes, expected);
}

#[test]
fn a_line_is_no_longer_for_its_note() {
    assert_eq!(size_of::<Line>(), 24);
}
