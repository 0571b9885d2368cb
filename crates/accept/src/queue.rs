//! Queue: a bounded number of tasks works at once, and the others wait for their account's turn ([`Turns`]).

use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::Turns;

/// Permits to work, shared fairly among accounts. Clones share them.
#[derive(Debug)]
pub struct Queue<A: Clone + Eq + Hash>(Arc<Mutex<State<A>>>);

#[derive(Debug)]
struct State<A: Clone + Eq + Hash> {
    /// Permits that no task has.
    free: usize,
    waiting: Turns<A, oneshot::Sender<Permit<A>>>,
}

/// The right to work; another task has it when dropped.
#[derive(Debug)]
pub struct Permit<A: Clone + Eq + Hash>(Queue<A>);

/// Too many tasks wait, most of them of the same account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many requests wait, most of them from the same source; send fewer at once, and try again in a second")]
pub struct Overload;

impl<A: Clone + Eq + Hash> Queue<A> {
    /// Lets `working` tasks work at once, and `waiting` tasks wait.
    pub fn new(working: usize, waiting: usize) -> Self {
        Self(Arc::new(Mutex::new(State { free: working, waiting: Turns::new(waiting) })))
    }

    /// Waits for a permit. A task that is dropped meanwhile gives up its place in the queue.
    ///
    /// # Errors
    /// [`Overload`] if the queue is full and the account has more of it than another.
    pub async fn permit(&self, account: A) -> Result<Permit<A>, Overload> {
        let turn = {
            let mut state = self.state();
            if state.free > 0 {
                state.free -= 1;
                return Ok(Permit(self.clone()));
            }
            let (sender, turn) = oneshot::channel();
            state.waiting.push(account, sender).map_err(|_| Overload)?;
            turn
        };
        // The sender goes without a word when its account makes room for another.
        turn.await.map_err(|_| Overload)
    }

    /// Tasks that wait.
    pub fn waiting(&self) -> usize {
        self.state().waiting.len()
    }

    fn state(&self) -> MutexGuard<'_, State<A>> {
        // Every step is whole before the next can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<A: Clone + Eq + Hash> Clone for Queue<A> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
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
            // If the task has ended since, its permit comes back and goes to the next.
            let _ = waiting.send(Permit(self.0.clone()));
        }
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
