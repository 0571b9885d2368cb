module leno.dev/tests/echo-basic

go 1.26.0

require (
	sigs.k8s.io/gateway-api v1.6.3
	sigs.k8s.io/gateway-api/conformance v1.6.3
)

replace sigs.k8s.io/gateway-api => sigs.k8s.io/gateway-api v1.6.3
