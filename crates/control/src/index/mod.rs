//! What is known of the cluster: its objects as the mesh keeps them, fed by [`crate::watch`], joined by `translate`.
//!
//! Knows no Kubernetes client. What was known stays known until somebody says that it is gone: an object that became
//! wrong counts as it last was right, and while a kind is listed anew what was listed before holds. An AuthorizationPolicy
//! that never was right since we started allows no caller: the ports that it protects must not open.

mod change;
mod names;
mod pods;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

pub use change::{Bare, Change, Content, Kind, Name, Namespace, Pod};
use leno_install::inject::{Wish, is_never_meshed};
use leno_model::manifest::{Manifest, Refused};
use leno_model::mesh::{Dialled, Mesh, MeshedPods};
use leno_model::object::{Address, Object};
use leno_model::policy::Mode;
use leno_model::problem::{Notice, Problem, in_a_line};
use leno_model::route::status::ParentStatus;
use leno_model::translate::{Memo, Translation, translate_again};

/// The most mistakes of an object that its status names.
const PROBLEMS_SHOWN_MAX: usize = 3;

/// The objects of a cluster.
#[derive(Debug)]
pub struct Index {
    objects: BTreeMap<(Kind, Name), Entry>,
    pods: HashMap<Name, Pod>,
    /// Those with a proxy, by address.
    meshed_pods: Arc<MeshedPods>,
    /// Pods that are other than when the slices were given their proxies last.
    changed_pods: HashSet<Name>,
    namespaces: Arc<BTreeMap<Box<str>, Namespace>>,
    service_accounts: BTreeSet<Name>,
    /// Whether a policy, or what policies name, is other than when [`Entry::missing`] was found out.
    are_names_stale: bool,
    /// Namespaces in which a Pod with a proxy was about to be made.
    expecting: BTreeSet<Box<str>>,
    /// Kinds of which not every object has been told yet.
    unlisted: BTreeSet<Kind>,
    /// Kinds that the API server does not know.
    absent: BTreeSet<Kind>,
    mesh: Arc<Mesh>,
    memo: Memo,
}

/// One object of a mesh.
#[derive(Debug, Default)]
struct Entry {
    /// As it was last right; of a slice, only the addresses that can be used.
    object: Option<Object>,
    /// The addresses of a slice whose Pods have not said yet that they have them: whether they have proxies is not known either.
    held: Vec<Address>,
    /// Mistakes of the object as it is now.
    problems: Vec<Problem>,
    notices: Vec<Notice>,
    /// What a policy names that does not exist.
    missing: Option<String>,
    /// Of the object as it is now; 0 where it does not matter.
    generation: i64,
}

/// What was made of an object that has a status of ours, as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// Its generation.
    pub generation: i64,
    /// Why it cannot be read, in a line; nothing if it can.
    pub problem: Option<String>,
    /// What a policy names that does not exist, in a line.
    pub missing: Option<String>,
}

/// A Pod that runs without a proxy although it or its namespace asks for one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unmeshed {
    /// The Pod's name.
    pub name: Box<str>,
    /// The Pod's UID.
    pub uid: Box<str>,
}

/// The mesh of what is known at one moment.
#[derive(Debug)]
pub struct Joined {
    /// The mesh.
    pub mesh: Arc<Mesh>,
    /// Objects that contradict each other.
    pub problems: Vec<Problem>,
    /// What is worth telling of them.
    pub notices: Vec<Notice>,
    /// What became of each route at each Service that it is for.
    pub routes: Vec<ParentStatus>,
}

/// What a change of an object brought that somebody should hear of.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Mistakes that were not there before.
    pub problems: Vec<Problem>,
    /// What is in force until they are mended; empty if there are none.
    pub until_then: String,
    /// Whether the object had mistakes and has none now.
    pub is_mended: bool,
}

impl Entry {
    /// Whether there is a version without a mistake.
    fn is_good(&self) -> bool {
        match &self.object {
            None => false,
            Some(Object::AuthorizationPolicy(policy)) => policy.policy.mode != Mode::Unreadable,
            Some(_) => true,
        }
    }

    /// What is in force while the object has a mistake.
    fn until_then(&self, kind: Kind) -> String {
        match &self.object {
            Some(Object::AuthorizationPolicy(policy)) if !self.is_good() => {
                format!("it allows no caller on {}", policy.policy.target())
            }
            None if kind == Kind::AuthorizationPolicy => "it says nothing, since its mode is Audit".to_owned(),
            None => "it says nothing".to_owned(),
            Some(_) => "its last version without a mistake stays in force".to_owned(),
        }
    }
}

impl Index {
    /// One that knows nothing and waits for every kind.
    pub fn new() -> Self {
        Self {
            objects: BTreeMap::new(),
            pods: HashMap::new(),
            meshed_pods: Arc::default(),
            changed_pods: HashSet::new(),
            namespaces: Arc::default(),
            service_accounts: BTreeSet::new(),
            are_names_stale: false,
            expecting: BTreeSet::new(),
            unlisted: Kind::ALL.into(),
            absent: BTreeSet::new(),
            mesh: Arc::new(Mesh::empty()),
            memo: Memo::default(),
        }
    }

