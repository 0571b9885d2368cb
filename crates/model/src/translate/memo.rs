//! What was joined before: a change of one Service does not cost what all of them cost.

use std::collections::HashMap;
use std::sync::Arc;

use super::JoinedService;
use crate::object::{EndpointSlice, Service};

/// What earlier translations made of each Service. Objects are known by where they are: one that is not the same
/// allocation counts as changed.
#[derive(Debug, Default)]
pub struct Memo {
    /// By the Service's address, which is nobody else's as long as it is held here.
    services: HashMap<usize, Made>,
}

#[derive(Debug)]
struct Made {
    /// Held for its address.
    _service: Arc<Service>,
    slices: Vec<Arc<EndpointSlice>>,
    joined: Arc<JoinedService>,
    is_used: bool,
}

impl Memo {
    /// What the Service and its slices say.
    pub(super) fn join(&mut self, service: &Arc<Service>, slices: &[&Arc<EndpointSlice>]) -> Arc<JoinedService> {
        let address = Arc::as_ptr(service).addr();
        if let Some(made) = self.services.get_mut(&address)
            && made.slices.len() == slices.len()
            && made.slices.iter().zip(slices).all(|(then, now)| Arc::ptr_eq(then, now))
        {
            made.is_used = true;
            return Arc::clone(&made.joined);
        }
        let plain: Vec<&EndpointSlice> = slices.iter().map(|slice| &***slice).collect();
        let joined = Arc::new(JoinedService::new(service, &plain));
        let made = Made {
            _service: Arc::clone(service),
            slices: slices.iter().copied().cloned().collect(),
            joined: Arc::clone(&joined),
            is_used: true,
        };
        self.services.insert(address, made);
        joined
    }

    /// Forgets what was not joined since this was called last.
    pub(super) fn forget_unused(&mut self) {
        self.services.retain(|_, made| std::mem::take(&mut made.is_used));
    }
}
