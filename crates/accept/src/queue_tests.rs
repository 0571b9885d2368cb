use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::timeout;

use super::*;

const PATIENCE: Duration = Duration::from_secs(20);

/// Starts a task that waits for a permit, sends its number, and drops the permit at once.
fn work(queue: &Queue<u8>, account: u8, number: u32, done: &tokio::sync::mpsc::UnboundedSender<u32>) {
    let (queue, done) = (queue.clone(), done.clone());
    tokio::spawn(async move {
        let number = queue.permit(account).await.map_or(u32::MAX, |_| number);
        done.send(number).expect("the test waits");
    });
}

#[tokio::test(flavor = "current_thread")]
async fn permits_go_round_the_accounts_that_wait() {
    let queue = Queue::new(1, 8);
    let held = queue.permit(0).await.expect("it is free");
    let (sender, mut done) = tokio::sync::mpsc::unbounded_channel();
    for (account, number) in [(1, 10), (1, 11), (1, 12), (2, 20)] {
        work(&queue, account, number, &sender);
        yield_now().await;
    }
    drop(held);
    for number in [10, 20, 11, 12] {
        assert_eq!(timeout(PATIENCE, done.recv()).await.expect("it is done"), Some(number));
    }
    assert_eq!(queue.state().free, 1);
}

#[tokio::test(flavor = "current_thread")]
async fn a_flood_is_told_to_come_back_and_others_find_room() {
    let queue = Queue::new(1, 3);
    let held = queue.permit(0).await.expect("it is free");
    let (sender, mut done) = tokio::sync::mpsc::unbounded_channel();
    for number in 0..4 {
        work(&queue, 1, number, &sender);
        yield_now().await;
    }
    assert_eq!(done.recv().await, Some(u32::MAX), "the fourth");
    work(&queue, 2, 20, &sender);
    yield_now().await;
    assert_eq!(done.recv().await, Some(u32::MAX), "the third makes room");
    drop(held);
    for number in [0, 20, 1] {
        assert_eq!(done.recv().await, Some(number));
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_task_that_gives_up_takes_no_permit_with_it() {
    let queue = Queue::new(1, 8);
    let held = queue.permit(0).await.expect("it is free");
    assert!(timeout(Duration::from_millis(1), queue.permit(1)).await.is_err());
    drop(held);
    drop(timeout(PATIENCE, queue.permit(2)).await.expect("it is free again").expect("it is free again"));
    assert_eq!(queue.state().free, 1);
}

#[tokio::test(flavor = "current_thread")]
async fn tasks_that_gave_up_take_no_room_in_the_queue() {
    let queue = Queue::new(1, 2);
    let held = queue.permit(0).await.expect("it is free");
    for account in (1..=3).chain([1, 1, 1]) {
        assert!(timeout(Duration::from_millis(1), queue.permit(account)).await.is_err(), "no Overload");
        assert_eq!(queue.waiting(), 0);
    }
    let (sender, mut done) = tokio::sync::mpsc::unbounded_channel();
    for number in 0..2 {
        work(&queue, 4, number, &sender);
        yield_now().await;
    }
    drop(held);
    assert_eq!((done.recv().await, done.recv().await), (Some(0), Some(1)));
}
