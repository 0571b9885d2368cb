//! One client's stream: its requests go into its session, and the session's responses go out.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use envoy_types::pb::envoy::config::core::v3::Node;
use hyper::body::Bytes;
use leno_model::traffic::XdsClient;
use leno_xds::Kind;
use prost::Message;
use tokio::sync::mpsc;
use tokio::time::{sleep, sleep_until};
use tonic::{Code, Status, Streaming};

use super::accounts::{Account, Displaced, Displacement};
use super::audience::audience;
use super::clients::{Introduction, lock};
use super::ignored::program;
use super::ledger::Resource;
use super::limits::{DISPLACED_MAX, READ_BYTES_PER_NAME, READ_BYTES_PER_REQUEST, REFUSED_STREAM_MAX};
use super::metered::Meter;
use super::pace::Purse;
use super::refused::RefusedNames;
use super::service::framed;
use super::session::{Answer, Context, Session, shortened};
use super::state::State;
use super::subscribers::{ClientId, Mailbox};
use super::unread::UnreadResponses;
use super::variant::Exchange;
use crate::accept::Peer;

/// Channel for responses; the last item is the status that ends the stream.
type Responses = mpsc::Sender<Response>;

/// A framed message, or the status that ends the stream. Boxed, to save memory: tokio's channel allocates room for 32
/// items at the start.
pub(super) type Response = Box<Result<Bytes, Status>>;

/// Shortest pause of a stream whose client requested too much, so that the stream does not wake for every few bytes.
const PAUSE_MIN: Duration = Duration::from_millis(10);

/// Time for a client to send its first requests of all kinds, after the first request of its stream. Clients send these
/// requests without a pause.
const BEGINNING: Duration = Duration::from_secs(1);

/// A client's stream, registered with the shared state.
struct Stream {
    state: Arc<State>,
    id: ClientId,
    introduction: Introduction,
    session: Arc<Mutex<Session>>,
    mailbox: Arc<Mailbox>,
    unread: Arc<UnreadResponses>,
}

pub(super) struct Requests<R> {
    pub(super) requests: Streaming<R>,
    /// Counts the bytes of the incomplete request.
    pub(super) meter: Arc<Meter>,
}

impl<R> Requests<R> {
    async fn next(&mut self) -> Result<Option<R>, Status> {
        let request = self.requests.message().await?;
        self.meter.taken();
        Ok(request)
    }
}

/// Serves a stream until it ends. If an error ends the stream, the client gets the error's status.
pub(crate) async fn serve<E: Exchange>(
    state: Arc<State>,
    mut account: Account,
    peer: Peer,
    mut requests: Requests<E::Request>,
    responses: Responses,
) {
    let mut displacement = account.displacement();
    let (presence, address) = (peer.presence.clone(), peer.address);
    let unread = Arc::new(UnreadResponses::default());
    let mut closing = None;
    let ended = tokio::select! {
        biased;
        why = displaced(&state, &mut displacement, address) => {
            closing = Some(Closing::of_displaced(&why));
            Err(exhausted(why))
        }
        most = unread.wait_until_late() => {
            closing = Some(Closing { after: DISPLACED_MAX, why: NOT_READ });
            Err(not_read(address, most))
        }
        ended = talk::<E>(&state, account, peer, &mut requests, &responses, &unread) => ended,
        () = responses.closed() => Ok(()),
    };
    let status = match ended {
        Ok(()) => Status::ok(""),
        // tonic's status for a request that is too long.
        Err(status) if status.code() == Code::OutOfRange => Status::resource_exhausted(status.message()),
        Err(status) => status,
    };
    if status.code() == Code::ResourceExhausted {
        state.metrics.refused_stream();
    }
    // The decoder's buffer is counted until it is dropped, and the client may take long to read the end of the stream.
    drop(requests);
    let read_to_the_end = async {
        // Ignore an error: the client may have disconnected.
        let _ = responses.send(Box::new(Err(status))).await;
        responses.closed().await;
    };
    // Responses that the client has not read yet still count. So the stream can be displaced even now, and a client that
    // sends no further requests must read its responses, too.
    let is_late = async {
        let Closing { after, why } = match closing {
            Some(closing) => closing,
            None => tokio::select! {
                why = displaced(&state, &mut displacement, address) => Closing::of_displaced(&why),
                _ = unread.wait_until_late() => Closing { after: Duration::ZERO, why: NOT_READ },
            },
        };
        sleep(after).await;
        why
    };
    tokio::select! {
        biased;
        () = read_to_the_end => {}
        why = is_late => presence.close(why.to_owned()),
    }
}

