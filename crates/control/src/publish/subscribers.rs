//! Finds the clients to notify of a change: subscriptions by subject, and a mailbox for each client.
//!
//! The cost of a change grows with the number of clients that subscribe to its subject. A mailbox holds only names,
//! each once, so it never exceeds its client's subscriptions. A slow client gets the latest state, not a history.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leno_xds::Kind;
use tokio::sync::Notify;

use super::changes::Changes;
use super::subject::Subject;
use super::watchers::Watchers;

/// The id of one stream of a client. A process never reuses an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClientId(pub(crate) u64);

pub(crate) type Names = [BTreeSet<Arc<str>>; 4];

/// The names whose resources must be checked again for a client.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    names: Mutex<Names>,
    news: Notify,
}

impl Mailbox {
    /// Waits until the mailbox has names, and takes all of them.
    pub(crate) async fn take(&self) -> Names {
        loop {
            self.news.notified().await;
            let names = self.now();
            if names.iter().any(|names| !names.is_empty()) {
                return names;
            }
        }
    }

    /// Takes the names that the mailbox has now, if any.
    pub(crate) fn now(&self) -> Names {
        std::mem::take(&mut *lock(&self.names))
    }

    fn put(&self, kind: Kind, name: Arc<str>) {
        if lock(&self.names)[kind.index()].insert(name) {
            self.news.notify_one();
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Subscribers {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    mailboxes: HashMap<ClientId, Arc<Mailbox>>,
    subjects: HashMap<Subject, Watchers>,
    /// By the address of a Pod, the clients that subscribe to resources of any of its ports. One client may subscribe
    /// to thousands of ports, so a change of the Pod notifies clients only of the resources that it affects.
    hosts: HashMap<IpAddr, Watchers>,
    /// For each kind, the clients that subscribe to all resources.
    all: [BTreeMap<ClientId, Arc<Mailbox>>; 4],
}

impl Inner {
    /// Puts a name into the mailbox of the client that subscribes to it.
    fn notify(&self, kind: Kind, (client, name): &(ClientId, Arc<str>)) {
        if let Some(mailbox) = self.mailboxes.get(client) {
            mailbox.put(kind, name.clone());
        }
    }

    fn unsubscribe_host(&mut self, host: IpAddr, key: &(ClientId, Arc<str>), kind: Kind) {
        let Some(watchers) = self.hosts.get_mut(&host) else { return };
        watchers.remove(key, kind);
        if watchers.is_empty() {
            self.hosts.remove(&host);
        }
    }
}

impl Subscribers {
    /// Adds a client; returns its mailbox.
    pub(crate) fn join(&self, client: ClientId) -> Arc<Mailbox> {
        let mailbox = Arc::<Mailbox>::default();
        lock(&self.inner).mailboxes.insert(client, mailbox.clone());
        mailbox
    }

    /// Removes a client: it gets no more names to check, and no longer subscribes to all resources of a kind.
    pub(crate) fn leave(&self, client: ClientId) {
        let mut inner = lock(&self.inner);
        inner.mailboxes.remove(&client);
        inner.all.iter_mut().for_each(|all| drop(all.remove(&client)));
    }

    pub(crate) fn subscribe(&self, client: ClientId, kind: Kind, subject: Subject, name: Arc<str>) {
        let mut inner = lock(&self.inner);
        let key = (client, name);
        if let Some(host) = subject.host() {
            inner.hosts.entry(host).or_default().add(key.clone(), kind);
        }
        inner.subjects.entry(subject).or_default().add(key, kind);
    }

    pub(crate) fn unsubscribe(&self, client: ClientId, kind: Kind, subject: &Subject, name: &Arc<str>) {
        let mut inner = lock(&self.inner);
        let key = (client, name.clone());
        if let Some(host) = subject.host() {
            inner.unsubscribe_host(host, &key, kind);
        }
        let Some(watchers) = inner.subjects.get_mut(subject) else { return };
        watchers.remove(&key, kind);
        if watchers.is_empty() {
            inner.subjects.remove(subject);
            if inner.subjects.len() < inner.subjects.capacity() / 4 {
                inner.subjects.shrink_to_fit();
            }
        }
    }

    /// Whether any client subscribes to a subject, in any kind, by name or by a subscription to all resources.
    pub(crate) fn has(&self, subject: &Subject) -> bool {
        let inner = lock(&self.inner);
        let may_be_among_all = matches!(subject, Subject::Cluster(_) | Subject::Address(_));
        inner.subjects.contains_key(subject) || (may_be_among_all && inner.all.iter().any(|all| !all.is_empty()))
    }

    /// Sets whether the client subscribes to all resources of this kind.
    pub(crate) fn set_all(&self, client: ClientId, kind: Kind, wants_all: bool) {
        let mut inner = lock(&self.inner);
        let mailbox = inner.mailboxes.get(&client).cloned();
        let all = &mut inner.all[kind.index()];
        match mailbox.filter(|_| wants_all) {
            Some(mailbox) => drop(all.insert(client, mailbox)),
            None => drop(all.remove(&client)),
        }
    }

    /// Puts the changed names into the mailbox of every client that subscribes to them.
    pub(crate) fn announce(&self, changes: &Changes) {
        let inner = lock(&self.inner);
        for kind in Kind::ALL {
            for subject in changes.of(kind) {
                let watchers = inner.subjects.get(subject).into_iter();
                watchers.flat_map(|watchers| watchers.of(kind)).for_each(|key| inner.notify(kind, key));
                if !inner.all[kind.index()].is_empty() && !matches!(subject, Subject::Ports(_)) {
                    let name: Arc<str> = subject.to_string().into();
                    inner.all[kind.index()].values().for_each(|mailbox| mailbox.put(kind, name.clone()));
                }
            }
            for ip in changes.pods().ips() {
                let watchers = inner.hosts.get(ip).into_iter().flat_map(|watchers| watchers.of(kind));
                let is_concerned = |name: &str| port(name).is_none_or(|port| changes.pods().concerns(ip, kind, port));
                watchers.filter(|(_, name)| is_concerned(name)).for_each(|key| inner.notify(kind, key));
            }
        }
    }
}

/// The port at the end of a resource's name.
fn port(name: &str) -> Option<u16> {
    name.rsplit(':').next()?.parse().ok()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
