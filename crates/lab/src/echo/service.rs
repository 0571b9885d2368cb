//! The methods of the echo server.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::{Stream, StreamExt, stream};
use tonic::{Code, Request, Response, Status, Streaming};

use super::MAX_PAYLOAD_BYTES;
use super::proto::echo_server::Echo;
use super::proto::{
    CountRequest, CountResponse, EchoRequest, EchoResponse, ExitRequest, ExitResponse, SetDelayRequest,
    SetDelayResponse, SetFailureRequest, SetFailureResponse,
};
use super::upstream::Upstreams;
use super::work::{MAX_DELAY_MS, Work};

const MAX_MESSAGES: u32 = 1_000_000;
/// The exit code of a server that was asked to exit.
const EXIT_CODE: i32 = 1;

type Responses = Pin<Box<dyn Stream<Item = Result<EchoResponse, Status>> + Send>>;

/// The implementation of the echo service in one server.
pub(super) struct EchoService {
    server: Arc<Server>,
}

struct Server {
    name: String,
    work: Arc<Work>,
    upstreams: Upstreams,
}

impl EchoService {
    /// A server that puts `name` into its answers. Before it answers a unary call, it calls `upstreams`.
    pub(super) fn new(name: String, work: Arc<Work>, upstreams: Upstreams) -> Self {
        Self { server: Arc::new(Server { name, work, upstreams }) }
    }
}

impl Server {
    /// Returns the response to one request message, after the delay.
    async fn respond(&self, request: &EchoRequest, number: u32) -> EchoResponse {
        self.work.take(request.delay_ms).await;
        let payload = match request.response_bytes {
            0 => request.payload.clone(),
            size => vec![0; size as usize],
        };
        EchoResponse { server: self.name.clone(), payload, number }
    }

    fn finish(&self, request: &EchoRequest) -> Result<(), Status> {
        match request.fail_with {
            0 => Ok(()),
            code => {
                let message = format!("{} was asked to fail", self.name);
                Err(Status::new(Code::from_i32(code.cast_signed()), message))
            }
        }
    }
}

#[tonic::async_trait]
impl Echo for EchoService {
    async fn unary(&self, request: Request<EchoRequest>) -> Result<Response<EchoResponse>, Status> {
        self.server.work.begin()?;
        let (fields, _, request) = request.into_parts();
        let request = checked(request)?;
        self.server.upstreams.call_all(&fields, &request.payload).await?;
        let response = self.server.respond(&request, 0).await;
        self.server.finish(&request)?;
        Ok(Response::new(response))
    }

    type ServerStreamStream = Responses;

    async fn server_stream(&self, request: Request<EchoRequest>) -> Result<Response<Responses>, Status> {
        self.server.work.begin()?;
        let request = checked(request.into_inner())?;
        let server = Arc::clone(&self.server);
        let responses = stream::unfold((server, request, 0), |(server, request, number)| async move {
            let messages = request.messages.max(1);
            let item = match number {
                number if number < messages => {
                    // Send each message separately, like a server that waits for data.
                    tokio::task::yield_now().await;
                    Ok(server.respond(&request, number).await)
                }
                number if number == messages => Err(server.finish(&request).err()?),
                _ => return None,
            };
            Some((item, (server, request, number + 1)))
        });
        Ok(Response::new(Box::pin(responses)))
    }

    async fn client_stream(&self, request: Request<Streaming<EchoRequest>>) -> Result<Response<EchoResponse>, Status> {
        self.server.work.begin()?;
        let mut requests = request.into_inner();
        let mut joined = EchoRequest::default();
        while let Some(request) = requests.message().await? {
            let request = checked(request)?;
            if joined.payload.len() + request.payload.len() > MAX_PAYLOAD_BYTES as usize {
                let what = format!("the payloads together are over {MAX_PAYLOAD_BYTES} bytes");
                return Err(Status::invalid_argument(what));
            }
            joined.payload.extend_from_slice(&request.payload);
            joined = EchoRequest { payload: joined.payload, ..request };
        }
        let response = self.server.respond(&joined, 0).await;
        self.server.finish(&joined)?;
        Ok(Response::new(response))
    }

    type BidiStream = Responses;

    async fn bidi(&self, request: Request<Streaming<EchoRequest>>) -> Result<Response<Responses>, Status> {
        self.server.work.begin()?;
        let server = Arc::clone(&self.server);
        let requests = request.into_inner().enumerate();
        let responses = requests.then(move |(number, request)| {
            let server = Arc::clone(&server);
            async move {
                let request = checked(request?)?;
                server.finish(&request)?;
                let number = u32::try_from(number).unwrap_or(u32::MAX);
                Ok(server.respond(&request, number).await)
            }
        });
        Ok(Response::new(Box::pin(responses)))
    }

    async fn set_delay(&self, request: Request<SetDelayRequest>) -> Result<Response<SetDelayResponse>, Status> {
        let SetDelayRequest { delay_ms, spread_ms, slow_percent, slow_ms } = request.into_inner();
        at_most("delay_ms", delay_ms, MAX_DELAY_MS)?;
        at_most("spread_ms", spread_ms, MAX_DELAY_MS)?;
        at_most("slow_percent", slow_percent, 100)?;
        at_most("slow_ms", slow_ms, MAX_DELAY_MS)?;
        self.server.work.set(delay_ms, spread_ms);
        self.server.work.set_slow(slow_percent, slow_ms);
        let server = self.server.name.clone();
        Ok(Response::new(SetDelayResponse { server }))
    }

    async fn set_failure(&self, request: Request<SetFailureRequest>) -> Result<Response<SetFailureResponse>, Status> {
        let SetFailureRequest { code, percent } = request.into_inner();
        at_most("code", code, Code::Unauthenticated as u32)?;
        at_most("percent", percent, 100)?;
        self.server.work.set_failure(code, if percent == 0 { 100 } else { percent });
        let server = self.server.name.clone();
        Ok(Response::new(SetFailureResponse { server }))
    }

    async fn count(&self, _: Request<CountRequest>) -> Result<Response<CountResponse>, Status> {
        let Server { work, .. } = &*self.server;
        Ok(Response::new(CountResponse { calls: work.calls(), messages: work.messages() }))
    }

    async fn exit(&self, _: Request<ExitRequest>) -> Result<Response<ExitResponse>, Status> {
        eprintln!("{} was asked to exit", self.server.name);
        std::process::exit(EXIT_CODE)
    }
}

fn checked(request: EchoRequest) -> Result<EchoRequest, Status> {
    at_most("response_bytes", request.response_bytes, MAX_PAYLOAD_BYTES)?;
    at_most("delay_ms", request.delay_ms, MAX_DELAY_MS)?;
    at_most("fail_with", request.fail_with, Code::Unauthenticated as u32)?;
    at_most("messages", request.messages, MAX_MESSAGES)?;
    Ok(request)
}

fn at_most(field: &str, value: u32, max: u32) -> Result<(), Status> {
    if value <= max {
        return Ok(());
    }
    let what = format!("{field} is {value}; use 0 to {max}");
    Err(Status::invalid_argument(what))
}
