// A gRPC client on grpc-js that puts a heavy load on one channel. It has the commands and the output of the grpc-go
// client in tests/go/streams.
//
//   streams-grpc-js kinds ADDRESS AUTHORITY                      one call of each kind to the echo service
//   streams-grpc-js open ADDRESS AUTHORITY N                     opens N bidirectional streams, and keeps all open
//   streams-grpc-js cancel ADDRESS AUTHORITY PER_SECOND SECONDS  cancels calls 1 to 3 ms after their start
'use strict';

const grpc = require('@grpc/grpc-js');

// Time limit of each unary call, and of the opening of all streams, from the first to the last, in milliseconds.
const PATIENCE_MS = 20_000;

// Messages are bytes.
const asIs = (bytes) => bytes;
const hello = Buffer.from('hello');
const deadline = (ms) => ({ deadline: Date.now() + ms });
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

class Channel extends grpc.Client {
  // Starts a unary call. Returns a promise of its answer, and a function that cancels the call.
  start(path, message, ms = PATIENCE_MS) {
    let call;
    const answer = new Promise((resolve, reject) => {
      const done = (error, bytes) => (error ? reject(error) : resolve(bytes));
      call = this.makeUnaryRequest(path, asIs, asIs, message, new grpc.Metadata(), deadline(ms), done);
    });
    return { answer, cancel: () => call.cancel() };
  }

  bidi(path) {
    return this.makeBidiStreamRequest(path, asIs, asIs, new grpc.Metadata(), {});
  }
}

// Sends a message on a stream, and waits for the server's next message.
function exchange(stream, message) {
  return new Promise((resolve, reject) => {
    stream.once('data', resolve);
    stream.once('error', reject);
    stream.write(message);
  });
}

// Opens a stream, and has a message echoed on it. Returns the stream, which stays open, or null if the echo fails.
async function openOne(channel) {
  const stream = channel.bidi('/test.Test/Bidi');
  try {
    const echoed = await exchange(stream, hello);
    return hello.equals(echoed) ? stream : null;
  } catch (error) {
    console.error(error);
    return null;
  }
}

// Makes unary calls on the same channel, one after the other. The returned function ends them, and returns their number,
// the number of failed calls and the time of the slowest call.
function beside(channel) {
  let calls = 0, failed = 0, slowest = 0, ends = false;
  const task = (async () => {
    while (!ends) {
      const start = performance.now();
      await channel.start('/test.Test/Echo', hello).answer.catch((error) => {
        failed += 1;
        console.error(error);
      });
      calls += 1;
      slowest = Math.max(slowest, performance.now() - start);
      await sleep(20);
    }
  })();
  return async () => {
    ends = true;
    await task;
    return `calls=${calls} failed=${failed} slowest_ms=${Math.round(slowest)}`;
  };
}

async function open(channel, count) {
  const start = performance.now();
  const end = beside(channel);
  const opening = Promise.all(Array.from({ length: count }, () => openOne(channel)));
  const streams = await Promise.race([opening, sleep(PATIENCE_MS).then(() => [])]);
  const took = Math.round(performance.now() - start);
  const answered = streams.filter((stream) => stream !== null).length;
  console.log(`answered=${answered} took_ms=${took} ${await end()}`);
}

async function cancel(channel, perSecond, seconds) {
  const stream = await openOne(channel);
  const end = beside(channel);
  let cancelled = 0, others = 0;
  const cancelOne = async () => {
    const call = channel.start('/test.Test/Slow', hello);
    setTimeout(call.cancel, 1 + 2 * Math.random());
    await call.answer.catch((error) => {
      if (error.code === grpc.status.CANCELLED) {
        cancelled += 1;
      } else {
        others += 1;
        console.error(error);
      }
    });
  };
  const calls = [];
  const start = performance.now();
  for (let number = 0; number < perSecond * seconds; number += 1) {
    await sleep(Math.max(0, start + (1_000 * number) / perSecond - performance.now()));
    calls.push(cancelOne());
  }
  await Promise.all(calls);
  const echoed = stream && (await exchange(stream, hello).catch(() => null));
  const streamFailed = echoed !== null && hello.equals(echoed) ? 0 : 1;
  console.log(`cancelled=${cancelled} others=${others} stream_failed=${streamFailed} ${await end()}`);
}

// Fields of the echo service's EchoRequest: messages = 5, delay_ms = 60000.
const fiveMessages = Buffer.from([5 << 3, 5]);
const slowly = Buffer.from([3 << 3, 0xe0, 0xd4, 0x03]);

async function kinds(channel) {
  const echo = '/leno.echo.v1.Echo';
  const unary = (await channel.start(`${echo}/Unary`, Buffer.alloc(0)).answer).length > 0;

  const streamed = channel.makeServerStreamRequest(
    `${echo}/ServerStream`, asIs, asIs, fiveMessages, new grpc.Metadata(), deadline(PATIENCE_MS));
  let messages = 0;
  for await (const _ of streamed) messages += 1;

  const stream = channel.bidi(`${echo}/Bidi`);
  let echoes = 0;
  for (let number = 0; number < 3; number += 1) {
    await exchange(stream, Buffer.alloc(0));
    echoes += 1;
  }
  const ended = new Promise((resolve) => stream.once('status', (status) => resolve(status.code)));
  stream.end();
  stream.resume();
  const bidiStatus = await ended;

  const start = performance.now();
  const late = await channel.start(`${echo}/Unary`, slowly, 300).answer.then(() => 0, (error) => error.code);
  const lateMs = Math.round(performance.now() - start);
  console.log(
    `unary=${Number(unary)} server_stream=${messages} bidi=${echoes} bidi_status=${bidiStatus} ` +
      `late_status=${late} late_ms=${lateMs}`);
}

async function main() {
  const [order, address, authority, ...numbers] = process.argv.slice(2);
  const channel = new Channel(address, grpc.credentials.createInsecure(), { 'grpc.default_authority': authority });
  if (order !== 'kinds') await channel.start('/test.Test/Echo', hello).answer;
  await { kinds, open, cancel }[order](channel, ...numbers.map(Number));
  process.exit(0);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