    /// Takes in one change of one kind.
    pub fn take(&mut self, kind: Kind, change: Change) -> News {
        match change {
            Change::Applied(name, content) => {
                self.absent.remove(&kind);
                return self.apply(kind, name, content);
            }
            Change::Removed(name) => self.remove(kind, &name),
            Change::Listed(names) => {
                self.unlisted.remove(&kind);
                self.absent.remove(&kind);
                for name in self.names(kind) {
                    if !names.contains(&name) {
                        self.remove(kind, &name);
                    }
                }
            }
            Change::NotInstalled => {
                self.unlisted.remove(&kind);
                self.absent.insert(kind);
                for name in self.names(kind) {
                    self.remove(kind, &name);
                }
            }
            Change::Expected(namespace) => {
                self.expecting.insert(namespace);
            }
        }
        News::default()
    }

    /// Whether every kind has been listed once: before that, what is not known may be what protects somebody.
    pub fn is_complete(&self) -> bool {
        self.unlisted.is_empty()
    }

    /// Kinds of which not every object has been told yet.
    pub fn unlisted(&self) -> &BTreeSet<Kind> {
        &self.unlisted
    }

    /// Kinds that the API server does not know.
    pub fn absent(&self) -> &BTreeSet<Kind> {
        &self.absent
    }

    /// How many objects of a kind are known.
    pub fn count(&self, kind: Kind) -> usize {
        match kind {
            Kind::Pod => self.pods.len(),
            Kind::Namespace => self.namespaces.len(),
            Kind::ServiceAccount => self.service_accounts.len(),
            _ => self.objects.keys().filter(|(of, _)| *of == kind).count(),
        }
    }

    /// Mistakes of the objects as they are now.
    pub fn problems(&self) -> impl Iterator<Item = &Problem> {
        self.objects.values().flat_map(|entry| &entry.problems)
    }

    /// What was made of each object that has a status of ours.
    pub fn observed(&self) -> BTreeMap<(Kind, Name), Observed> {
        let with_status = self.objects.iter().filter(|(_, entry)| entry.generation != 0);
        let observed = with_status.map(|(place, entry)| {
            let problem = (!entry.problems.is_empty()).then(|| {
                let problems: Vec<String> = entry.problems.iter().map(Problem::within_object).collect();
                let problems = in_a_line(&problems, PROBLEMS_SHOWN_MAX);
                // Of routes the writer of their statuses says it, at each parent.
                match place.0 {
                    Kind::AuthorizationPolicy => format!("{problems}. Until then {}.", entry.until_then(place.0)),
                    _ => problems,
                }
            });
            let missing = entry.missing.clone();
            (place.clone(), Observed { generation: entry.generation, problem, missing })
        });
        observed.collect()
    }

    /// What is worth knowing of the objects as they are now.
    pub fn notices(&self) -> impl Iterator<Item = Notice> {
        let held = self.objects.iter().filter_map(|((_, name), entry)| pods::held_back(name, &entry.held));
        let missing =
            self.objects.iter().filter_map(|((_, name), entry)| Some(names::notice(name, entry.missing.as_ref()?)));
        self.objects.values().flat_map(|entry| &entry.notices).cloned().chain(held).chain(missing)
    }

    /// The namespaces that are known.
    pub fn namespaces(&self) -> &Arc<BTreeMap<Box<str>, Namespace>> {
        &self.namespaces
    }

    /// The namespaces that proxies run in or may be put into.
    pub fn meshed_namespaces(&self) -> BTreeSet<Box<str>> {
        let injected = self.namespaces.iter().filter(|(_, namespace)| namespace.injects()).map(|(name, _)| name);
        let inhabited = self.pods.iter().filter(|(_, pod)| pod.injected_as.is_some()).map(|(name, _)| &name.namespace);
        // Of a namespace that is not there any more nothing can be said.
        injected
            .chain(inhabited)
            .chain(&self.expecting)
            .filter(|name| self.namespaces.contains_key(*name))
            .cloned()
            .collect()
    }

    /// The Pods that run without a proxy although they or their namespaces ask for one, by namespace and in the order of their names.
    /// A namespace that asks is in the map without such Pods too.
    pub fn unmeshed(&self) -> BTreeMap<Box<str>, Vec<Unmeshed>> {
        let asks = |name: &str| self.namespaces.get(name).and_then(Namespace::inject);
        let asking = self.namespaces.keys().filter(|name| Wish::AsNamespace.is_for_a_proxy(asks(name)));
        let mut unmeshed: BTreeMap<Box<str>, Vec<Unmeshed>> = asking.map(|name| (name.clone(), Vec::new())).collect();
        for (Name { namespace, name }, pod) in &self.pods {
            let bare = pod.bare.as_ref().filter(|bare| bare.wish.is_for_a_proxy(asks(namespace)));
            if let Some(Bare { uid, .. }) = bare {
                let pod = Unmeshed { name: name.clone(), uid: uid.clone() };
                unmeshed.entry(namespace.clone()).or_default().push(pod);
            }
        }
        unmeshed.retain(|namespace, _| !is_never_meshed(namespace));
        unmeshed.values_mut().for_each(|pods| pods.sort_unstable());
        unmeshed
    }

