use super::*;

fn free(connections: &Connections) -> Vec<usize> {
    connections.free().collect()
}

#[test]
fn the_connection_that_became_free_last_is_given_first() {
    let mut connections = Connections::default();
    (10..14).for_each(|index| connections.push(index));
    [11, 13, 12].iter().for_each(|&index| connections.set_free(index, true));
    connections.set_free(13, true);
    assert_eq!(free(&connections), [12, 13, 11]);
    connections.set_free(12, false);
    assert_eq!(free(&connections), [13, 11]);
}

#[test]
fn a_connection_that_is_removed_is_neither_there_nor_free() {
    let mut connections = Connections::default();
    (0..4).for_each(|index| connections.push(index));
    (0..4).for_each(|index| connections.set_free(index, true));
    assert!(connections.remove(1) && !connections.remove(1));
    connections.set_free(1, true);
    assert_eq!(connections.len(), 3);
    let mut left = free(&connections);
    left.sort_unstable();
    assert_eq!(left, [0, 2, 3]);
    [0, 2, 3].iter().for_each(|&index| assert!(connections.remove(index)));
    assert!(connections.is_empty() && free(&connections).is_empty());
}

#[test]
fn random_steps_keep_the_lists_and_the_places_together() {
    let mut random = fastrand::Rng::with_seed(leno_testing::seed());
    let (mut connections, mut model) = (Connections::default(), std::collections::BTreeMap::new());
    for _ in 0..10_000 {
        let index = random.usize(0..32);
        match random.u8(0..4) {
            0 if !model.contains_key(&index) => {
                connections.push(index);
                model.insert(index, false);
            }
            1 => assert_eq!(connections.remove(index), model.remove(&index).is_some()),
            choice => {
                connections.set_free(index, choice == 2);
                model.entry(index).and_modify(|is_free| *is_free = choice == 2);
            }
        }
        let mut all: Vec<usize> = connections.iter().collect();
        all.sort_unstable();
        assert!(all.iter().eq(model.keys()));
        let mut listed = free(&connections);
        listed.sort_unstable();
        assert!(listed.iter().eq(model.iter().filter(|(_, is_free)| **is_free).map(|(index, _)| index)));
    }
}
