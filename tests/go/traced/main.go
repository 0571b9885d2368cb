// Traced is a gRPC client and a gRPC server on grpc-go, with OpenTelemetry's instrumentation.
//
//	traced serve --listen ADDRESS     serves grpc.testing.TestService
//	traced call --target ADDRESS      calls its method UnaryCall, and prints one line for each call: TRACE-ID STATUS
//
// Both export their spans to --collector by OTLP over gRPC. Without --collector, a client or a server has no
// instrumentation, and the client prints `-` in place of trace ids.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/contrib/propagators/b3"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	testing "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
)

// Time limit of each call, and of the last export.
const patience = 20 * time.Second

var (
	listen     = flag.String("listen", "", "address of the server")
	target     = flag.String("target", "", "address to call")
	authority  = flag.String("authority", "", "the calls' :authority")
	collector  = flag.String("collector", "", "address of the collector; empty: no instrumentation")
	service    = flag.String("service-name", "traced", "service.name of the spans' resource")
	propagator = flag.String("propagator", "tracecontext", "tracecontext, b3, b3multi or opencensus")
	sampled    = flag.Bool("sampled", true, "whether the client samples its calls")
	calls      = flag.Int("calls", 1, "number of calls, one after the other")
	wantStatus = flag.Int("status", 0, "gRPC status that the client requests from the server")
	failFirst  = flag.Int64("fail-first", 0, "number of calls that the server fails with UNAVAILABLE at first")
)

func main() {
	if len(os.Args) < 2 {
		log.Fatal("usage: traced serve|call FLAGS; traced call --help lists the flags")
	}
	if err := flag.CommandLine.Parse(os.Args[2:]); err != nil {
		log.Fatal(err)
	}
	switch os.Args[1] {
	case "serve":
		serve()
	case "call":
		call()
	default:
		log.Fatalf("%s is none of serve and call", os.Args[1])
	}
}

// A server that answers each call with the status that the request names.
type server struct {
	testing.UnimplementedTestServiceServer
	received atomic.Int64
}

func (s *server) UnaryCall(_ context.Context, request *testing.SimpleRequest) (*testing.SimpleResponse, error) {
	if s.received.Add(1) <= *failFirst {
		return nil, status.Error(codes.Unavailable, "one of the first calls, which fail")
	}
	if wanted := request.GetResponseStatus(); wanted.GetCode() != 0 {
		return nil, status.Error(codes.Code(wanted.GetCode()), wanted.GetMessage())
	}
	return &testing.SimpleResponse{}, nil
}

func serve() {
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	var options []grpc.ServerOption
	if *collector != "" {
		handler := otelgrpc.NewServerHandler(
			otelgrpc.WithTracerProvider(newProvider(sdk.AlwaysSample())), otelgrpc.WithPropagators(newPropagator()))
		options = append(options, grpc.StatsHandler(handler))
	}
	service := grpc.NewServer(options...)
	testing.RegisterTestServiceServer(service, &server{})
	log.Fatal(service.Serve(listener))
}

func call() {
	options := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry()}
	if *authority != "" {
		options = append(options, grpc.WithAuthority(*authority))
	}
	noted := &noting{}
	if *collector != "" {
		sampler := sdk.NeverSample()
		if *sampled {
			sampler = sdk.AlwaysSample()
		}
		provider := newProvider(sampler)
		defer func() {
			limited, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if err := provider.Shutdown(limited); err != nil {
				log.Fatalf("not all spans were exported: %v", err)
			}
		}()
		noted.TextMapPropagator = newPropagator()
		handler := otelgrpc.NewClientHandler(otelgrpc.WithTracerProvider(provider), otelgrpc.WithPropagators(noted))
		options = append(options, grpc.WithStatsHandler(handler))
	}
	channel, err := grpc.NewClient("passthrough:///"+*target, options...)
	if err != nil {
		log.Fatal(err)
	}
	client := testing.NewTestServiceClient(channel)
	request := &testing.SimpleRequest{ResponseStatus: &testing.EchoStatus{Code: int32(*wantStatus)}}
	for range *calls {
		limited, cancel := context.WithTimeout(context.Background(), patience)
		noted.traceID = "-"
		_, err := client.UnaryCall(limited, request, grpc.WaitForReady(true))
		cancel()
		fmt.Println(noted.traceID, status.Code(err))
	}
}

func newProvider(root sdk.Sampler) *sdk.TracerProvider {
	exporter, err := otlptracegrpc.New(
		context.Background(), otlptracegrpc.WithEndpoint(*collector), otlptracegrpc.WithInsecure())
	if err != nil {
		log.Fatal(err)
	}
	return sdk.NewTracerProvider(
		sdk.WithBatcher(exporter, sdk.WithBatchTimeout(50*time.Millisecond)),
		sdk.WithSampler(sdk.ParentBased(root)),
		sdk.WithResource(resource.NewSchemaless(attribute.String("service.name", *service))),
	)
}

func newPropagator() propagation.TextMapPropagator {
	switch *propagator {
	case "tracecontext":
		return propagation.TraceContext{}
	case "b3":
		return b3.New(b3.WithInjectEncoding(b3.B3SingleHeader))
	case "b3multi":
		return b3.New(b3.WithInjectEncoding(b3.B3MultipleHeader))
	case "opencensus":
		return openCensus{}
	}
	log.Fatalf("%s is none of tracecontext, b3, b3multi and opencensus", *propagator)
	return nil
}

// noting is a propagator that keeps the trace id of the latest call. It is a propagator because only a propagator sees
// the trace ids of spans that are not sampled.
type noting struct {
	propagation.TextMapPropagator
	traceID string
}

func (n *noting) Inject(ctx context.Context, carrier propagation.TextMapCarrier) {
	n.traceID = trace.SpanContextFromContext(ctx).TraceID().String()
	n.TextMapPropagator.Inject(ctx, carrier)
}

// openCensus reads and writes OpenCensus' binary format in grpc-trace-bin: version 0, then field 0 (trace id), field 1
// (span id) and field 2 (options). grpc-go encodes the field in base64, because its name ends with -bin. It is written
// here because OpenTelemetry's own module for this format has no release for this version of OpenTelemetry.
type openCensus struct{}

const openCensusField = "grpc-trace-bin"

func (openCensus) Fields() []string { return []string{openCensusField} }

func (openCensus) Inject(ctx context.Context, carrier propagation.TextMapCarrier) {
	span := trace.SpanContextFromContext(ctx)
	if !span.IsValid() {
		return
	}
	traceID, spanID := span.TraceID(), span.SpanID()
	value := append([]byte{0, 0}, traceID[:]...)
	value = append(append(value, 1), spanID[:]...)
	carrier.Set(openCensusField, string(append(value, 2, byte(span.TraceFlags()&trace.FlagsSampled))))
}

func (openCensus) Extract(ctx context.Context, carrier propagation.TextMapCarrier) context.Context {
	value := []byte(carrier.Get(openCensusField))
	if len(value) != 29 || value[0] != 0 || value[1] != 0 || value[18] != 1 || value[27] != 2 {
		return ctx
	}
	span := trace.SpanContextConfig{TraceFlags: trace.TraceFlags(value[28]), Remote: true}
	copy(span.TraceID[:], value[2:18])
	copy(span.SpanID[:], value[19:27])
	return trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(span))
}
