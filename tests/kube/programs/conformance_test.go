// Runs the Gateway API's conformance suite against the cluster of $KUBECONFIG.
package conformance

import (
	"fmt"
	"io/fs"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/uuid"
	"sigs.k8s.io/gateway-api/conformance"
	"sigs.k8s.io/gateway-api/conformance/tests"
	"sigs.k8s.io/gateway-api/conformance/utils/echo"
	"sigs.k8s.io/gateway-api/conformance/utils/http"
	"sigs.k8s.io/gateway-api/conformance/utils/suite"
	"sigs.k8s.io/gateway-api/pkg/features"
)

// By default, a test tries for 30 s to get 3 right answers in a row. With two backends, kube-proxy's random choice
// nearly always gives 3 right answers in a row within 30 s, without any mesh. So require more.
const consecutiveSuccesses = 20

// The suite's default of 3 successes in a row is enough for the retry test. Without a mesh, requests are never sent
// again, so no random choice can make the test pass. More retries within 30 s would exceed the retry budget.
const consecutiveRetries = 3

func TestConformance(t *testing.T) {
	tests.ConformanceTests = append(tests.ConformanceTests, meshHTTPRouteRetry)
	options := conformance.DefaultOptions(t)
	options.TimeoutConfig.RequiredConsecutiveSuccesses = consecutiveSuccesses
	options.ManifestFS = []fs.FS{&conformance.Manifests, fstest.MapFS{retryManifest: {Data: []byte(retryObjects)}}}
	conformance.RunConformanceWithOptions(t, options)
}

// The cases of the suite's test HTTPRouteRetry, and cases for the features HTTPRouteRetryConnectionError and
// HTTPRouteRetryBackendTimeout, for which version 1.6.3 of the suite has no tests. In the suite, the parent of the routes is a
// Gateway; here it is a Service, and the client is a meshed Pod.
var meshHTTPRouteRetry = suite.ConformanceTest{
	ShortName:   "MeshHTTPRouteRetry",
	Description: "An HTTPRoute with a Service as its parent retries as its rules say",
	Manifests:   []string{retryManifest},
	Features: []features.FeatureName{
		features.SupportMesh,
		features.SupportHTTPRoute,
		features.SupportHTTPRouteRetry,
		features.SupportHTTPRouteRetryConnectionError,
		features.SupportHTTPRouteRetryBackendTimeout,
	},
	Test: func(t *testing.T, s *suite.ConformanceTestSuite) {
		client := echo.ConnectToApp(t, s, echo.MeshAppEchoV1)
		for _, c := range []struct {
			path, failure string
			failures      int
			status        int
		}{
			{"code-500-attempts-3", "responseCode=500", 2, 200},
			{"code-500-attempts-3", "responseCode=500", 4, 500},
			{"code-500-attempts-3", "responseCode=503", 2, 503},
			{"code-all-attempts-2", "responseCode=500", 1, 200},
			{"code-all-attempts-2", "responseCode=500", 3, 500},
			{"code-all-attempts-2", "responseCode=502", 1, 200},
			{"code-all-attempts-2", "responseCode=502", 3, 502},
			{"code-all-attempts-2", "responseCode=503", 1, 200},
			{"code-all-attempts-2", "responseCode=503", 3, 503},
			{"code-all-attempts-2", "responseCode=504", 1, 200},
			{"code-all-attempts-2", "responseCode=504", 3, 504},
			// Without a responseCode, the server resets the connection. The proxy of the server's Pod may send each attempt
			// again, so a 502 needs more failures than the client's proxy makes attempts.
			{"code-all-attempts-2", "", 2, 200},
			{"code-all-attempts-2", "", 12, 502},
			// The server delays the failing attempt by delayRetry, and serves one attempt at a time, so that a retry waits, too.
			// The suite's client waits for 5 s: long enough for the delay of 1500 ms, and too short for 30 s.
			{"timeout", "responseCode=200&delayRetry=1500ms", 1, 200},
			{"timeout", "responseCode=200&delayRetry=30s", 1, 504},
		} {
			t.Run(fmt.Sprintf("%s %s, %d failures: %d", c.path, c.failure, c.failures, c.status), func(t *testing.T) {
				http.AwaitConvergence(t, consecutiveRetries, s.TimeoutConfig.MaxTimeToConsistency, func(elapsed time.Duration) bool {
					// The server counts the attempts of each uuid, so each request gets a new one.
					path := fmt.Sprintf("/retry/%s?%s&succeedAfter=%d&uuid=%s", c.path, c.failure, c.failures, uuid.New())
					_, _, err := client.CaptureRequestResponseAndCompare(t, http.ExpectedResponse{
						Request:  http.Request{Host: "retries", Path: path},
						Response: http.Response{StatusCode: c.status},
					})
					if err != nil {
						t.Logf("not yet after %v: %v", elapsed, err)
					}
					return err == nil
				})
			})
		}
	},
}

const retryManifest = "mesh-httproute-retry.yaml"

const retryObjects = `
apiVersion: v1
kind: Service
metadata: {name: retries, namespace: gateway-conformance-mesh}
spec:
  selector: {app: retries}
  ports: [{name: http, port: 80, targetPort: 3000, appProtocol: http}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: retries, namespace: gateway-conformance-mesh}
spec:
  selector: {matchLabels: {app: retries}}
  template:
    metadata: {labels: {app: retries}}
    spec:
      containers:
      - name: retries
        image: registry.k8s.io/gateway-api/echo-basic:v1.6.0-dev.3
        imagePullPolicy: IfNotPresent
        env:
        - {name: SERVICE_NAME, value: retries}
        - {name: NAMESPACE, value: gateway-conformance-mesh}
        - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: retries, namespace: gateway-conformance-mesh}
spec:
  parentRefs: [{group: "", kind: Service, name: retries, port: 80}]
  rules:
  - matches: [{path: {type: PathPrefix, value: /retry/code-500-attempts-3}}]
    retry: {codes: [500], attempts: 3}
    backendRefs: [{name: retries, port: 80}]
  - matches: [{path: {type: PathPrefix, value: /retry/code-all-attempts-2}}]
    retry: {codes: [500, 502, 503, 504], attempts: 2}
    backendRefs: [{name: retries, port: 80}]
  - matches: [{path: {type: PathPrefix, value: /retry/timeout}}]
    timeouts: {backendRequest: 1s}
    retry: {attempts: 2}
    backendRefs: [{name: retries, port: 80}]
`
