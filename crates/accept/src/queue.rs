//! Queue: limits the number of tasks that work at once. Further tasks wait; the queue serves the accounts of their
//! clients in turn ([`Turns`]).

use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::{Ticket, Turns};

/// Permits to work, shared fairly among accounts. Clones share the permits.
#[derive(Debug)]
pub struct Queue<A: Clone + Eq + Hash>(Arc<Mutex<State<A>>>);

#[derive(Debug)]
struct State<A: Clone + Eq + Hash> {
    /// Permits that no task holds.
    free: usize,
    waiting: Turns<A, oneshot::Sender<Permit<A>>>,
}

/// A waiting task's entry in the queue; dropping this value removes the entry. Otherwise the entries of clients that
/// have disconnected would fill the queue, and live tasks would get [`Overload`].
struct Waiting<'a, A: Clone + Eq + Hash> {
    queue: &'a Queue<A>,
    account: A,
    ticket: Ticket,
}

/// The permission for one task to work. Dropping the permit passes the permission to the next waiting task.
#[derive(Debug)]
pub struct Permit<A: Clone + Eq + Hash>(Queue<A>);

/// The task was rejected: too many tasks wait, and no other account has more waiting tasks than the task's account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many requests wait, most of them from the same source; send fewer at once, and try again in a second")]
pub struct Overload;

impl<A: Clone + Eq + Hash> Queue<A> {
    /// Creates a queue that allows `working` tasks to work at once, and `waiting` tasks to wait.
    pub fn new(working: usize, waiting: usize) -> Self {
        Self(Arc::new(Mutex::new(State { free: working, waiting: Turns::new(waiting) })))
    }

    /// Waits for a permit. Dropping the future gives up its place in the queue.
    ///
    /// # Errors
    /// [`Overload`] if the queue is full and no other account has more waiting tasks than `account` would have with
    /// this task. Also if a task of another account later takes this task's place in the queue.
    pub async fn permit(&self, account: A) -> Result<Permit<A>, Overload> {
        let (turn, _waiting) = {
            let mut state = self.state();
            if state.free > 0 {
                state.free -= 1;
                return Ok(Permit(self.clone()));
            }
            let (sender, turn) = oneshot::channel();
            let ticket = state.waiting.push(account.clone(), sender).map_err(|_| Overload)?;
            (turn, Waiting { queue: self, account, ticket })
        };
        // An error means that the queue has dropped the sender: it has removed this task to make room for a task of
        // another account.
        turn.await.map_err(|_| Overload)
    }

    /// Number of waiting tasks.
    pub fn waiting(&self) -> usize {
        self.state().waiting.len()
    }

    fn state(&self) -> MutexGuard<'_, State<A>> {
        // No panic can leave the state inconsistent, so a poisoned lock is harmless.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<A: Clone + Eq + Hash> Clone for Queue<A> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<A: Clone + Eq + Hash> Drop for Waiting<'_, A> {
    fn drop(&mut self) {
        // No effect if the entry has already left the queue: the task got its permit, or another task took its place.
        self.queue.state().waiting.remove(&self.account, self.ticket);
    }
}

impl<A: Clone + Eq + Hash> Drop for Permit<A> {
    fn drop(&mut self) {
        let next = {
            let mut state = self.0.state();
            let next = std::iter::from_fn(|| state.waiting.pop()).find(|waiting| !waiting.is_closed());
            if next.is_none() {
                state.free += 1;
            }
            next
        };
        if let Some(waiting) = next {
            // If the waiting task ended after the check above, `send` returns the permit; dropping it serves the next
            // task.
            let _ = waiting.send(Permit(self.0.clone()));
        }
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
