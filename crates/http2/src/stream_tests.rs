use super::*;

fn stream(id: u32) -> Stream {
    Stream::new(id, 0, 100, 100)
}

#[test]
fn a_stale_key_finds_nothing_in_a_slot_that_is_used_again() {
    let mut streams = Streams::default();
    let old = streams.insert(stream(1));
    streams.remove(old);
    let new = streams.insert(stream(3));
    assert_eq!(old.slot, new.slot);
    assert!(streams.get(old).is_none() && streams.get_mut(old).is_none() && streams.remove(old).is_none());
    assert_eq!(streams.find(3), Some(new));
    assert_eq!(streams.len(), 1);
}

#[test]
fn streams_of_the_peer_are_counted() {
    let mut streams = Streams::default();
    let theirs = streams.insert(Stream { by_peer: true, ..stream(1) });
    streams.insert(stream(2));
    assert_eq!(streams.opened_by_peer(), 1);
    streams.remove(theirs);
    assert_eq!(streams.opened_by_peer(), 0);
}

#[test]
fn slots_of_a_burst_go_back_when_the_last_stream_ends() {
    let mut streams = Streams::default();
    let keys: Vec<_> = (1..=1_000).map(|id| streams.insert(stream(id))).collect();
    for key in keys {
        streams.remove(key);
    }
    assert_eq!((streams.slots.capacity(), streams.free.capacity(), streams.by_id.memory_bytes()), (0, 0, 0));
}

#[test]
fn slots_are_used_again() {
    let mut streams = Streams::default();
    for id in 1..10_000 {
        let key = streams.insert(stream(2 * id));
        streams.insert(stream(2 * id + 1));
        streams.remove(key);
        if let Some(older) = streams.find((2 * id + 1u32).saturating_sub(16)) {
            streams.remove(older);
        }
    }
    assert!(streams.slots.len() < 20);
}
