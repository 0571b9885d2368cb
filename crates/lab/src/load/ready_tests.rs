use std::sync::atomic::AtomicU32;

use super::*;

#[derive(Default)]
struct Wakes(AtomicU32);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn what_is_woken_twice_is_in_line_once_and_in_the_order_of_the_first_wakes() {
    let queue = Arc::new(ReadyQueue::default());
    let connection = queue.waker(Ready::Connection(0));
    let call = queue.waker(Ready::Call(0, 7));
    connection.wake_by_ref();
    call.wake_by_ref();
    connection.wake_by_ref();
    assert_eq!(queue.next(), Some(Ready::Connection(0)));
    connection.wake_by_ref();
    assert_eq!(queue.next(), Some(Ready::Call(0, 7)));
    assert_eq!(queue.next(), Some(Ready::Connection(0)));
    assert_eq!(queue.next(), None);
}

#[test]
fn the_task_is_woken_once_for_all_that_comes_while_it_sleeps() {
    let queue = Arc::new(ReadyQueue::default());
    let wakes = Arc::new(Wakes::default());
    let timer = queue.waker(Ready::Timer);
    let call = queue.waker(Ready::Call(0, 0));
    queue.wake_when_ready(&Arc::clone(&wakes).into());
    timer.wake_by_ref();
    call.wake_by_ref();
    assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
}

#[test]
fn a_task_that_would_sleep_on_something_ready_is_woken_at_once() {
    let queue = Arc::new(ReadyQueue::default());
    let wakes = Arc::new(Wakes::default());
    queue.waker(Ready::Timer).wake();
    queue.wake_when_ready(&Arc::clone(&wakes).into());
    assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
}