/// The end of a connection on which a stream was ended: the time for the client to read the end of the stream, and the
/// reason for the log.
struct Closing {
    after: Duration,
    why: &'static str,
}

/// The reason to close a connection whose client does not read.
const NOT_READ: &str = "a client did not read its responses";

impl Closing {
    fn of_displaced(why: &Displaced) -> Self {
        match why.resource {
            // A request takes the place of bytes of this stream, but they stay in memory until the connection is closed.
            Resource::Bytes | Resource::Unread => {
                Self { after: Duration::ZERO, why: "closed at once, to free the bytes of a displaced stream" }
            }
            Resource::Streams | Resource::Names => {
                Self { after: DISPLACED_MAX, why: "a displaced stream was not read to its end" }
            }
        }
    }
}

/// Logs that a client has not read a response for the time `most`, and returns the status that ends its stream.
fn not_read(address: SocketAddr, most: Duration) -> Status {
    let why = format!(
        "the stream was closed because the client has not read a response for {} s; read all responses, and connect again",
        most.as_secs()
    );
    tracing::warn!(%address, "xds: {why}");
    Status::unavailable(why)
}

/// Waits until the stream is displaced; logs and returns the reason. `count` in the log is the number of streams that were
/// displaced since the last such warning.
async fn displaced(state: &State, displacement: &mut Displacement, address: SocketAddr) -> Displaced {
    let why = displacement.wait().await;
    match state.displaced_to_warn_of(Instant::now()) {
        Some(count) => tracing::warn!(%address, count, "xds: {why}"),
        None => tracing::debug!(%address, "xds: {why}"),
    }
    why
}

async fn talk<E: Exchange>(
    state: &Arc<State>,
    account: Account,
    peer: Peer,
    requests: &mut Requests<E::Request>,
    responses: &Responses,
    unread: &Arc<UnreadResponses>,
) -> Result<(), Status> {
    // Read requests and send responses no faster than the client's rate limits allow. The client's other streams share
    // these limits.
    let wait = account.paces().read.wait(Instant::now());
    pause(wait.map(|wait| Instant::now() + wait)).await;
    // A request in parsed form may take 12 times its bytes, so drop each request as soon as it is processed.
    let (stream, taken) = {
        let Some(first) = requests.next().await? else {
            return Ok(());
        };
        let node = E::node(&first).ok_or_else(|| Status::invalid_argument("the first request must name the node"))?;
        let stream = Stream::join::<E>(state.clone(), account, &peer, node, unread.clone());
        let taken = stream.take::<E>(&first)?;
        drop(first);
        (stream, taken)
    };
    // The end of the time for the client's first requests; `None` once this time is over.
    let mut begun_at = Some(Instant::now() + BEGINNING);
    // The time at which to end the stream; `None` until a name is refused.
    let mut ends_at = None;
    let mut was_refused = taken.has_refused;
    let mut read_at = taken.answer_to(responses, &mut ends_at).await?;
    let mut rate = Purse::of_requests(Instant::now());
    loop {
        let send_at = stream.send_what_is_due::<E>(responses).await?;
        tokio::select! {
            // In this order, the time for the first requests does not end while a request is ready. The rate limit and
            // the yield below keep a busy client from starving the other branches.
            biased;
            request = requests.next(), if read_at.is_none() => match request? {
                Some(request) => {
                    let taken = stream.take::<E>(&request)?;
                    drop(request);
                    was_refused = taken.has_refused;
                    let costly = taken.answer_to(responses, &mut ends_at).await?;
                    // Yield: a stream that always finds the next request already received would never let another
                    // stream run.
                    tokio::task::yield_now().await;
                    let now = Instant::now();
                    rate.spend(1, now);
                    read_at = costly.max(rate.wait(now).map(|wait| now + wait));
                }
                None => return Ok(()),
            },
            names = stream.mailbox.take() => lock(&stream.session).look_again(names),
            () = pause(read_at), if read_at.is_some() => {
                let unread = lock(&stream.session).unread_pause().filter(|_| was_refused);
                read_at = unread.map(|pause| Instant::now() + pause);
            }
            () = pause(ends_at), if ends_at.is_some() => {
                let why = "names above a limit were refused; connect again, perhaps to a replica with room for them";
                return Err(Status::unavailable(why));
            }
            () = pause(send_at), if send_at.is_some() => {}
            () = after_what_is_ready(begun_at), if begun_at.is_some() && read_at.is_none() => {
                begun_at = None;
                lock(&stream.session).has_begun();
            }
        }
    }
}

