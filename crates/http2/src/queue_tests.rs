use super::ContentQueue;

#[test]
fn a_queue_gives_its_memory_back_when_it_is_empty() {
    let mut queue = ContentQueue::default();
    queue.push(&[7; 5_000]);
    let (bytes, start) = queue.lend();
    queue.give_back(bytes, start + 4_999);
    assert_eq!(queue.waiting(), [7]);
    let (bytes, start) = queue.lend();
    queue.give_back(bytes, start + 1);
    assert_eq!((queue.waiting(), queue.bytes.capacity()), (&[][..], 0));
}

#[test]
fn a_queue_that_never_empties_stays_small() {
    let mut queue = ContentQueue::default();
    queue.push(&[0; 100]);
    for round in 0..10_000u32 {
        queue.push(&round.to_be_bytes());
        let (bytes, start) = queue.lend();
        queue.give_back(bytes, start + 4);
    }
    assert_eq!(queue.waiting().len(), 100);
    assert!(queue.bytes.capacity() < 1_000);
}
