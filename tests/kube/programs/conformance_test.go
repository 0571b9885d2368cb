// The Gateway API's conformance suite, against the cluster of $KUBECONFIG.
package conformance

import (
	"testing"

	"sigs.k8s.io/gateway-api/conformance"
)

// The suite takes an answer for settled after 3 right ones in a row, tried for 30 s. Between two backends kube-proxy's random
// choice alone passes that nearly always, with no mesh at all.
const consecutiveSuccesses = 20

func TestConformance(t *testing.T) {
	options := conformance.DefaultOptions(t)
	options.TimeoutConfig.RequiredConsecutiveSuccesses = consecutiveSuccesses
	conformance.RunConformanceWithOptions(t, options)
}