/// The result of a request.
struct Taken {
    /// The time from which the next request may be read; `None` for at once.
    read_at: Option<Instant>,
    /// Whether the client may not subscribe to some names of the request.
    has_refused: bool,
    /// The framed answer about the refused names; `None` if there are none, or the variant has no such answer.
    refusal: Option<Bytes>,
}

impl Taken {
    /// Sends the answer about refused names, if there is one, and returns `read_at`. Waits until the channel has room
    /// for the answer: no further request is read before, so answers cannot pile up. The first refused names set
    /// `ends_at`, the time at which the stream ends.
    async fn answer_to(self, responses: &Responses, ends_at: &mut Option<Instant>) -> Result<Option<Instant>, Status> {
        if self.has_refused {
            let share = 0.5 + fastrand::f64() / 2.0;
            ends_at.get_or_insert_with(|| Instant::now() + REFUSED_STREAM_MAX.mul_f64(share));
        }
        if let Some(refusal) = self.refusal {
            responses.send(Box::new(Ok(refusal))).await.map_err(gone)?;
        }
        Ok(self.read_at)
    }
}

fn gone<T>(_: T) -> Status {
    Status::cancelled("the client is gone")
}

/// Waits until `until`; returns at once if it is `None`.
async fn pause(until: Option<Instant>) {
    if let Some(until) = until {
        sleep_until(until.into()).await;
    }
}

/// Like [`pause`], but yields once more, so that the task that reads the connection can deliver a request. Otherwise,
/// after a delay of the whole process, the time for requests could seem over although the requests have arrived.
async fn after_what_is_ready(until: Option<Instant>) {
    pause(until).await;
    tokio::task::yield_now().await;
}

impl Stream {
    fn join<E: Exchange>(
        state: Arc<State>,
        account: Account,
        peer: &Peer,
        node: &Node,
        unread: Arc<UnreadResponses>,
    ) -> Self {
        let id = state.next_client();
        let introduction = Introduction {
            node: shortened(&node.id),
            user_agent: shortened(&node.user_agent_name),
            address: peer.address,
            identity: peer.identity.as_ref().map(ToString::to_string),
        };
        let audience = audience(peer, node, state.cluster_domain.clone());
        let mut session = Session::new(id, E::VARIANT, audience, account);
        session.warms_clusters = program(&node.user_agent_name) == Some(XdsClient::Envoy);
        let session = Arc::new(Mutex::new(session));
        state.clients.join(id, introduction.clone(), session.clone());
        let Introduction { node, user_agent, address, .. } = &introduction;
        tracing::info!(node, user_agent, %address, "xds: a client connected");
        let mailbox = state.subscribers.join(id);
        Self { state, id, introduction, session, mailbox, unread }
    }

