use std::future::pending;
use std::time::Duration;

use tokio::time::timeout;

use super::*;

const PATIENCE: Duration = Duration::from_secs(20);

fn source(last: u8) -> Source {
    Source::of([127, 0, 0, last].into())
}

#[tokio::test]
async fn a_task_whose_place_is_taken_ends() {
    let room = Room::new(RoomSize::of_strangers(1));
    let mut first = room.enter(source(1)).expect("a free place");
    let working = tokio::spawn(async move { first.hold(pending::<()>()).await });
    let _second = room.enter(source(1)).expect("the silent one yields");
    assert_eq!(timeout(PATIENCE, working).await.expect("it ends").expect("no panic"), Err(Replaced));
    assert_eq!(room.len(), 1);
}

#[tokio::test]
async fn peers_with_an_identity_and_strangers_have_places_of_their_own() {
    let room = Room::new(RoomSize { strangers: 1, identified: 1 });
    let mut meshed = room.enter(source(1)).expect("a free place");
    meshed.identify("spiffe://example.org/ns/shop/sa/web").expect("a free place");
    let mut strangers: Vec<_> = (0..50).filter_map(|number| room.enter(source(number))).collect();
    assert_eq!((strangers.len(), room.len()), (50, 2), "each replaced the one before");
    assert_eq!(meshed.hold(async { 7 }).await, Ok(7));
    let last = strangers.pop().expect("there are some");
    let other = "spiffe://example.org/ns/shop/sa/other";
    last.identify(other).expect("the silent connection of another identity yields");
    assert_eq!(meshed.hold(pending::<()>()).await, Err(Replaced));
    assert_eq!(room.len(), 1);
    // The only place for identities now belongs to a connection that is no longer silent. A new connection of the same
    // identity is rejected.
    last.standing().settle();
    let late = room.enter(source(3)).expect("a free place");
    assert_eq!(late.identify(other), Err(Replaced));
    drop((late, last, strangers, meshed));
    assert!(room.is_empty());
}

#[test]
fn many_identities_of_a_namespace_leave_other_namespaces_their_part() {
    let room = Room::new(RoomSize { strangers: 1, identified: 4 });
    let identified = |identity: &str| {
        let place = room.enter(source(1)).expect("a free place");
        let result = place.identify(&format!("spiffe://example.org/ns/{identity}"));
        place.standing().settle();
        result.map(|()| place)
    };
    let crowd: Vec<_> = (0..4).filter_map(|number| identified(&format!("crowd/sa/{number}")).ok()).collect();
    assert_eq!(crowd.len(), 4);
    let shop = ["web", "cart"].map(|account| identified(&format!("shop/sa/{account}")).expect("the crowd yields"));
    assert_eq!(identified("shop/sa/other").err(), Some(Replaced), "the namespaces have equal parts");
    assert_eq!(identified("crowd/sa/0").err(), Some(Replaced));
    assert_eq!((room.len(), shop.len()), (4, 2));
}
