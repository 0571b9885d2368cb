//! Who is to hear of a change: subscriptions by subject, and a mailbox for each client.
//!
//! A change costs as much as there are clients that subscribed to its subject. A mailbox holds names only, each once, so
//! it never grows beyond what its client subscribed to: whoever is slow gets the latest state, not a history.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leno_wire::Kind;
use tokio::sync::Notify;

use super::changes::Changes;
use super::subject::Subject;

/// One stream of a client; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClientId(pub(crate) u64);

/// Names of resources, by kind.
pub(crate) type Names = [BTreeSet<Arc<str>>; 4];

/// What a client has to look at again.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    names: Mutex<Names>,
    news: Notify,
}

impl Mailbox {
    /// Waits until there are names; gives them all.
    pub(crate) async fn take(&self) -> Names {
        loop {
            self.news.notified().await;
            let names = self.now();
            if names.iter().any(|names| !names.is_empty()) {
                return names;
            }
        }
    }

    /// The names that are there; it may be none.
    pub(crate) fn now(&self) -> Names {
        std::mem::take(&mut *lock(&self.names))
    }

    fn put(&self, kind: Kind, name: Arc<str>) {
        if lock(&self.names)[kind.index()].insert(name) {
            self.news.notify_one();
        }
    }
}

/// All subscriptions.
#[derive(Debug, Default)]
pub(crate) struct Subscribers {
    inner: Mutex<Inner>,
}

/// Clients, each with the name that it used.
type Watchers = BTreeSet<(ClientId, Arc<str>)>;

#[derive(Debug, Default)]
struct Inner {
    mailboxes: HashMap<ClientId, Arc<Mailbox>>,
    /// By kind and subject.
    subjects: [HashMap<Subject, Watchers>; 4],
    /// By kind: the clients that want all.
    all: [BTreeMap<ClientId, Arc<Mailbox>>; 4],
}

impl Subscribers {
    /// A mailbox for a new client.
    pub(crate) fn join(&self, client: ClientId) -> Arc<Mailbox> {
        let mailbox = Arc::<Mailbox>::default();
        lock(&self.inner).mailboxes.insert(client, mailbox.clone());
        mailbox
    }

    /// Forgets a client that is gone, whose subscriptions were removed before.
    pub(crate) fn leave(&self, client: ClientId) {
        let mut inner = lock(&self.inner);
        inner.mailboxes.remove(&client);
        inner.all.iter_mut().for_each(|all| drop(all.remove(&client)));
    }

    pub(crate) fn subscribe(&self, client: ClientId, kind: Kind, subject: Subject, name: Arc<str>) {
        let mut inner = lock(&self.inner);
        let subjects = &mut inner.subjects[kind.index()];
        if let Some(host) = subject.host() {
            subjects.entry(host).or_default().insert((client, name.clone()));
        }
        subjects.entry(subject).or_default().insert((client, name));
    }

    pub(crate) fn unsubscribe(&self, client: ClientId, kind: Kind, subject: &Subject, name: Arc<str>) {
        let mut inner = lock(&self.inner);
        let subjects = &mut inner.subjects[kind.index()];
        let watcher = (client, name);
        for subject in subject.host().iter().chain([subject]) {
            let Some(clients) = subjects.get_mut(subject) else { continue };
            clients.remove(&watcher);
            if clients.is_empty() {
                subjects.remove(subject);
            }
        }
    }

    /// Whether the client is to hear of everything of this kind.
    pub(crate) fn set_all(&self, client: ClientId, kind: Kind, wants_all: bool) {
        let mut inner = lock(&self.inner);
        let mailbox = inner.mailboxes.get(&client).cloned();
        let all = &mut inner.all[kind.index()];
        match mailbox.filter(|_| wants_all) {
            Some(mailbox) => drop(all.insert(client, mailbox)),
            None => drop(all.remove(&client)),
        }
    }

    /// Tells every client what it has to look at again.
    pub(crate) fn announce(&self, changes: &Changes) {
        let inner = lock(&self.inner);
        for kind in Kind::ALL {
            for subject in changes.of(kind) {
                for (client, name) in inner.subjects[kind.index()].get(subject).into_iter().flatten() {
                    if let Some(mailbox) = inner.mailboxes.get(client) {
                        mailbox.put(kind, name.clone());
                    }
                }
                if !inner.all[kind.index()].is_empty() && !matches!(subject, Subject::Host(_)) {
                    let name: Arc<str> = subject.to_string().into();
                    inner.all[kind.index()].values().for_each(|mailbox| mailbox.put(kind, name.clone()));
                }
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
