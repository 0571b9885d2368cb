import io.grpc.ChannelCredentials;
import io.grpc.TlsChannelCredentials;
import io.grpc.util.AdvancedTlsX509KeyManager;
import io.grpc.util.AdvancedTlsX509TrustManager;
import io.grpc.xds.XdsCredentialsProvider;
import java.io.File;
import java.io.IOException;
import java.security.GeneralSecurityException;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

/**
 * Uses the certificate, key and CA files that a bootstrap names for the connection to the control plane (gRFC A65). grpc-java
 * itself ignores them. A program that needs this class names it in META-INF/services/io.grpc.xds.XdsCredentialsProvider.
 */
public final class FileTls extends XdsCredentialsProvider {
    /** Interval at which the files are checked for changes, in seconds. */
    private static final int REFRESH = 10;

    private final ScheduledExecutorService timer = Executors.newSingleThreadScheduledExecutor(work -> {
        var thread = new Thread(work, "file-tls");
        thread.setDaemon(true);
        return thread;
    });

    @Override
    protected ChannelCredentials newChannelCredentials(Map<String, ?> config) {
        try {
            var keys = new AdvancedTlsX509KeyManager();
            keys.updateIdentityCredentials(
                    file(config, "certificate_file"), file(config, "private_key_file"), REFRESH, TimeUnit.SECONDS, timer);
            var anchors = AdvancedTlsX509TrustManager.newBuilder().build();
            anchors.updateTrustCredentials(file(config, "ca_certificate_file"), REFRESH, TimeUnit.SECONDS, timer);
            return TlsChannelCredentials.newBuilder().keyManager(keys).trustManager(anchors).build();
        } catch (IOException | GeneralSecurityException error) {
            throw new IllegalArgumentException(error);
        }
    }

    private static File file(Map<String, ?> config, String name) {
        return new File((String) config.get(name));
    }

    @Override
    protected String getName() {
        return "tls";
    }

    @Override
    public boolean isAvailable() {
        return true;
    }

    /** Higher than 5, the priority of grpc-java's own provider of the name "tls", so that grpc-java uses this class instead. */
    @Override
    public int priority() {
        return 6;
    }
}
