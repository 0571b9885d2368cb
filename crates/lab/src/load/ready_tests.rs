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
fn what_is_woken_twice_is_in_line_once_and_again_when_it_was_taken() {
    let queue = Arc::new(ReadyQueue::default());
    let [first, second] = [5, 7].map(|slot| queue.waker(Ready::Call(0, slot)));
    first.wake_by_ref();
    second.wake_by_ref();
    first.wake_by_ref();
    assert_eq!(queue.next(), Some(Ready::Call(0, 5)));
    first.wake_by_ref();
    assert_eq!(queue.next(), Some(Ready::Call(0, 7)));
    assert_eq!(queue.next(), Some(Ready::Call(0, 5)));
    assert_eq!(queue.next(), None);
}

#[test]
fn a_connection_waits_for_some_calls_but_not_for_all() {
    let queue = Arc::new(ReadyQueue::default());
    queue.waker(Ready::Connection(0)).wake();
    (0..100).for_each(|slot| queue.waker(Ready::Call(0, slot)).wake());
    let order: Vec<Ready> = std::iter::from_fn(|| queue.next()).collect();
    let place = order.iter().position(|&ready| ready == Ready::Connection(0));
    assert_eq!(place, Some(CALLS_IN_A_ROW as usize));
    assert_eq!(order.len(), 101);
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
