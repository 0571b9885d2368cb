use std::collections::BTreeMap;

use super::*;

#[test]
fn streams_that_share_a_place_are_all_found() {
    let mut index = StreamIndex::default();
    // In a table of up to 2^20 places, all these identifiers have the same place.
    let ids: Vec<u32> = (0..64).map(|n| 1 + (n << 21)).collect();
    for (slot, &id) in ids.iter().enumerate() {
        index.insert(id, slot as u32);
    }
    for (slot, &id) in ids.iter().enumerate() {
        assert_eq!(index.get(id), Some(slot as u32));
    }
    assert_eq!(index.len(), 64);
    index.remove(ids[0]);
    assert_eq!((index.get(ids[0]), index.get(ids[1]), index.len()), (None, Some(1), 63));
}

#[test]
fn the_index_agrees_with_a_map_whatever_ids_are_open() {
    let mut random = fastrand::Rng::with_seed(leno_testing::seed());
    for _ in 0..50 {
        let (mut index, mut model, mut next) = (StreamIndex::default(), BTreeMap::new(), 1);
        for slot in 0..2_000 {
            if random.u8(..5) < 3 && model.len() < 300 {
                // Identifiers only ascend, like those of a peer. Occasional large steps, by multiples of 512, can give
                // several identifiers the same place.
                next += if random.u8(..50) == 0 { random.u32(1..1_000) * 512 } else { random.u32(1..3) };
                index.insert(next, slot);
                model.insert(next, slot);
            } else if let Some(&id) = random.choice(model.keys().collect::<Vec<_>>()) {
                index.remove(id);
                index.remove(id);
                model.remove(&id);
            }
            assert_eq!(index.len(), model.len());
        }
        for id in (0..next + 10).step_by(7).chain(model.keys().copied()) {
            assert_eq!(index.get(id), model.get(&id).copied(), "{id}");
        }
    }
}

#[test]
fn a_steady_stream_of_calls_needs_no_hash_map() {
    let mut index = StreamIndex::default();
    for n in 0..100_000 {
        index.insert(2 * n + 1, n);
        if n >= 200 {
            index.remove(2 * (n - 200) + 1);
        }
    }
    assert_eq!((index.len(), index.displaced.is_none()), (200, true));
    assert!(index.memory_bytes() <= 512 * size_of::<Place>());
}
