use std::collections::HashSet;
use std::future::pending;

use leno_model::manifest::read_object;
use serde_json::json;

use super::*;
use crate::fixtures::{Warnings, client_of};
use crate::index::{Content, Name, Revision};
use crate::watch::Hearing;

const PATIENCE: Duration = Duration::from_secs(20);

/// A source whose API server never answers; tests send the changes themselves.
fn source() -> KubernetesSource {
    KubernetesSource::start(&ApiServer::of(client_of(|_| pending()), Hearing::default()), "leno")
}

#[tokio::test]
async fn a_pod_that_is_expected_has_its_namespace_trusted_and_no_mesh_made() {
    let mut source = source();
    let (changes, state, mut trusting) = (source.changes(), source.state(), source.trusting_namespaces());
    let send = |kind, change| changes.try_send((kind, change)).expect("there is room");
    let quiet = Name::of_cluster("quiet");
    send(Kind::Namespace, Change::Applied(quiet.clone(), Content::Namespace(Namespace::default())));
    for kind in Kind::ALL {
        let names = if kind == Kind::Namespace { HashSet::from([quiet.clone()]) } else { HashSet::new() };
        send(kind, Change::Listed(names));
    }
    tokio::time::timeout(PATIENCE, source.listed_and(async {})).await.expect("all is known");
    let translations = state.borrow().translations;
    tokio::spawn(async move { match source.run().await {} });
    for _ in 0..100 {
        send(Kind::Pod, Change::Expected("quiet".into()));
    }
    let told = trusting.wait_for(|trusting| trusting.contains("quiet"));
    tokio::time::timeout(PATIENCE, told).await.expect("it is told").expect("the source lives");
    // `Change::Expected` causes no translation. The new namespace, sent after it, causes the only one.
    let another = Content::Namespace(Namespace::default());
    send(Kind::Namespace, Change::Applied(Name::of_cluster("another"), another));
    let mut state = state;
    let made = state.wait_for(|state| {
        let mut numbers = String::new();
        state.write_metrics(&mut numbers);
        numbers.contains("leno_control_objects{kind=\"Namespace\"} 2\n")
    });
    let made = tokio::time::timeout(PATIENCE, made).await.expect("a mesh").expect("the source lives").translations;
    assert_eq!(made, translations + 1);
}

#[tokio::test]
async fn what_changes_while_the_listed_objects_wait_for_something_else_is_followed() {
    let mut source = source();
    let (changes, mut namespaces) = (source.changes(), source.namespaces());
    let send = |kind, change| changes.try_send((kind, change)).expect("there is room");
    for kind in Kind::ALL {
        send(kind, Change::Listed(HashSet::new()));
    }
    let (done, waits) = tokio::sync::oneshot::channel();
    let change = async {
        let late = Name::of_cluster("late");
        send(Kind::Namespace, Change::Applied(late, Content::Namespace(Namespace::default())));
        let told = namespaces.wait_for(|namespaces| namespaces.contains_key("late"));
        tokio::time::timeout(PATIENCE, told).await.expect("it is followed").expect("the source lives");
        done.send("done").expect("it waits");
    };
    let (output, ()) = tokio::join!(source.listed_and(async { waits.await.expect("it is done") }), change);
    assert_eq!(output, "done");
}

#[tokio::test]
async fn the_state_has_the_notices_of_its_own_mesh() {
    let mut source = source();
    let (changes, state) = (source.changes(), source.state());
    let send = |kind, change| changes.try_send((kind, change)).expect("there is room");
    let shop = Name::of_cluster("shop");
    send(Kind::Namespace, Change::Applied(shop.clone(), Content::Namespace(Namespace::default())));
    let web = Name::new("shop", "web");
    let read = read_object(json!({
        "apiVersion": "leno.dev/v1alpha1",
        "kind": "AuthorizationPolicy",
        "metadata": { "name": "web", "namespace": "shop" },
        "spec": { "targetRef": { "kind": "ServiceAccount", "name": "gone" }, "allow": [] },
    }));
    let content = Content::Custom(Revision { uid: "a".into(), generation: 1 }, read);
    send(Kind::AuthorizationPolicy, Change::Applied(web.clone(), content));
    for kind in Kind::ALL {
        let name = match kind {
            Kind::Namespace => Some(&shop),
            Kind::AuthorizationPolicy => Some(&web),
            _ => None,
        };
        send(kind, Change::Listed(name.into_iter().cloned().collect()));
    }
    tokio::time::timeout(PATIENCE, source.listed_and(async {})).await.expect("all is known");
    let state = state.borrow().clone();
    let notices: Vec<String> = state.notices.iter().map(ToString::to_string).collect();
    assert!(
        state.mesh.is_some() && notices.iter().any(|notice| notice.contains("no service account shop/gone")),
        "{notices:?}"
    );
}

