use serde_json::json;
use tokio::io::DuplexStream;

use super::*;

/// Returns a fake command in the Pod `load-0`, and the stream that is connected to its input and output. The command
/// ends with `status`, and writes nothing to its standard error.
pub(in super::super) fn talking(status: Option<Status>) -> (Exec, DuplexStream) {
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let (output, input) = tokio::io::split(ours);
    let name = "running /leno lab load in the Pod leno-lab-leno/load-0".to_owned();
    let exec = Exec::new(name, Box::new(input), Box::new(output), Box::new(&b""[..]), async { status }.boxed());
    (exec, theirs)
}

/// A command with this output, this standard error and this final status.
fn exec(output: &'static [u8], errors: &'static [u8], status: Option<Status>) -> Exec {
    let name = "running /leno lab load in the Pod leno-lab-leno/load-0".to_owned();
    Exec::new(name, Box::new(tokio::io::sink()), Box::new(output), Box::new(errors), async { status }.boxed())
}

fn status(value: serde_json::Value) -> Option<Status> {
    serde_json::from_value(value).expect("a status")
}

pub(in super::super) fn exit(code: &str) -> Option<Status> {
    status(json!({
        "status": "Failure", "reason": "NonZeroExitCode", "message": "command terminated with non-zero exit code",
        "details": {"causes": [{"reason": "ExitCode", "message": code}]},
    }))
}

async fn reason_of(errors: &'static [u8], status: Option<Status>) -> String {
    exec(b"", errors, status).ended().await.to_string()
}

#[tokio::test]
async fn a_failed_command_is_named_with_its_pod_its_exit_code_and_its_last_line() {
    let error = reason_of(b"starting\nno memory\n\n", exit("137")).await;
    let wanted =
        "running /leno lab load in the Pod leno-lab-leno/load-0: it ended with exit code 137; it wrote: no memory";
    assert_eq!(error, wanted);
}

#[tokio::test]
async fn the_reason_of_the_api_server_is_quoted_in_one_line() {
    let message = "error executing command in container: exec: \"/leno\":\n stat /leno: no such file or directory";
    let refused = status(json!({"status": "Failure", "reason": "InternalError", "message": message}));
    let error = reason_of(b"", refused).await;
    assert!(error.ends_with("exec: \"/leno\": stat /leno: no such file or directory"), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
}

#[tokio::test]
async fn an_older_image_is_named_as_the_reason_with_the_option_that_changes_it() {
    let hint = b"error: unexpected argument '--x' found\n\nUsage: leno\n\nFor more information, try '--help'.\n";
    let error = reason_of(hint, exit("2")).await;
    assert!(error.contains("another version of leno") && error.contains("--image"), "{error}");
    assert!(error.ends_with("it wrote: error: unexpected argument '--x' found"), "{error}");
}

#[tokio::test]
async fn an_end_without_a_reason_is_said_to_have_none() {
    assert!(reason_of(b"", None).await.contains("its connection ended, and the API server gave no reason"));
    let ended = reason_of(b"", status(json!({"status": "Success"}))).await;
    assert!(ended.ends_with("it ended without a result"), "{ended}");
}

#[tokio::test]
async fn lines_are_read_up_to_their_limit() {
    let mut exec = exec(b"one\ntwo", b"", None);
    assert_eq!(exec.read_line(100).await.expect("a line"), Some(b"one\n".to_vec()));
    assert_eq!(exec.read_line(2).await.expect("a part"), Some(b"tw".to_vec()));
    assert_eq!(exec.read_line(100).await.expect("the rest"), Some(b"o".to_vec()));
    assert_eq!(exec.read_line(100).await.expect("the end"), None);
}

#[tokio::test]
async fn a_long_standard_error_does_not_stop_the_output() {
    let (errors, mut writer) = tokio::io::duplex(16);
    let (output, mut answer) = tokio::io::duplex(16);
    let status = async { None }.boxed();
    let mut exec = Exec::new("x".to_owned(), Box::new(tokio::io::sink()), Box::new(output), Box::new(errors), status);
    // A command has one connection for both streams, so unread bytes of the standard error block the output. Simulate
    // this: write the output only after the whole standard error was read.
    tokio::spawn(async move {
        writer.write_all(&[b'x'; 100_000]).await.expect("the command's reader");
        answer.write_all(b"done\n").await.expect("the command's reader");
    });
    assert_eq!(exec.read_line(100).await.expect("a line"), Some(b"done\n".to_vec()));
}
