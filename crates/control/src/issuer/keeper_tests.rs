use std::collections::BTreeMap;
use std::future::pending;

use k8s_openapi::ByteString;
use serde_json::json;
use tokio::time::timeout;

use super::*;
use crate::fixtures::{Warnings, client_of};
use crate::issuer::store::Store;
use crate::watch::Hearing;

const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Returns the keeper of a leading replica in a cluster without the Secret. Its watch reports nothing, because the
/// tests pass events to the keeper directly.
async fn keeper(store: &Store) -> (Keeper, watch::Sender<bool>) {
    keeper_of(store, false).await
}

async fn keeper_of(store: &Store, is_external: bool) -> (Keeper, watch::Sender<bool>) {
    let api_server = ApiServer::of(client_of(|_| pending()), Hearing::default());
    let (leader, leads) = watch::channel(true);
    let mut keeper = Keeper::new(&api_server, "leno", trust_domain(), is_external, leads);
    keeper.secrets = Api::namespaced(store.client(), "leno");
    // kube reports `Init` before it requests the list, so this event arrives although the request gets no answer.
    assert!(matches!(keeper.events.next().await, Ok(Event::Init)));
    keeper.was_listed = true;
    (keeper, leader)
}

fn trust_domain() -> TrustDomain {
    "cluster.local".parse().expect("a trust domain")
}

fn made(then: SystemTime) -> Material {
    Material::create(trust_domain(), then).expect("an authority")
}

/// Stores a Secret with this data, and with other fields that another program has set.
fn store(store: &Store, data: BTreeMap<String, ByteString>) -> Secret {
    let owner = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "installer", "uid": "1" });
    let mut secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {
            "name": ISSUER, "namespace": "leno", "resourceVersion": "7", "annotations": { "team": "mesh" },
            "ownerReferences": [owner],
        },
    });
    secret["data"] = serde_json::to_value(data).expect("JSON");
    store.put(secret.clone());
    serde_json::from_value(secret).expect("a Secret")
}

fn foreign(mut data: BTreeMap<String, ByteString>) -> BTreeMap<String, ByteString> {
    data.remove("ca.key");
    data
}

#[tokio::test(start_paused = true)]
async fn an_authority_that_has_expired_is_renewed_before_the_first_client_is_served() {
    let (now, api_server) = (SystemTime::now(), Store::new());
    for then in [now - YEAR, now + YEAR] {
        let (mut keeper, _leader) = keeper(&api_server).await;
        let old = made(then);
        keeper.take(Event::Apply(store(&api_server, old.data())));
        let signing = timeout(Duration::from_secs(60), keeper.ready()).await.expect("it is renewed");
        let signing = signing.borrow().clone();
        assert_ne!(signing.trust().signer, old.signing().trust().signer);
        assert_eq!(signing.trust().bundle, old.signing().trust().bundle);
        signing.certify_server(&[]).expect("it can sign");
    }
}

#[tokio::test(start_paused = true)]
async fn an_expired_authority_of_another_program_is_waited_for() {
    let api_server = Store::new();
    let (mut keeper, _leader) = keeper(&api_server).await;
    keeper.take(Event::Apply(store(&api_server, foreign(made(SystemTime::now() - YEAR).data()))));
    assert!(timeout(Duration::from_secs(600), keeper.ready()).await.is_err(), "it cannot sign");
    keeper.take(Event::Apply(store(&api_server, foreign(made(SystemTime::now()).data()))));
    timeout(Duration::from_secs(60), keeper.ready()).await.expect("the other program has renewed it");
}