#[tokio::test]
async fn a_namespace_that_the_injector_leaves_out_lacks_no_proxy() {
    let mut source = source();
    let (options, known) = watch::channel(Arc::new(InjectOptions::default()));
    source.follow_options(known);
    let (changes, mut unmeshed) = (source.changes(), source.unmeshed());
    let send = |kind, change| changes.try_send((kind, change)).expect("there is room");
    let ci = Name::of_cluster("ci");
    let asking = Namespace::new([("leno.dev/inject".to_owned(), "enabled".to_owned())].into());
    send(Kind::Namespace, Change::Applied(ci.clone(), Content::Namespace(asking)));
    for kind in Kind::ALL {
        let names = if kind == Kind::Namespace { HashSet::from([ci.clone()]) } else { HashSet::new() };
        send(kind, Change::Listed(names));
    }
    tokio::time::timeout(PATIENCE, source.listed_and(async {})).await.expect("all is known");
    assert!(unmeshed.borrow_and_update().contains_key("ci"));
    tokio::spawn(async move { match source.run().await {} });
    options.send_replace(Arc::new(InjectOptions { excluded_namespaces: vec!["ci".to_owned()], ..Default::default() }));
    let told = unmeshed.wait_for(|unmeshed| !unmeshed.contains_key("ci"));
    tokio::time::timeout(PATIENCE, told).await.expect("it is told").expect("the source lives");
}

#[tokio::test(start_paused = true)]
async fn changes_during_the_pause_after_a_mesh_make_one_mesh_at_its_end() {
    let mut source = source();
    let (changes, mut state, namespaces) = (source.changes(), source.state(), source.namespaces());
    let send = |kind, change| changes.try_send((kind, change)).expect("there is room");
    for kind in Kind::ALL {
        send(kind, Change::Listed(HashSet::new()));
    }
    tokio::time::timeout(PATIENCE, source.listed_and(async {})).await.expect("all is known");
    assert!(source.paused_until > tokio::time::Instant::now(), "a pause follows a mesh");
    // Instead of the pause after this small mesh, take the pause after a large one.
    let start = tokio::time::Instant::now();
    source.paused_until = start + PAUSE_MAX;
    let translations = state.borrow_and_update().translations;
    tokio::spawn(async move { match source.run().await {} });
    for number in 0..45 {
        let busy = Name::of_cluster(&format!("busy-{number}"));
        send(Kind::Namespace, Change::Applied(busy, Content::Namespace(Namespace::default())));
        tokio::time::sleep(2 * GATHER).await;
    }
    assert_eq!(namespaces.borrow().len(), 45, "new Pods do not wait for the mesh");
    assert_eq!(state.borrow().translations, translations);
    let made = state.wait_for(|state| state.translations > translations).await.expect("the source lives").clone();
    assert_eq!(start.elapsed().as_secs(), 1);
    let mut numbers = String::new();
    made.write_metrics(&mut numbers);
    assert!(numbers.contains("leno_control_objects{kind=\"Namespace\"} 45\n"), "{numbers}");
    // After a calm time, a change does not wait.
    tokio::time::sleep(PAUSE_MAX).await;
    let start = tokio::time::Instant::now();
    let late = Name::of_cluster("late");
    send(Kind::Namespace, Change::Applied(late, Content::Namespace(Namespace::default())));
    let translations = made.translations;
    let made = state.wait_for(|state| state.translations > translations).await.expect("the source lives").translations;
    assert_eq!(made, translations + 1);
    assert!(start.elapsed() <= 2 * GATHER, "{:?}", start.elapsed());
}

#[tokio::test]
async fn the_log_names_the_namespace_of_an_invalid_object() {
    let (warnings, _guard) = Warnings::collect();
    let mut source = source();
    let read = read_object(json!({
        "apiVersion": "leno.dev/v1alpha1",
        "kind": "AuthorizationPolicy",
        "metadata": { "name": "web", "namespace": "shop" },
        "spec": { "allow": "all" },
    }));
    assert!(read.is_err());
    let content = Content::Custom(Revision { uid: "a".into(), generation: 1 }, read);
    source.take((Kind::AuthorizationPolicy, Change::Applied(Name::new("shop", "web"), content)));
    let warnings = warnings.lines();
    assert!(!warnings.is_empty() && warnings.iter().all(|line| line.contains("namespace=\"shop\"")), "{warnings:?}");
}
