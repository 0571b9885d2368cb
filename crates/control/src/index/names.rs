//! Finds service accounts and namespaces that policies name but that do not exist: a policy with a misspelled name may
//! protect nothing.
//!
//! A missing name is no error, since the policy may be created before the objects that it names. The policy's status
//! reports the name in a condition, and the admin endpoint reports it in a notice.

use std::collections::{BTreeMap, BTreeSet};

use leno_model::policy::{AuthorizationPolicy, Identities};
use leno_model::problem::{Mark, Notice, Place, in_a_line};

use super::{Kind, Name, Namespace};

/// Maximum number of names that one message lists.
const SHOWN_MAX: usize = 3;

/// The names that exist.
pub(super) struct Known<'a> {
    pub(super) namespaces: &'a BTreeMap<Box<str>, Namespace>,
    pub(super) service_accounts: &'a BTreeSet<Name>,
}

impl Known<'_> {
    /// Returns the names in the policy that do not exist, in one line; `None` if all exist.
    pub(super) fn missing(&self, policy: &AuthorizationPolicy) -> Option<String> {
        let target = policy.service_account.as_deref().map(|account| self.account(&policy.namespace, account));
        let target = target.flatten().map(|what| format!("spec.targetRef: {what}, so the policy selects no workload"));
        let rules = policy.allow.iter().flat_map(|rule| rule.identities.iter().flatten());
        let callers = rules.filter_map(|identities| match identities {
            // Do not check identities of other trust domains: the index knows only the objects of this cluster.
            Identities::Of { trust_domain: None, namespace: Some(namespace), service_account } => {
                self.caller(namespace, service_account.as_deref())
            }
            Identities::Any | Identities::Of { .. } => None,
        });
        let callers: BTreeSet<String> = callers.map(|what| format!("spec.allow: {what}")).collect();
        let all: Vec<String> = target.into_iter().chain(callers).collect();
        (!all.is_empty()).then(|| in_a_line(&all, SHOWN_MAX))
    }

    fn caller(&self, namespace: &str, account: Option<&str>) -> Option<String> {
        if !self.namespaces.contains_key(namespace) {
            return Some(format!("there is no namespace {namespace}"));
        }
        self.account(namespace, account?)
    }

    fn account(&self, namespace: &str, account: &str) -> Option<String> {
        let is_there = self.service_accounts.contains(&Name::new(namespace, account));
        (!is_there).then(|| format!("there is no service account {namespace}/{account}"))
    }
}

/// Makes the notice for the names in a policy that do not exist.
pub(super) fn notice(policy: &Name, missing: &str) -> Notice {
    let object = format!("{} {policy}", Kind::AuthorizationPolicy);
    let place = Place { file: "".into(), mark: Mark::default(), field: String::new(), object };
    Notice { place, what: missing.to_owned() }
}
