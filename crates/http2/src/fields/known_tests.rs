use super::*;

#[test]
fn every_name_is_recognised_and_stands_at_the_position_of_its_number() {
    for (position, (known, name)) in NAMES.iter().enumerate().skip(2) {
        assert_eq!(Known::of(name.as_bytes()), *known);
        assert_eq!(known.name(), *name);
        assert_eq!(*known as usize, position);
    }
}

#[test]
fn names_that_differ_in_one_byte_are_not_recognised() {
    for (known, name) in NAMES.iter().skip(2) {
        for at in 0..name.len() {
            let mut other = name.as_bytes().to_vec();
            other[at] ^= 0x20;
            assert_ne!(Known::of(&other), *known, "{}", other.escape_ascii());
        }
        assert_ne!(Known::of(&name.as_bytes()[1..]), *known);
        assert_ne!(Known::of(format!("{name}s").as_bytes()), *known);
    }
}

#[test]
fn unknown_names_are_told_apart_by_their_colon() {
    assert_eq!(Known::of(b"x-custom"), Known::Other);
    assert_eq!(Known::of(b""), Known::Other);
    assert_eq!(Known::of(b":custom"), Known::UnknownPseudo);
    assert_eq!(Known::of(b":"), Known::UnknownPseudo);
}

#[test]
fn pseudo_names_are_those_with_a_colon() {
    for (known, name) in NAMES.iter().skip(2) {
        assert_eq!(known.is_pseudo(), name.starts_with(':'), "{name}");
    }
    assert!(Known::UnknownPseudo.is_pseudo());
    assert!(!Known::Other.is_pseudo());
}

#[test]
fn each_name_has_a_bit_of_its_own() {
    let all = NAMES.iter().fold(0, |bits, (known, _)| bits | known.bit());
    assert_eq!(all.count_ones() as usize, NAMES.len() - 2);
    assert_eq!((Known::Other.bit(), Known::UnknownPseudo.bit()), (0, 0));
}

#[test]
fn no_lookup_takes_more_than_eight_steps() {
    let longest = LOOKUP.split(|&position| position == 0).map(<[u8]>::len).max();
    assert!(longest <= Some(8), "{longest:?} slots in a row are taken");
}
