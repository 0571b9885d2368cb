//! Serves the page over HTTP/1 on loopback.

use std::convert::Infallible;
use std::rc::Rc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use leno_accept::{Arrival, Listener, RoomSize};
use tokio::net::TcpListener;
use tokio::task::spawn_local;

use super::guard::{Guard, seal};
use super::pages;
use super::state::State;

/// Maximum number of open connections. A browser opens at most six connections for each window.
const CONNECTIONS_MAX: usize = 64;
/// Maximum time to receive the head of a request, and maximum time for which a connection may be idle.
const HEADER_MAX: Duration = Duration::from_secs(30);
/// Maximum size of the head of a request, in bytes; hyper allows no smaller limit.
const HEADER_MAX_BYTES: usize = 8_192;

/// Answers requests, and never returns. Must run within a `LocalSet`.
pub(super) async fn serve(listener: TcpListener, guard: Rc<Guard>, state: Rc<State>) -> Infallible {
    let mut listener = Listener::new("dashboard", listener, RoomSize::of_strangers(CONNECTIONS_MAX));
    loop {
        let Arrival { stream, mut place, .. } = listener.accept().await;
        let (guard, state) = (guard.clone(), state.clone());
        spawn_local(async move {
            let service = service_fn(|request| {
                let (guard, state) = (guard.clone(), state.clone());
                async move {
                    let mut answer = match guard.check(&request) {
                        Ok(()) => pages::answer(&request, &state).await,
                        Err(refusal) => *refusal,
                    };
                    seal(&mut answer);
                    Ok::<_, Infallible>(answer)
                }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_MAX)
                .max_buf_size(HEADER_MAX_BYTES)
                .serve_connection(TokioIo::new(stream), service);
            // Ignore the result. The browser may close the connection at any time, and if a new connection replaces
            // this one, the browser notices that it is closed.
            let _ = place.hold(connection).await;
        });
    }
}