#[tokio::test]
async fn a_renewal_changes_only_our_entries() {
    let (now, api_server) = (SystemTime::now(), Store::new());
    let (mut keeper, _leader) = keeper(&api_server).await;
    let mut data = made(now - Duration::from_secs(80 * 24 * 60 * 60)).data();
    data.insert("note".to_owned(), ByteString(b"from another program".to_vec()));
    let before = serde_json::to_value(store(&api_server, data)).expect("JSON");
    keeper.take(Event::Apply(serde_json::from_value(before.clone()).expect("a Secret")));
    keeper.maintain(now).await;
    let mut after = api_server.stored().expect("a Secret");
    assert_ne!(after["data"]["tls.crt"], before["data"]["tls.crt"]);
    for entry in ["tls.crt", "tls.key"] {
        after["data"][entry] = before["data"][entry].clone();
    }
    after["metadata"]["resourceVersion"] = json!("7");
    assert_eq!(after, before, "also the type, the annotations, the owners and other entries");
}

#[tokio::test]
async fn a_renewal_does_not_overwrite_the_content_of_another_program() {
    let (now, api_server) = (SystemTime::now(), Store::new());
    let (mut keeper, _leader) = keeper(&api_server).await;
    keeper.take(Event::Apply(store(&api_server, made(now).data())));
    let nonsense = BTreeMap::from([("tls.crt".to_owned(), ByteString(b"another program's".to_vec()))]);
    keeper.take(Event::Apply(store(&api_server, nonsense)));
    let before = api_server.stored();
    keeper.maintain(now + YEAR).await;
    assert_eq!(api_server.stored(), before);
}

#[tokio::test(start_paused = true)]
async fn a_missing_secret_is_created_unless_another_program_writes_it() {
    let own = Store::new();
    let (mut keeper, _leader) = keeper_of(&own, false).await;
    timeout(Duration::from_secs(60), keeper.ready()).await.expect("it is created");
    assert!(own.stored().is_some());

    let api_server = Store::new();
    let (mut keeper, _leader) = keeper_of(&api_server, true).await;
    let (warnings, _guard) = Warnings::collect();
    keeper.take(Event::InitDone);
    let warnings = warnings.lines();
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    assert!(warning.contains("there is no Secret leno-identity-issuer") && warning.contains("; write it"), "{warning}");
    assert!(timeout(Duration::from_secs(600), keeper.ready()).await.is_err(), "it waits for the other program");
    assert_eq!(api_server.stored(), None);
    let theirs = made(SystemTime::now());
    keeper.take(Event::Apply(store(&api_server, foreign(theirs.data()))));
    let signing = timeout(Duration::from_secs(60), keeper.ready()).await.expect("the other program has written it");
    assert_eq!(signing.borrow().trust(), theirs.signing().trust());
}

#[tokio::test]
async fn an_external_authority_is_never_written() {
    let now = SystemTime::now();
    // `ca.key` may be a remnant of an authority that a control plane created before.
    for data in [made(now).data(), foreign(made(now).data())] {
        let api_server = Store::new();
        let (mut keeper, _leader) = keeper_of(&api_server, true).await;
        let secret = store(&api_server, data);
        keeper.take(Event::Apply(secret.clone()));
        let before = api_server.stored();
        keeper.maintain(now + YEAR).await;
        assert_eq!(api_server.stored(), before, "it is not renewed");
        keeper.take(Event::Delete(secret));
        api_server.remove();
        keeper.maintain(now).await;
        assert_eq!(api_server.stored(), None, "it is not written back");
    }
}

#[tokio::test]
async fn an_external_authority_replaces_the_authority_of_a_control_plane_although_its_ca_key_stays() {
    let (now, api_server) = (SystemTime::now(), Store::new());
    let (mut keeper, _leader) = keeper_of(&api_server, true).await;
    let (ours, theirs) = (made(now), made(now));
    keeper.take(Event::Apply(store(&api_server, ours.data())));
    let mut data = ours.data();
    data.extend(foreign(theirs.data()));
    keeper.take(Event::Apply(store(&api_server, data)));
    let signing = keeper.signing.borrow().clone().expect("an authority");
    assert_eq!(signing.trust(), theirs.signing().trust());
}
