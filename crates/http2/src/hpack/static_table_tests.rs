use super::*;

#[test]
fn every_entry_is_found_at_its_index_by_name_and_value() {
    for (index, field) in (1..).zip(&FIELDS) {
        assert_eq!(find(field.facts.known, field.value()), Match::Field(index));
    }
}

#[test]
fn every_entry_has_the_facts_that_a_literal_of_it_has() {
    for field in &FIELDS {
        let name = Facts::of_name(field.name());
        let facts = Facts::of_field(name, field.text, field.name_len);
        assert_eq!((field.facts.known, field.facts.defects), (facts.known, facts.defects));
    }
}

#[test]
fn other_values_find_the_first_entry_of_the_name() {
    assert_eq!(find(Known::Method, b"PUT"), Match::Name(2));
    assert_eq!(find(Known::Status, b"503"), Match::Name(8));
    assert_eq!(find(Known::WwwAuthenticate, b"Basic"), Match::Name(61));
}

#[test]
fn names_with_values_are_those_of_entries_with_a_value() {
    for field in &FIELDS {
        let has_value = FIELDS.iter().any(|other| other.name() == field.name() && !other.value().is_empty());
        assert_eq!(has_values(field.facts.known), has_value, "{}", field.name().escape_ascii());
    }
    assert!(!has_values(Known::Other) && !has_values(Known::UnknownPseudo) && !has_values(Known::Te));
}

#[test]
fn names_beyond_the_table_are_not_found() {
    for known in [Known::Te, Known::GrpcStatus, Known::Other, Known::UnknownPseudo] {
        assert_eq!(find(known, b""), Match::None);
    }
}

#[test]
fn indices_run_from_1_to_61() {
    assert!(get(0).is_none());
    assert_eq!(get(1).map(|field| field.name()), Some(&b":authority"[..]));
    assert_eq!(get(16).map(|field| field.value()), Some(&b"gzip, deflate"[..]));
    assert_eq!(get(61).map(|field| field.name()), Some(&b"www-authenticate"[..]));
    assert!(get(62).is_none());
}
