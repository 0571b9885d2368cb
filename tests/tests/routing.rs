//! The `:authority` of a call selects the Service.

use leno_tests::backend::Backend;
use leno_tests::client::{Call, Client};
use leno_tests::manifests::Service;
use leno_tests::proxy::{Proxy, free_address};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_way_to_name_a_service_reaches_it() {
    let backend = Backend::start().await;
    let outbound = free_address();
    let proxy = Proxy::start_with(
        outbound,
        &[Service::echo(&[backend.address()]), Service::new("by-address", &[backend.address()]).at(outbound)],
        &[],
    );
    let names = [
        "echo:50051",
        "echo.default:50051",
        "echo.default.svc:50051",
        "echo.default.svc.cluster.local:50051",
        "echo.default.svc.cluster.local.:50051",
        "ECHO.Default:50051",
        &outbound.to_string(),
    ];
    for (number, name) in names.iter().enumerate() {
        let client = Client::connect(proxy.outbound(), name).await;
        let answer = client.call(&Call::new("Echo"), b"hello").await;
        assert_eq!(answer.grpc_status(), Some(0), "{name}: {answer:?}");
        assert_eq!(backend.calls(), number as u64 + 1, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_connection_reaches_many_services() {
    let (one, other) = (Backend::start().await, Backend::start().await);
    let proxy = Proxy::start(&[Service::new("one", &[one.address()]), Service::new("other", &[other.address()])]);
    let client = Client::connect(proxy.outbound(), "one:50051").await;
    client.call(&Call::new("Echo"), b"").await;
    assert_eq!((one.calls(), other.calls()), (1, 0));

    client.call(&Call::new("Echo").to("other:50051"), b"").await;
    assert_eq!((one.calls(), other.calls()), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fields_pass_unchanged_and_in_order() {
    let backend = Backend::start().await;
    let proxy = Proxy::start(&[Service::echo(&[backend.address()])]);
    let client = Client::connect(proxy.outbound(), "echo:50051").await;
    let call =
        Call::new("Echo").with("x-twice", "one").with("x-twice", "two").with("x-bin", "AAEC").with("x-empty", "");
    client.call(&call, b"").await;

    let seen = backend.seen();
    assert_eq!(seen.last_header("x-twice").as_deref(), Some("one,two"));
    assert_eq!(seen.last_header("x-bin").as_deref(), Some("AAEC"));
    assert_eq!(seen.last_header("x-empty").as_deref(), Some(""));
    assert_eq!(seen.last_header("te").as_deref(), Some("trailers"));
}
