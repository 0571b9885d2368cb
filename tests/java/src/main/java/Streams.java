import io.grpc.CallOptions;
import io.grpc.ManagedChannel;
import io.grpc.MethodDescriptor;
import io.grpc.MethodDescriptor.MethodType;
import io.grpc.Status;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.StreamObserver;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * A gRPC client on grpc-java that puts a heavy load on one channel, as tests/go/streams does on grpc-go. It prints the same words.
 *
 * <pre>
 * streams-grpc-java open ADDRESS AUTHORITY N                       opens N bidirectional streams, and keeps all open
 * streams-grpc-java cancel ADDRESS AUTHORITY PER_SECOND SECONDS    cancels calls 1 to 3 ms after their start
 * </pre>
 */
public final class Streams {
    /** Time limit of each unary call, and of each wait for an answer, in seconds. */
    private static final int PATIENCE = 20;

    private static final byte[] HELLO = "hello".getBytes();

    private static ManagedChannel channel;

    private static io.grpc.ClientCall<byte[], byte[]> call(String method, MethodType type, CallOptions options) {
        var descriptor = MethodDescriptor.<byte[], byte[]>newBuilder()
            .setFullMethodName("test.Test/" + method)
            .setType(type)
            .setRequestMarshaller(Bytes.MARSHALLER)
            .setResponseMarshaller(Bytes.MARSHALLER)
            .build();
        return channel.newCall(descriptor, options);
    }

    private static CompletableFuture<byte[]> echo() {
        var answer = new CompletableFuture<byte[]>();
        var options = CallOptions.DEFAULT.withDeadlineAfter(PATIENCE, TimeUnit.SECONDS);
        ClientCalls.asyncUnaryCall(call("Echo", MethodType.UNARY, options), HELLO, new First(answer));
        return answer;
    }

    /** Completes `answer` with the first message, or with the error if there is no message. */
    private record First(CompletableFuture<byte[]> answer) implements StreamObserver<byte[]> {
        @Override
        public void onNext(byte[] message) {
            answer.complete(message);
        }

        @Override
        public void onError(Throwable error) {
            answer.completeExceptionally(error);
        }

        @Override
        public void onCompleted() {
            answer.completeExceptionally(Status.INTERNAL.withDescription("no answer").asException());
        }
    }

    /** Adds each message to `answers`. The end of the stream adds nothing, so a reader of `answers` then times out. */
    private record Each(LinkedBlockingQueue<byte[]> answers) implements StreamObserver<byte[]> {
        @Override
        public void onNext(byte[] message) {
            answers.add(message);
        }

        @Override
        public void onError(Throwable error) {
            System.err.println(error);
        }

        @Override
        public void onCompleted() {
            System.err.println("the server ended the stream");
        }
    }

    /** Makes unary calls on the same channel, one after the other. */
    private static final class Beside extends Thread {
        private volatile boolean ends;
        private int calls;
        private int failed;
        private long slowest;

        @Override
        public void run() {
            while (!ends) {
                long start = System.nanoTime();
                try {
                    echo().get();
                    Thread.sleep(20);
                } catch (ExecutionException error) {
                    failed++;
                    System.err.println(error);
                } catch (InterruptedException error) {
                    return;
                }
                calls++;
                slowest = Math.max(slowest, System.nanoTime() - start - 20_000_000);
            }
        }

        String words() throws InterruptedException {
            ends = true;
            join();
            return "calls=%d failed=%d slowest_ms=%d".formatted(calls, failed, slowest / 1_000_000);
        }
    }

    private static void open(int count) throws Exception {
        var beside = new Beside();
        long start = System.nanoTime();
        beside.start();
        List<CompletableFuture<byte[]>> answers = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            var answer = new CompletableFuture<byte[]>();
            var stream = ClientCalls.asyncBidiStreamingCall(
                call("Bidi", MethodType.BIDI_STREAMING, CallOptions.DEFAULT), new First(answer));
            stream.onNext(HELLO);
            answers.add(answer);
        }
        int answered = 0;
        for (var answer : answers) {
            try {
                answer.get(PATIENCE, TimeUnit.SECONDS);
                answered++;
            } catch (ExecutionException | TimeoutException error) {
                System.err.println(error);
            }
        }
        long took = (System.nanoTime() - start) / 1_000_000;
        System.out.printf("answered=%d took_ms=%d %s%n", answered, took, beside.words());
    }

    private static void cancel(int perSecond, int seconds) throws Exception {
        var echoes = new LinkedBlockingQueue<byte[]>();
        var stream = ClientCalls.asyncBidiStreamingCall(
            call("Bidi", MethodType.BIDI_STREAMING, CallOptions.DEFAULT), new Each(echoes));
        stream.onNext(HELLO);
        if (echoes.poll(PATIENCE, TimeUnit.SECONDS) == null) {
            throw new IllegalStateException("the stream is not answered");
        }
        var beside = new Beside();
        beside.start();
        var cancelled = new AtomicInteger();
        var others = new AtomicInteger();
        ScheduledExecutorService clock = Executors.newScheduledThreadPool(2);
        List<CompletableFuture<byte[]>> calls = Collections.synchronizedList(new ArrayList<>());
        var begin = clock.scheduleAtFixedRate(() -> {
            var answer = new CompletableFuture<byte[]>();
            var slow = call("Slow", MethodType.UNARY, CallOptions.DEFAULT);
            ClientCalls.asyncUnaryCall(slow, HELLO, new First(answer));
            long patience = 1_000 + ThreadLocalRandom.current().nextLong(2_000);
            clock.schedule(() -> slow.cancel("in time", null), patience, TimeUnit.MICROSECONDS);
            calls.add(answer);
        }, 0, 1_000_000 / perSecond, TimeUnit.MICROSECONDS);
        Thread.sleep(1_000L * seconds);
        begin.cancel(false);
        for (var answer : List.copyOf(calls)) {
            try {
                answer.get(PATIENCE, TimeUnit.SECONDS);
            } catch (ExecutionException error) {
                boolean isCancelled = Status.fromThrowable(error.getCause()).getCode() == Status.Code.CANCELLED;
                (isCancelled ? cancelled : others).incrementAndGet();
            }
        }
        clock.shutdownNow();
        stream.onNext(HELLO);
        int streamFailed = echoes.poll(PATIENCE, TimeUnit.SECONDS) == null ? 1 : 0;
        System.out.printf("cancelled=%d others=%d stream_failed=%d %s%n",
            cancelled.get(), others.get(), streamFailed, beside.words());
    }

    public static void main(String[] arguments) throws Exception {
        channel = NettyChannelBuilder.forTarget(arguments[1])
            .usePlaintext()
            .overrideAuthority(arguments[2])
            .build();
        echo().get();
        if (arguments[0].equals("open")) {
            open(Integer.parseInt(arguments[3]));
        } else {
            cancel(Integer.parseInt(arguments[3]), Integer.parseInt(arguments[4]));
        }
        System.exit(0);
    }
}