    /// Processes a request.
    fn take<E: Exchange>(&self, request: &E::Request) -> Result<Taken, Status> {
        let catalog = || self.state.catalog();
        let context = Context { catalog: &catalog, subscribers: &self.state.subscribers };
        let answer = E::take(&mut lock(&self.session), request, context);
        // Count a rejected request too: it caused work, and its client may open another stream.
        let now = Instant::now();
        let cost = request.encoded_len() + READ_BYTES_PER_REQUEST + E::names(request) * READ_BYTES_PER_NAME;
        let wait = lock(&self.session).has_read(cost, now);
        match answer.map_err(exhausted)? {
            Some((kind, Answer::Ack)) => self.state.metrics.acked(kind),
            Some((kind, Answer::Nack { names, why })) => self.refused(kind, &names, &why),
            Some((_, Answer::None)) | None => {}
        }
        let refused = lock(&self.session).take_refused();
        let has_refused = refused.is_some();
        let refusal = match refused {
            Some((refused, nonce)) => {
                self.warn_of_refused(&refused, now);
                E::refuse(&refused, nonce).as_ref().map(framed).transpose()?
            }
            None => None,
        };
        let session = lock(&self.session);
        let refusal = refusal.map(|refusal| {
            let held = session.hold(refusal.len());
            self.unread.add(refusal, held)
        });
        // A client may leave its answers about refused names unread. Then delay its next request, which could cause
        // another such answer.
        let wait = wait.max(session.unread_pause().filter(|_| has_refused));
        Ok(Taken { read_at: wait.map(|wait| now + wait), has_refused, refusal })
    }

    fn warn_of_refused(&self, refused: &RefusedNames, now: Instant) {
        self.state.metrics.refused_names(refused.kind, refused.count);
        if self.state.may_warn_of_refused_names(now) {
            let (node, kind, count, why) = (&self.introduction.node, refused.kind.name(), refused.count, &refused.why);
            tracing::warn!(node, kind, count, "xds: a client gets no updates of names above a limit: {why}");
        }
    }

    fn refused(&self, kind: Kind, names: &[Arc<str>], why: &str) {
        const SHOWN_MAX: usize = 4;
        self.state.metrics.nacked(kind);
        let shown: Vec<_> = names.iter().take(SHOWN_MAX).collect();
        let (node, count) = (&self.introduction.node, names.len());
        tracing::warn!(node, kind = kind.name(), count, names = ?shown, why, "xds: a client refused resources");
    }

    /// Sends the responses that are due. Returns when to try again if a rate limit, unread responses or the pause of
    /// the whole mesh's routes stop the sending.
    async fn send_what_is_due<E: Exchange>(&self, responses: &Responses) -> Result<Option<Instant>, Status> {
        loop {
            let catalog = self.state.catalog();
            let (next, is_due, routes_at) = {
                let mut session = lock(&self.session);
                let now = Instant::now();
                let routes_at = session.pace_routes(&catalog, now);
                if let Some(wait) = session.must_pause(now) {
                    return Ok(Some(now + wait.max(PAUSE_MIN)));
                }
                let next = session.next(&catalog);
                session.has_sent(now);
                (next, session.is_due(), routes_at)
            };
            let Some(batch) = next else {
                if is_due {
                    // The client already has all resources that were checked so far. Let other streams run before
                    // checking the rest.
                    tokio::task::yield_now().await;
                    continue;
                }
                return Ok(routes_at);
            };
            self.state.metrics.sent(batch.kind, batch.resources.len());
            let message = framed(&E::respond(batch))?;
            let held = lock(&self.session).hold(message.len());
            responses.send(Box::new(Ok(self.unread.add(message, held)))).await.map_err(gone)?;
        }
    }
}

fn exhausted(why: impl std::fmt::Display) -> Status {
    Status::resource_exhausted(why.to_string())
}

impl Drop for Stream {
    fn drop(&mut self) {
        let catalog = || self.state.catalog();
        let context = Context { catalog: &catalog, subscribers: &self.state.subscribers };
        lock(&self.session).close(context);
        self.state.clients.leave(self.id);
        tracing::info!(node = self.introduction.node, "xds: a client disconnected");
    }
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
