use super::*;

/// Returns whether a request with these field lines asks for the number of attempts, and the request without the lines.
fn taken(values: &[&str]) -> (bool, FieldSection) {
    let mut request = FieldSection::new();
    request.push(b":method", b"GET");
    values.iter().for_each(|value| request.push(b"leno-attempts", value.as_bytes()));
    request.push(b"accept", b"*/*");
    (take(&mut request), request)
}

#[test]
fn only_the_boolean_true_asks() {
    for value in ["?1", " ?1 ", "?1;why=test"] {
        assert!(taken(&[value]).0, "{value:?}");
    }
    for values in [&["?0"][..], &["1"], &["true"], &["?11"], &["?1 ;a"], &[""], &["?1, ?1"], &["?1", "?1"], &[]] {
        assert!(!taken(values).0, "{values:?}");
    }
}

#[test]
fn the_field_is_removed_whatever_its_value_is() {
    for values in [&["?1"][..], &["?0"], &["x", "?1"]] {
        let (_, request) = taken(values);
        assert_eq!((request.len(), request.contains(Known::LenoAttempts)), (2, false), "{values:?}");
    }
}
