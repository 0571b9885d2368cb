use super::CountByKey;

#[test]
fn each_key_has_its_own_count() {
    let table = CountByKey::<&str, 4>::default();
    for key in ["ping", "reset", "ping", "settings", "ping"] {
        table.count(key);
    }
    assert_eq!(table.counts().collect::<Vec<_>>(), [("ping", 3), ("reset", 1), ("settings", 1)]);
    assert_eq!(table.others(), 0);
}

#[test]
fn keys_beyond_the_table_share_one_count() {
    let table = CountByKey::<u16, 2>::default();
    for key in [200, 404, 500, 501, 200] {
        table.count(key);
    }
    assert_eq!(table.counts().collect::<Vec<_>>(), [(200, 2), (404, 1)]);
    assert_eq!(table.others(), 2);
}