    /// The mesh of what is known now. What did not change is shared with the one before.
    pub fn translate(&mut self) -> Joined {
        self.join_pods();
        self.find_missing_names();
        let objects = self.objects.values().filter_map(|entry| entry.object.as_ref());
        let Translation { mesh, problems, notices, routes } =
            translate_again(objects, "default", Dialled::Pods, &mut self.memo);
        self.mesh = Arc::new(mesh.with_pods(self.meshed_pods.clone()).sharing(&self.mesh));
        Joined { mesh: self.mesh.clone(), problems, notices, routes }
    }

    fn apply(&mut self, kind: Kind, name: Name, content: Content) -> News {
        match content {
            Content::Object(read) => return self.apply_object(kind, &name, 0, read.map_err(Refused::from)),
            Content::Custom(generation, read) => return self.apply_object(kind, &name, generation, read),
            Content::Pod(pod) => {
                if self.pods.get(&name) != Some(&pod) {
                    self.changed_pods.insert(name.clone());
                    self.pods.insert(name, pod);
                }
            }
            Content::ServiceAccount => self.are_names_stale |= self.service_accounts.insert(name),
            Content::Namespace(namespace) => {
                if self.namespaces.get(&name.name) != Some(&namespace) {
                    self.are_names_stale = true;
                    Arc::make_mut(&mut self.namespaces).insert(name.name, namespace);
                }
            }
        }
        News::default()
    }

    /// Notes of each policy what it names that does not exist.
    fn find_missing_names(&mut self) {
        if !std::mem::take(&mut self.are_names_stale) {
            return;
        }
        let known = names::Known { namespaces: &self.namespaces, service_accounts: &self.service_accounts };
        for entry in self.objects.values_mut() {
            if let Some(Object::AuthorizationPolicy(policy)) = &entry.object {
                entry.missing = known.missing(&policy.policy);
            }
        }
    }

    fn apply_object(&mut self, kind: Kind, name: &Name, generation: i64, read: Result<Manifest, Refused>) -> News {
        self.are_names_stale |= kind == Kind::AuthorizationPolicy;
        let entry = self.objects.entry((kind, name.clone())).or_default();
        entry.generation = generation;
        match read {
            Ok(Manifest { mut objects, notices }) => {
                let is_mended = !entry.problems.is_empty();
                *entry = Entry { object: objects.pop(), notices, generation, ..Entry::default() };
                if let Some(Object::EndpointSlice(slice)) = &mut entry.object {
                    pods::join(Arc::make_mut(slice), &mut entry.held, &self.pods);
                }
                News { is_mended, ..News::default() }
            }
            Err(refused) => {
                let problems = refused.problems.clone();
                let is_news = entry.problems != problems;
                entry.problems = problems.clone();
                if kind == Kind::AuthorizationPolicy && !entry.is_good() {
                    entry.object = refused.into_policy(&name.namespace, &name.name);
                }
                let until_then = entry.until_then(kind);
                News { problems: if is_news { problems } else { Vec::new() }, until_then, is_mended: false }
            }
        }
    }

    fn remove(&mut self, kind: Kind, name: &Name) {
        match kind {
            Kind::Pod => {
                if self.pods.remove(name).is_some() {
                    self.changed_pods.insert(name.clone());
                }
            }
            Kind::ServiceAccount => self.are_names_stale |= self.service_accounts.remove(name),
            Kind::Namespace => {
                self.are_names_stale = true;
                Arc::make_mut(&mut self.namespaces).remove(&name.name);
                self.expecting.remove(&name.name);
            }
            _ => {
                self.objects.remove(&(kind, name.clone()));
            }
        }
    }

    fn names(&self, kind: Kind) -> Vec<Name> {
        match kind {
            Kind::Pod => self.pods.keys().cloned().collect(),
            Kind::Namespace => self.namespaces.keys().map(|name| Name::of_cluster(name)).collect(),
            Kind::ServiceAccount => self.service_accounts.iter().cloned().collect(),
            _ => self.objects.keys().filter(|(of, _)| *of == kind).map(|(_, name)| name.clone()).collect(),
        }
    }

    /// Gives the slices that name a Pod that changed the proxies of their Pods.
    fn join_pods(&mut self) {
        let changed = std::mem::take(&mut self.changed_pods);
        if changed.is_empty() {
            return;
        }
        self.meshed_pods = Arc::new(pods::meshed(&self.pods));
        for entry in self.objects.values_mut() {
            if let Some(Object::EndpointSlice(slice)) = &mut entry.object
                && pods::names_any(slice, &entry.held, &changed)
            {
                pods::join(Arc::make_mut(slice), &mut entry.held, &self.pods);
            }
        }
    }
}

impl Default for Index {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
#[path = "index_tests.rs"]
mod tests;
