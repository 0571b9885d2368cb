// Runs the Gateway API's conformance suite against the cluster of $KUBECONFIG.
package conformance

import (
	"testing"

	"sigs.k8s.io/gateway-api/conformance"
)

// By default, a test passes after 3 right answers in a row, for which it tries for 30 s. With two backends, kube-proxy's random
// choice nearly always gives 3 right answers in a row in this time, without any mesh. So require more.
const consecutiveSuccesses = 20

func TestConformance(t *testing.T) {
	options := conformance.DefaultOptions(t)
	options.TimeoutConfig.RequiredConsecutiveSuccesses = consecutiveSuccesses
	conformance.RunConformanceWithOptions(t, options)
}
