//! A command in a Pod, run through the API server: its input, its output, and the reason why it ended.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::api::AttachedProcess;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::error::{Error, Result};

/// Maximum number of characters that an error quotes from a command's output, or from an answer of the API server.
const QUOTED_MAX: usize = 200;
/// Maximum length of a line of the standard error, in bytes. A longer line is read as several lines.
const ERROR_LINE_MAX_BYTES: u64 = 4096;
/// Longest wait for the reason why a command ended. The wait begins at the end of the command's output.
const REASON_TIMEOUT: Duration = Duration::from_secs(5);
/// A [`Status`] contains the command's exit code as the message of the cause whose reason is this text.
const EXIT_CODE: &str = "ExitCode";
/// Exit code for arguments that the program does not know.
const USAGE_EXIT_CODE: &str = "2";

type Input = Box<dyn AsyncWrite + Send + Unpin>;
type Output = Box<dyn AsyncRead + Send + Unpin>;

/// A running command. Dropping it closes the command's input.
pub(super) struct Exec {
    /// The command and its Pod, as errors name them.
    name: String,
    input: Input,
    output: BufReader<Output>,
    /// The task that reads the standard error, and returns the line to quote in an error. It reads continuously: one
    /// connection carries all streams, and an unread stream would block the other streams.
    quoted: JoinHandle<String>,
    status: BoxFuture<'static, Option<Status>>,
    /// Dropping this value ends the connection.
    _connection: Option<AttachedProcess>,
}

impl Exec {
    /// Takes the streams of a command that the API server has started.
    ///
    /// # Errors
    /// If the API server attached no standard input, output or error.
    pub(super) fn attach(name: String, mut process: AttachedProcess) -> Result<Self> {
        let (input, output, errors) = (process.stdin(), process.stdout(), process.stderr());
        let (Some(input), Some(output), Some(errors), Some(status)) = (input, output, errors, process.take_status())
        else {
            let why = "the API server attached no standard input, output and error; run it again".to_owned();
            return Err(Error::Cluster { what: name, why });
        };
        let exec = Self::new(name, Box::new(input), Box::new(output), Box::new(errors), status.boxed());
        Ok(Self { _connection: Some(process), ..exec })
    }

    fn new(
        name: String,
        input: Input,
        output: Output,
        errors: Output,
        status: BoxFuture<'static, Option<Status>>,
    ) -> Self {
        let quoted = tokio::spawn(quoted_line(errors));
        Self { name, input, output: BufReader::new(output), quoted, status, _connection: None }
    }

    /// Writes a line to the command's input. A failure means that the command has ended.
    pub(super) async fn write(&mut self, line: &str) -> std::io::Result<()> {
        self.input.write_all(line.as_bytes()).await?;
        self.input.flush().await
    }

    /// Reads at most `max_bytes` of the next line of the command's output. Returns `None` at the end of the output.
    ///
    /// # Errors
    /// If the output cannot be read.
    pub(super) async fn read_line(&mut self, max_bytes: u64) -> Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        let read = (&mut self.output).take(max_bytes).read_until(b'\n', &mut line).await;
        read.map_err(|error| self.error(format!("its output broke off: {error}")))?;
        Ok(Some(line).filter(|line| !line.is_empty()))
    }

    /// The error for a command that has done something unexpected.
    pub(super) fn error(&self, why: String) -> Error {
        Error::Cluster { what: self.name.clone(), why }
    }

    /// The error for a command that has ended too early, with the reason why it ended.
    pub(super) async fn ended(self) -> Error {
        let Self { name, quoted, status, .. } = self;
        let status = timeout(REASON_TIMEOUT, status).await.ok().flatten();
        let quoted = timeout(REASON_TIMEOUT, quoted).await.ok().and_then(std::result::Result::ok).unwrap_or_default();
        Error::Cluster { what: name, why: reason(status.as_ref(), &quoted) }
    }
}

/// Returns `text` in one line, with at most [`QUOTED_MAX`] characters.
pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(QUOTED_MAX).collect()
}

/// Returns the reason why a command ended. Combines the API server's `status` with the line `quoted` from the command's
/// standard error.
fn reason(status: Option<&Status>, quoted: &str) -> String {
    let ended = match (status.and_then(exit_code), status) {
        (Some(USAGE_EXIT_CODE), _) => format!(
            "it ended with exit code {USAGE_EXIT_CODE}; the image has another version of leno than this lab, {}: name \
             the image of this version with --image",
            env!("CARGO_PKG_VERSION")
        ),
        (Some(code), _) => format!("it ended with exit code {code}"),
        (None, Some(status)) if status.status.as_deref() == Some("Success") => "it ended without a result".to_owned(),
        (None, Some(status)) => {
            let why = status.message.as_deref().or(status.reason.as_deref()).unwrap_or("unknown");
            format!("the API server reports: {}", one_line(why))
        }
        (None, None) => "its connection ended, and the API server gave no reason; does the Pod still run?".to_owned(),
    };
    if quoted.is_empty() { ended } else { format!("{ended}; it wrote: {quoted}") }
}

fn exit_code(status: &Status) -> Option<&str> {
    let causes = status.details.as_ref()?.causes.as_ref()?;
    causes.iter().find(|cause| cause.reason.as_deref() == Some(EXIT_CODE))?.message.as_deref()
}

/// Reads a standard error to its end. Returns the first line that begins with `error`, because hints may follow that
/// line. Without such a line, returns the last line that is not empty.
async fn quoted_line(errors: Output) -> String {
    let (mut errors, mut quoted) = (BufReader::new(errors), String::new());
    loop {
        let mut line = Vec::new();
        let read = (&mut errors).take(ERROR_LINE_MAX_BYTES).read_until(b'\n', &mut line).await;
        if !read.is_ok_and(|bytes| bytes > 0) {
            return quoted;
        }
        let line = one_line(&String::from_utf8_lossy(&line));
        if !line.is_empty() && !quoted.starts_with("error") {
            quoted = line;
        }
    }
}

#[cfg(test)]
#[path = "exec_tests.rs"]
pub(super) mod tests;
