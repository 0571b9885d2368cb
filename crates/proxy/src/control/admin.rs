//! The admin endpoint: health, numbers and what the proxy thinks, over HTTP/1.
//!
//! One request per connection, all of it within [`CONNECTION_MAX`], and at most [`CONNECTIONS_MAX`]
//! connections: whoever can reach the endpoint cannot make it grow or keep it busy.

use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};

use super::pages;
use super::shared::Shared;

/// Most connections at once; more wait to be accepted.
const CONNECTIONS_MAX: usize = 64;

/// From accepting a connection to the end of its answer.
const CONNECTION_MAX: Duration = Duration::from_secs(10);

/// From accepting a connection to the end of the request's header.
const HEADER_MAX: Duration = Duration::from_secs(5);

/// Largest request header, in bytes; hyper takes no less.
const HEADER_MAX_BYTES: usize = 8_192;

/// How long to wait after a connection could not be accepted, which is when files run out.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Accepts connections and answers them, for ever.
pub(crate) async fn serve(listener: TcpListener, shared: Rc<Shared>) -> Infallible {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let place = places.clone().acquire_owned().await.expect("nobody closes the semaphore");
        match listener.accept().await {
            Ok((stream, _)) => {
                let answering = answer_connection(stream, shared.clone());
                spawn_local(async move {
                    // The peer of a connection that takes too long learns it by the connection's end.
                    let _ = timeout(CONNECTION_MAX, answering).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "admin: a connection could not be accepted");
                sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

async fn answer_connection(stream: TcpStream, shared: Rc<Shared>) {
    let service = service_fn(move |request| {
        let shared = shared.clone();
        async move { Ok::<_, Infallible>(pages::answer(request, &shared).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(false)
        .header_read_timeout(HEADER_MAX)
        .max_buf_size(HEADER_MAX_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "admin: a connection failed");
    }
}

#[cfg(test)]
#[path = "admin_tests.rs"]
mod tests;
