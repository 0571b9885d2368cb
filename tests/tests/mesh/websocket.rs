//! WebSocket through the mesh: client and server are Python's `websockets`.

use std::process::Command;

use leno_tests::mesh::{MeshService, skipped};

use super::Pair;

/// A server that sends a first message, and then echoes each message.
const SERVER: &str = r#"
import asyncio, websockets
async def serve(socket):
    await socket.send("welcome")
    async for message in socket:
        await socket.send(message)
async def main():
    async with websockets.serve(serve, "0.0.0.0", 8765, max_size=None):
        await asyncio.Future()
asyncio.run(main())
"#;

/// A client that sends messages of all kinds and sizes, and prints a line when all messages have come back.
const CLIENT: &str = r#"
import asyncio, os, websockets
async def main():
    async with websockets.connect("ws://chat:8765/room?name=x", max_size=None, extra_headers={"X-Room": "1"}) as socket:
        assert await socket.recv() == "welcome"
        for message in ["hello", "", "\u00e9" * 70000, os.urandom(3000000)]:
            await socket.send(message)
            assert await socket.recv() == message
        await (await socket.ping())
        await socket.close(1000, "enough")
        print("closed with", socket.close_code)
asyncio.run(main())
"#;

#[test]
fn messages_go_both_ways_and_the_close_is_the_peers_own() {
    // The first python3 on the PATH may not be Debian's python3, and then it has none of Debian's packages.
    let has_package = |python: &&str| Command::new(python).args(["-c", "import websockets"]).output();
    let works = |python: &&str| has_package(python).is_ok_and(|output| output.status.success());
    let Some(python) = ["python3", "/usr/bin/python3"].into_iter().find(works) else {
        return skipped("python3 has no websockets; type: apt-get install python3-websockets");
    };
    let Some(pair) = Pair::new(|server| MeshService::new("chat", 8765).at(server)) else { return };
    let _server = pair.server.start(python, &["-c", SERVER]);
    pair.server.wait_for_port(8765);
    assert_eq!(pair.client.run_well(python, &["-c", CLIENT]), "closed with 1000\n");
    pair.assert_encrypted();
    let line = pair.server.wait_for_access(&[("path", "/room"), ("status", "101")]);
    assert_eq!(line["client_id"], pair.client.spiffe_id(), "{line}");
}
