use super::{Filters, Header, HeaderModifier, Mirror};
use crate::mesh::ClusterKey;

fn taken(numerator: u32, denominator: u32, draws: u64) -> usize {
    let to = ClusterKey { namespace: "shop".into(), service: "cart".into(), port: 80 };
    let mirror = Mirror { to, numerator, denominator };
    let step = u64::MAX / draws;
    (0..draws).filter(|draw| mirror.takes(step / 2 + step * draw)).count()
}

#[test]
fn a_mirror_gets_its_share() {
    assert_eq!(taken(0, 100, 1000), 0);
    assert_eq!(taken(100, 100, 1000), 1000);
    assert_eq!(taken(20, 100, 1000), 200);
    assert_eq!(taken(1, 3, 3000), 1000);
    assert_eq!(taken(1, u32::MAX, 1000), 0);
    assert_eq!(taken(u32::MAX - 1, u32::MAX, 1000), 1000);
}

#[test]
fn filters_that_change_nothing_are_empty() {
    assert!(Filters::default().is_empty());
    assert!(!Filters { request_headers: Some(HeaderModifier::default()), ..Filters::default() }.is_empty());
}

fn headers(fields: &[(&str, &str)]) -> Box<[Header]> {
    fields.iter().map(|(name, value)| Header { name: (*name).into(), value: (*value).into() }).collect()
}

#[test]
fn a_later_modifier_wins_where_two_modifiers_are_joined() {
    let names = |names: &[&str]| names.iter().map(|name| Box::from(*name)).collect();
    let first = HeaderModifier {
        set: headers(&[("set-twice", "1"), ("set-then-removed", "1"), ("set-then-added", "1"), ("only-first", "1")]),
        add: headers(&[("added-twice", "1"), ("added-then-set", "1"), ("added-then-removed", "1")]),
        remove: names(&["removed-then-set", "removed"]),
    };
    let next = HeaderModifier {
        set: headers(&[("set-twice", "2"), ("added-then-set", "2"), ("removed-then-set", "2")]),
        add: headers(&[("added-twice", "2"), ("set-then-added", "2")]),
        remove: names(&["set-then-removed", "added-then-removed"]),
    };
    let joined = HeaderModifier {
        set: headers(&[
            ("set-then-added", "1"),
            ("only-first", "1"),
            ("set-twice", "2"),
            ("added-then-set", "2"),
            ("removed-then-set", "2"),
        ]),
        add: headers(&[("added-twice", "1"), ("added-twice", "2"), ("set-then-added", "2")]),
        remove: names(&["removed-then-set", "removed", "set-then-removed", "added-then-removed"]),
    };
    assert_eq!(first.then(&next), joined);
    assert_eq!(first.then(&HeaderModifier::default()), first);
    assert_eq!(HeaderModifier::default().then(&next), next);
}
