//! Reads descriptors from a server's reflection service.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::stream;
use http::uri::PathAndQuery;
use leno_identity::innermost;
use prost::Message;
use prost_reflect::DescriptorPool;
use prost_reflect::prost_types::FileDescriptorProto;
use tokio::time::timeout;
use tonic::client::Grpc;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{ErrorResponse, ServerReflectionRequest, ServerReflectionResponse};

use super::{MethodName, list, one_line};
use crate::error::Result;

/// The paths of both versions of gRPC reflection, the newer version first. Both versions have the same messages on the
/// wire.
const VERSIONS: [&str; 2] = [
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];
const ANSWER_MAX_BYTES: usize = 16 << 20;
/// Maximum number of files that describe one service (here), and their maximum total size in bytes (below).
const FILES_MAX: usize = 1_000;
const FILES_MAX_BYTES: usize = 32 << 20;
/// Time limit from the first question to the server's last answer.
const ANSWERS_MAX: Duration = Duration::from_secs(30);

/// Asks the server of `channel` for the file that describes a method's service, and for all files that this file
/// imports.
///
/// # Errors
/// One line that names the method, if the server has no reflection or no such service, or does not answer.
pub(crate) async fn ask_server(channel: Channel, name: &MethodName) -> Result<DescriptorPool> {
    match timeout(ANSWERS_MAX, ask(channel, name.service())).await {
        Ok(answered) => answered.map_err(|why| name.error(why)),
        Err(_) => Err(name.error(format!("the server's reflection did not end within {} s", ANSWERS_MAX.as_secs()))),
    }
}

async fn ask(channel: Channel, service: &str) -> std::result::Result<DescriptorPool, String> {
    let (mut reflection, services) = Reflection::find(channel).await?;
    if !services.iter().any(|name| name == service) {
        let others = services.into_iter().filter(|name| !name.starts_with("grpc.reflection."));
        return Err(format!("the server has no such service; its services are: {}", list(others)));
    }
    let files = reflection.files_of(service).await?;
    let mut descriptors = DescriptorPool::new();
    let added = descriptors.add_file_descriptor_protos(files);
    added.map_err(|error| format!("the server's reflection is inconsistent: {}", one_line(error)))?;
    Ok(descriptors)
}

/// The reflection of a server, in a version that the server supports.
struct Reflection {
    grpc: Grpc<Channel>,
    path: PathAndQuery,
}

impl Reflection {
    /// Finds a version of reflection that the server supports, and the names of the server's services.
    async fn find(channel: Channel) -> std::result::Result<(Self, Vec<String>), String> {
        let grpc = Grpc::new(channel).max_decoding_message_size(ANSWER_MAX_BYTES);
        for path in VERSIONS {
            let mut reflection = Self { grpc: grpc.clone(), path: PathAndQuery::from_static(path) };
            match reflection.ask(MessageRequest::ListServices(String::new())).await {
                Ok(MessageResponse::ListServicesResponse(services)) => {
                    let names = services.service.into_iter().map(|service| service.name).collect();
                    return Ok((reflection, names));
                }
                Err(status) if status.code() == Code::Unimplemented => {}
                Err(status) => return Err(failed(&status)),
                Ok(_) => return Err("the server's reflection lists no services".to_owned()),
            }
        }
        Err("the server has no reflection; name a file that protoc --descriptor_set_out=FILE --include_imports \
             made, with --descriptor-set FILE"
            .to_owned())
    }

    /// Returns the file that describes a service, and all files that it imports, directly or indirectly.
    async fn files_of(&mut self, service: &str) -> std::result::Result<Vec<FileDescriptorProto>, String> {
        let mut files: BTreeMap<String, FileDescriptorProto> = BTreeMap::new();
        let mut asked = BTreeSet::new();
        let mut bytes = 0;
        let mut next = Some(MessageRequest::FileContainingSymbol(service.to_owned()));
        while let Some(request) = next {
            let MessageResponse::FileDescriptorResponse(answer) =
                self.ask(request).await.map_err(|status| failed(&status))?
            else {
                return Err("the server's reflection answered without a file".to_owned());
            };
            for encoded in answer.file_descriptor_proto {
                bytes += encoded.len();
                let file = FileDescriptorProto::decode(&encoded[..]);
                let file = file.map_err(|error| format!("the server's reflection sent no descriptor: {error}"))?;
                files.insert(file.name().to_owned(), file);
            }
            if files.len() > FILES_MAX || bytes > FILES_MAX_BYTES {
                let most = FILES_MAX_BYTES >> 20;
                return Err(format!("the server's reflection has over {FILES_MAX} files or {most} MiB"));
            }
            let imports = files.values().flat_map(|file| &file.dependency);
            let missing = imports.into_iter().find(|import| !files.contains_key(*import)).cloned();
            if let Some(import) = missing.as_ref().filter(|import| !asked.insert(String::clone(import))) {
                return Err(format!("the server's reflection has no file {}", one_line(import)));
            }
            next = missing.map(MessageRequest::FileByFilename);
        }
        Ok(files.into_values().collect())
    }

    /// Asks one question in a call of its own, so that the call's stream ends after the answer.
    async fn ask(&mut self, question: MessageRequest) -> std::result::Result<MessageResponse, Status> {
        self.grpc.ready().await.map_err(|error| Status::unavailable(innermost(&error)))?;
        let request = ServerReflectionRequest { host: String::new(), message_request: Some(question) };
        let codec: ProstCodec<ServerReflectionRequest, ServerReflectionResponse> = ProstCodec::default();
        let requests = stream::once(std::future::ready(request));
        let answers = self.grpc.streaming(Request::new(requests), self.path.clone(), codec).await?;
        match answers.into_inner().message().await?.and_then(|answer| answer.message_response) {
            Some(MessageResponse::ErrorResponse(ErrorResponse { error_code, error_message })) => {
                Err(Status::new(Code::from_i32(error_code), error_message))
            }
            Some(answer) => Ok(answer),
            None => Err(Status::internal("the answer is empty")),
        }
    }
}

fn failed(status: &Status) -> String {
    let why = if std::error::Error::source(status).is_some() { innermost(status) } else { status.message().to_owned() };
    format!(
        "asking the server's reflection failed ({:?}: {}); the port must serve gRPC without TLS, or use --descriptor-set \
         FILE",
        status.code(),
        one_line(why)
    )
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
