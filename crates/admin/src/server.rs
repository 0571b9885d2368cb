//! The admin endpoint: health, numbers and what the program thinks, over HTTP/1.
//!
//! One request per connection, all of it within [`CONNECTION_MAX`], and at most [`CONNECTIONS_MAX`]
//! connections: whoever can reach the endpoint cannot make it grow or keep it busy.

use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};

use crate::answer::Answer;

/// Most connections at once; more wait to be accepted.
pub const CONNECTIONS_MAX: usize = 64;

/// From accepting a connection to the end of its answer.
const CONNECTION_MAX: Duration = Duration::from_secs(10);

/// From accepting a connection to the end of the request's header.
const HEADER_MAX: Duration = Duration::from_secs(5);

/// Largest request header, in bytes; hyper takes no less.
const HEADER_MAX_BYTES: usize = 8_192;

/// How long to wait after a connection could not be accepted, which is when files run out.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Accepts connections and answers them with the program's pages, for ever. Needs a `LocalSet`.
pub async fn serve<P>(listener: TcpListener, pages: P) -> Infallible
where
    P: AsyncFn(Request<Incoming>) -> Answer + 'static,
{
    let pages = Rc::new(pages);
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let place = places.clone().acquire_owned().await.expect("nobody closes the semaphore");
        match listener.accept().await {
            Ok((stream, _)) => {
                let answering = answer_connection(stream, pages.clone());
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

async fn answer_connection<P>(stream: TcpStream, pages: Rc<P>)
where
    P: AsyncFn(Request<Incoming>) -> Answer + 'static,
{
    let service = service_fn(move |request| {
        let pages = pages.clone();
        async move { Ok::<_, Infallible>(pages(request).await) }
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
