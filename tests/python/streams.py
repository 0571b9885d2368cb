"""A gRPC client on grpcio that puts a heavy load on one channel, as tests/go/streams does on grpc-go. It prints the same words.

    streams-grpcio open ADDRESS AUTHORITY N                       opens N bidirectional streams, and keeps all open
    streams-grpcio cancel ADDRESS AUTHORITY PER_SECOND SECONDS    cancels calls 1 to 3 ms after their start
"""

import asyncio
import random
import sys
import time

import grpc

# Time limit of opening all streams together, and of each unary call, in seconds.
PATIENCE = 20


def call(channel, method):
    """Starts a unary call; messages are bytes."""
    return channel.unary_unary(f"/test.Test/{method}")(b"hello", timeout=PATIENCE)


async def open_one(channel):
    """Opens a stream, and has a message echoed on it. Returns the stream, which stays open, or None if the echo fails."""
    stream = channel.stream_stream("/test.Test/Bidi")()
    try:
        await stream.write(b"hello")
        return stream if await stream.read() == b"hello" else None
    except grpc.RpcError as error:
        print(error, file=sys.stderr)
        return None


class Beside:
    """Makes unary calls on the same channel, one after the other."""

    def __init__(self, channel):
        self.calls = self.failed = self.slowest = 0
        self.ends = False
        self.task = asyncio.create_task(self.go_on(channel))

    async def go_on(self, channel):
        while not self.ends:
            start = time.monotonic()
            try:
                await call(channel, "Echo")
            except grpc.RpcError as error:
                self.failed += 1
                print(error, file=sys.stderr)
            self.calls += 1
            self.slowest = max(self.slowest, time.monotonic() - start)
            await asyncio.sleep(0.02)

    async def words(self):
        self.ends = True
        await self.task
        return f"calls={self.calls} failed={self.failed} slowest_ms={round(1000 * self.slowest)}"


async def open_streams(channel, count):
    start = time.monotonic()
    beside = Beside(channel)
    opening = asyncio.gather(*(open_one(channel) for _ in range(count)))
    streams = await asyncio.wait_for(opening, PATIENCE)
    took = time.monotonic() - start
    answered = sum(stream is not None for stream in streams)
    print(f"answered={answered} took_ms={round(1000 * took)} {await beside.words()}")


async def cancel_calls(channel, per_second, seconds):
    stream = await open_one(channel)
    beside = Beside(channel)
    cancelled = others = 0

    async def cancel_one():
        nonlocal cancelled, others
        slow = call(channel, "Slow")
        asyncio.get_running_loop().call_later(random.uniform(0.001, 0.003), slow.cancel)
        try:
            await slow
        except asyncio.CancelledError:
            cancelled += 1
        except grpc.RpcError as error:
            others += 1
            print(error, file=sys.stderr)

    calls, start = [], time.monotonic()
    for number in range(per_second * seconds):
        await asyncio.sleep(max(0, start + number / per_second - time.monotonic()))
        calls.append(asyncio.create_task(cancel_one()))
    await asyncio.gather(*calls)
    failed = 1
    if stream is not None:
        await stream.write(b"hello")
        failed = int(await asyncio.wait_for(stream.read(), PATIENCE) != b"hello")
    print(f"cancelled={cancelled} others={others} stream_failed={failed} {await beside.words()}")


async def main():
    order, address, authority, *numbers = sys.argv[1:]
    acts = {"open": open_streams, "cancel": cancel_calls}
    options = [("grpc.default_authority", authority)]
    async with grpc.aio.insecure_channel(address, options=options) as channel:
        await call(channel, "Echo")
        await acts[order](channel, *map(int, numbers))


asyncio.run(main())
