use super::{Filters, HeaderModifier, Mirror};
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
