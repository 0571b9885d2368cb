use std::convert::Infallible;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use http_body_util::{Full, StreamBody};
use hyper::StatusCode;
use hyper::body::Frame;
use tokio::time::sleep;
use tower::service_fn;

use super::*;

/// Answers as an API server that sends a bookmark every minute to each watch, and fails every request for Secrets.
async fn answer(request: Request<()>) -> Result<Response<UnsyncBoxBody<Bytes, Infallible>>, Infallible> {
    let mut response = Response::new(Full::from("").boxed_unsync());
    if request.uri().path().ends_with("/secrets") {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    } else {
        let bookmarks = stream::unfold((), |()| async {
            sleep(Duration::from_secs(60)).await;
            Some((Ok(Frame::data(Bytes::from("{}\n"))), ()))
        });
        *response.body_mut() = StreamBody::new(bookmarks.boxed()).boxed_unsync();
    }
    Ok(response)
}

/// The silences of all watches, in seconds.
fn silences(hearing: &Hearing) -> Vec<String> {
    let mut text = String::new();
    hearing.write_metrics(&mut text);
    let lines = text.lines().filter_map(|line| line.strip_prefix("leno_control_watch_silence_seconds{resource="));
    lines.map(str::to_owned).collect()
}

async fn ask(hearing: &Hearing, method: Method, path: &str) -> Response<UnsyncBoxBody<Bytes, Infallible>> {
    let request = Request::builder().method(method).uri(path).body(()).expect("a request");
    hearing.listening(service_fn(answer)).call(request).await.expect("a response")
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_silent_since_the_last_byte_of_a_response() {
    let hearing = Hearing::default();
    let pods = hearing.watch("pods");
    let secrets = hearing.watch("secrets");
    assert_eq!(silences(&hearing), [r#""pods"} 0"#, r#""secrets"} 0"#]);
    sleep(Duration::from_secs(100)).await;
    assert_eq!(silences(&hearing), [r#""pods"} 100"#, r#""secrets"} 100"#]);

    let mut watch = ask(&hearing, Method::GET, "/api/v1/pods?watch=true").await.into_body();
    ask(&hearing, Method::GET, "/api/v1/namespaces/leno/secrets?watch=true").await;
    assert_eq!(silences(&hearing), [r#""pods"} 0"#, r#""secrets"} 100"#], "a failure is no sign of the watch");
    watch.frame().await.expect("a bookmark").expect("no error");
    sleep(Duration::from_secs(7)).await;
    assert_eq!(silences(&hearing), [r#""pods"} 7"#, r#""secrets"} 167"#]);

    ask(&hearing, Method::PATCH, "/api/v1/pods").await;
    ask(&hearing, Method::GET, "/api/v1/namespaces/shop/services?limit=500").await;
    ask(&hearing, Method::GET, "/api/v1/namespaces/shop/services/pods?").await;
    assert_eq!(
        silences(&hearing),
        [r#""pods"} 7"#, r#""secrets"} 167"#],
        "only lists and watches of watched resources count, not an object whose name is pods"
    );
    drop(secrets);
    assert_eq!(silences(&hearing), [r#""pods"} 7"#]);
    drop(pods);
    watch.frame().await.expect("a bookmark").expect("no error");
    assert_eq!(silences(&hearing), [""; 0], "a kind that is no longer installed has no watch");
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_the_api_server_does_not_serve_is_not_silent() {
    let hearing = Hearing::default();
    let watched = hearing.watch("tcproutes");
    sleep(Duration::from_secs(7)).await;
    assert_eq!(silences(&hearing), [r#""tcproutes"} 7"#]);
    watched.is_absent();
    assert!(silences(&hearing).is_empty());
    watched.is_served();
    sleep(Duration::from_secs(3)).await;
    watched.is_served();
    assert_eq!(silences(&hearing), [r#""tcproutes"} 3"#]);
}
