use super::*;

fn free(connections: &Connections) -> Vec<u32> {
    connections.free().map(UpstreamId::place).collect()
}

#[test]
fn the_connection_that_became_free_last_is_given_first() {
    let mut connections = Connections::default();
    (10..14).for_each(|number| connections.push(UpstreamId::numbered(number)));
    [11, 13, 12].iter().for_each(|&number| connections.set_free(UpstreamId::numbered(number), true));
    connections.set_free(UpstreamId::numbered(13), true);
    assert_eq!(free(&connections), [12, 13, 11]);
    connections.set_free(UpstreamId::numbered(12), false);
    assert_eq!(free(&connections), [13, 11]);
}

#[test]
fn a_connection_that_is_removed_is_neither_there_nor_free() {
    let mut connections = Connections::default();
    (0..4).for_each(|number| connections.push(UpstreamId::numbered(number)));
    (0..4).for_each(|number| connections.set_free(UpstreamId::numbered(number), true));
    assert!(connections.remove(UpstreamId::numbered(1)) && !connections.remove(UpstreamId::numbered(1)));
    connections.set_free(UpstreamId::numbered(1), true);
    assert_eq!(connections.len(), 3);
    let mut left = free(&connections);
    left.sort_unstable();
    assert_eq!(left, [0, 2, 3]);
    [0, 2, 2, 3].iter().for_each(|&number| connections.set_spent(UpstreamId::numbered(number), true));
    assert!(!connections.can_serve());
    connections.set_spent(UpstreamId::numbered(2), false);
    assert!(connections.can_serve());
    [0, 2, 3].iter().for_each(|&number| assert!(connections.remove(UpstreamId::numbered(number))));
    assert!(connections.is_empty() && free(&connections).is_empty());
}

#[test]
fn random_steps_keep_the_lists_and_the_places_together() {
    let mut random = fastrand::Rng::with_seed(leno_testing::seed());
    let (mut connections, mut model) = (Connections::default(), std::collections::BTreeMap::new());
    let mut spent = std::collections::BTreeSet::new();
    for _ in 0..10_000 {
        let number = random.u32(0..32);
        let id = UpstreamId::numbered(number);
        let is_spent = random.bool();
        if random.u8(0..4) == 0 {
            connections.set_spent(id, is_spent);
            if is_spent && model.contains_key(&number) {
                spent.insert(number)
            } else {
                spent.remove(&number)
            };
        }
        match random.u8(0..4) {
            0 if !model.contains_key(&number) => {
                connections.push(id);
                model.insert(number, false);
            }
            1 => {
                assert_eq!(connections.remove(id), model.remove(&number).is_some());
                spent.remove(&number);
            }
            choice => {
                connections.set_free(id, choice == 2);
                model.entry(number).and_modify(|is_free| *is_free = choice == 2);
            }
        }
        let mut all: Vec<u32> = connections.iter().map(UpstreamId::place).collect();
        all.sort_unstable();
        assert!(all.iter().eq(model.keys()));
        assert_eq!(connections.can_serve(), model.len() > spent.len());
        let mut listed = free(&connections);
        listed.sort_unstable();
        assert!(listed.iter().eq(model.iter().filter(|(_, is_free)| **is_free).map(|(number, _)| number)));
    }
}
