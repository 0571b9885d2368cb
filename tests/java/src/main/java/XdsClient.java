import io.grpc.CallOptions;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.MethodDescriptor;
import io.grpc.MethodDescriptor.MethodType;
import io.grpc.StatusRuntimeException;
import io.grpc.Status;
import io.grpc.stub.ClientCalls;
import io.grpc.xds.XdsChannelCredentials;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.StringReader;
import java.util.Arrays;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;

/**
 * A gRPC client on grpc-java that finds its servers by xDS, without a proxy. It takes the same orders and prints the same words as
 * tests/go/xds-client does on grpc-go.
 */
public final class XdsClient {
    /** Time limit of one call, in seconds. */
    private static final int PATIENCE = 10;

    public static void main(String[] arguments) throws IOException {
        if (arguments.length < 1) {
            System.err.println("usage: xds-client-grpc-java xds:///SERVICE.NAMESPACE:PORT [call PATH N]");
            System.exit(1);
        }
        var credentials = XdsChannelCredentials.create(InsecureChannelCredentials.create());
        var channel = Grpc.newChannelBuilder(arguments[0], credentials).build();
        var given = String.join(" ", Arrays.asList(arguments).subList(1, arguments.length));
        var input = given.isEmpty() ? new InputStreamReader(System.in) : new StringReader(given);
        var orders = new BufferedReader(input);
        for (var order = orders.readLine(); order != null; order = orders.readLine()) {
            var words = order.split(" ");
            if (words.length != 3 || !words[0].equals("call")) {
                System.err.println(order + ": write: call PATH N");
                System.exit(1);
            }
            System.out.println(call(channel, words[1], Integer.parseInt(words[2])));
        }
        channel.shutdownNow();
        System.exit(0);
    }

    /** Makes the calls, and returns how many ended with each status, such as "OK=3 Unavailable=1". */
    private static String call(ManagedChannel channel, String path, int count) {
        var method = MethodDescriptor.<byte[], byte[]>newBuilder()
                .setType(MethodType.UNARY)
                .setFullMethodName(path.substring(1))
                .setRequestMarshaller(Bytes.MARSHALLER)
                .setResponseMarshaller(Bytes.MARSHALLER)
                .build();
        var met = new TreeMap<String, Integer>();
        for (int i = 0; i < count; i++) {
            var code = Status.Code.OK;
            try {
                var options = CallOptions.DEFAULT.withDeadlineAfter(PATIENCE, TimeUnit.SECONDS);
                ClientCalls.blockingUnaryCall(channel, method, options, new byte[0]);
            } catch (StatusRuntimeException error) {
                for (Throwable cause = error; cause != null; cause = cause.getCause()) {
                    System.err.println(cause);
                }
                code = error.getStatus().getCode();
            }
            met.merge(name(code), 1, Integer::sum);
        }
        return met.entrySet().stream().map(status -> status.getKey() + "=" + status.getValue()).collect(Collectors.joining(" "));
    }

    /** Returns a status code's name as grpc-go writes it: OK, or PermissionDenied for PERMISSION_DENIED. */
    private static String name(Status.Code code) {
        if (code == Status.Code.OK) {
            return "OK";
        }
        return Arrays.stream(code.name().split("_"))
                .map(word -> word.charAt(0) + word.substring(1).toLowerCase())
                .collect(Collectors.joining());
    }
}
