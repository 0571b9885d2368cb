use leno_identity::svid;
use tonic::Code;

use super::*;
use crate::issuer::fixtures::{ApiServer, forged_token, good_token, signing};

const ISSUER: &str = "https://kubernetes.default.svc";
/// Time that the tests' API server takes to review a token.
const REVIEW: Duration = Duration::from_millis(20);
/// Number of requests sent at once: twice as many as the service accepts, both under review and waiting.
const FLOOD: usize = 2 * (REVIEWS_MAX + REVIEWS_WAITING_MAX);

fn start() -> (ApiServer, Arc<Service>) {
    start_with(REVIEW)
}

/// Starts the service with an API server that takes the time `review` for each token.
fn start_with(review: Duration) -> (ApiServer, Arc<Service>) {
    let server = ApiServer::new(review);
    let (_, signing) = watch::channel(signing());
    let service = Arc::new(Service::new(server.client(), signing));
    (server, service)
}

async fn certify(service: &Service, from: [u8; 4], token: String) -> Result<Response<CertifyResponse>, Status> {
    let id = "spiffe://cluster.local/ns/shop/sa/cart".parse().expect("an id");
    let csr = svid::Request::new(id).expect("random numbers").csr().to_vec();
    let mut request = Request::new(CertifyRequest { csr, token });
    let peer = Peer { address: (from, 1).into(), identity: None, presence: Presence::default() };
    request.extensions_mut().insert(peer);
    service.certify(request).await
}

#[tokio::test]
async fn rubbish_is_refused_without_a_question_to_the_api_server() {
    let (server, service) = start();
    let expired = good_token(ISSUER).replacen('.', ".AAAA", 1);
    for token in ["nonsense".to_owned(), "a.b.c".to_owned(), "x".repeat(20_000), expired] {
        let status = certify(&service, [127, 0, 0, 1], token).await.expect_err("no certificate");
        assert_eq!(status.code(), Code::Unauthenticated, "{status}");
    }
    assert_eq!(server.asked(), 0);
    assert!(certify(&service, [127, 0, 0, 1], good_token(ISSUER)).await.is_ok());
    assert_eq!(server.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_proxy_learns_that_the_api_server_is_slow_before_it_gives_up() {
    let (server, service) = start_with(ISSUE_TIMEOUT * 2);
    let asked = timeout(ISSUE_TIMEOUT, certify(&service, [127, 0, 0, 1], good_token(ISSUER))).await;
    let status = asked.expect("an answer in time").expect_err("no certificate");
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.message().contains("the API server did not review the token within 7 s"), "{status}");
    assert_eq!(server.asked(), 1);
}

#[tokio::test]
async fn whoever_floods_the_queue_with_forged_tokens_costs_no_other_workload_its_certificate() {
    let (_, service) = start();
    let flood: Vec<_> = (0..FLOOD)
        .map(|_| {
            let service = service.clone();
            tokio::spawn(async move { certify(&service, [127, 0, 0, 1], forged_token(ISSUER)).await })
        })
        .collect();
    // Waits until the queue is full.
    while service.turns.waiting() < REVIEWS_WAITING_MAX {
        tokio::task::yield_now().await;
    }
    for _ in 0..10 {
        let issued = certify(&service, [127, 0, 0, 2], good_token(ISSUER)).await;
        assert!(issued.is_ok(), "{:?}", issued.err());
    }
    let mut codes = Vec::new();
    for request in flood {
        codes.push(request.await.expect("no panic").expect_err("no certificate"));
    }
    let refused = |code| codes.iter().filter(|status| status.code() == code).count();
    assert_eq!(refused(Code::Unauthenticated) + refused(Code::ResourceExhausted), FLOOD);
    let told = codes.iter().find(|status| status.code() == Code::ResourceExhausted).expect("more came than may wait");
    assert!(told.message().contains("try again in a second"), "{told}");
}

#[tokio::test]
async fn tokens_of_another_issuer_wait_together_wherever_they_come_from() {
    let (_, service) = start();
    certify(&service, [127, 0, 0, 1], good_token(ISSUER)).await.expect("a certificate");
    let flood: Vec<_> = (0..FLOOD)
        .map(|number| {
            let (service, last) = (service.clone(), u8::try_from(number % 200).expect("a byte"));
            tokio::spawn(async move { certify(&service, [127, 0, 1, last], forged_token("https://elsewhere")).await })
        })
        .collect();
    while service.turns.waiting() < REVIEWS_WAITING_MAX {
        tokio::task::yield_now().await;
    }
    let issued = certify(&service, [127, 0, 0, 2], good_token(ISSUER)).await;
    assert!(issued.is_ok(), "{:?}", issued.err());
    flood.into_iter().for_each(|request| request.abort());
    // A cluster may move to a new issuer. The service must still send tokens of the new issuer to the API server. Once
    // the API server has accepted such a token, the service knows the new issuer.
    let moved = certify(&service, [127, 0, 0, 2], good_token("https://new")).await;
    assert!(moved.is_ok(), "{:?}", moved.err());
    assert!(service.issuers.lock().expect("no panic").may_be("https://new"));
}
