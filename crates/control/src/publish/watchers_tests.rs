use leno_xds::Kind;

use super::{ClientId, FEW, Key, Watchers};

fn key(client: u64, name: &str) -> Key {
    (ClientId(client), name.into())
}

/// The watchers of a kind.
fn of(watchers: &Watchers, kind: Kind) -> Vec<(u64, String)> {
    watchers.of(kind).map(|(client, name)| (client.0, name.to_string())).collect()
}

#[test]
fn a_watcher_stays_until_it_watches_no_kind() {
    let mut watchers = Watchers::default();
    watchers.add(key(2, "echo:80"), Kind::Cluster);
    watchers.add(key(2, "echo:80"), Kind::Route);
    watchers.add(key(1, "echo:80"), Kind::Route);
    watchers.remove(&key(2, "echo:80"), Kind::Cluster);
    watchers.remove(&key(3, "echo:80"), Kind::Route);
    assert_eq!(of(&watchers, Kind::Cluster), []);
    assert_eq!(of(&watchers, Kind::Route), [(1, "echo:80".to_owned()), (2, "echo:80".to_owned())]);
    watchers.remove(&key(1, "echo:80"), Kind::Route);
    watchers.remove(&key(2, "echo:80"), Kind::Route);
    assert!(watchers.is_empty());
}

#[test]
fn many_watchers_are_found_as_few_are() {
    let mut watchers = Watchers::default();
    for number in 0..=FEW {
        assert!(matches!(watchers, Watchers::Few(_)), "{number}");
        watchers.add(key(1, &format!("name-{number}")), Kind::Listener);
    }
    assert!(matches!(watchers, Watchers::Many(_)), "a list of them would be moved for each that comes or goes");
    watchers.add(key(1, "name-0"), Kind::Route);
    assert_eq!(of(&watchers, Kind::Listener).len(), FEW + 1);
    assert_eq!(of(&watchers, Kind::Route), [(1, "name-0".to_owned())]);
    for number in 0..=FEW {
        watchers.remove(&key(1, &format!("name-{number}")), Kind::Listener);
    }
    assert!(!watchers.is_empty());
    watchers.remove(&key(1, "name-0"), Kind::Route);
    assert!(watchers.is_empty());
}
