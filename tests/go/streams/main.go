// Streams is a gRPC client and a gRPC server on grpc-go. The client puts a heavy load on one channel, but does only what
// well-behaved programs may do.
//
//	streams serve ADDRESS MAX_STREAMS                      a server that grants each connection MAX_STREAMS, 0 for no limit
//	streams open ADDRESS AUTHORITY N                       opens N bidirectional streams on one channel, and keeps all open
//	streams cancel ADDRESS AUTHORITY PER_SECOND SECONDS    cancels calls 1 to 3 ms after their start
//
// The server's methods: Echo answers with the request, Bidi echoes messages as they come, Slow answers after 50 ms. The
// clients print one line of words NAME=VALUE. At the same time they make unary calls on the same channel, one after the
// other: `slowest_ms` is the time of the slowest of these unary calls, and `failed` is the number of them that failed.
// `connections` is the number of connections that the channel has opened.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"leno.dev/tests/bytescodec"
)

// Time limit of each unary call, and of the opening of all streams, from the first to the last.
const patience = 20 * time.Second

var bidi = &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}

func main() {
	if len(os.Args) < 4 {
		log.Fatal("usage: streams serve|open|cancel ADDRESS ...; see the comment at the head of main.go")
	}
	address := os.Args[2]
	switch os.Args[1] {
	case "serve":
		serve(address, number(3))
	case "open":
		open(newChannel(address, os.Args[3]), number(4))
	case "cancel":
		cancel(newChannel(address, os.Args[3]), number(4), time.Duration(number(5))*time.Second)
	default:
		log.Fatalf("%s is none of serve, open and cancel", os.Args[1])
	}
}

func number(argument int) int {
	if argument >= len(os.Args) {
		log.Fatalf("argument %d is missing", argument)
	}
	n, err := strconv.Atoi(os.Args[argument])
	if err != nil {
		log.Fatal(err)
	}
	return n
}

func serve(address string, maxStreams int) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		log.Fatal(err)
	}
	options := []grpc.ServerOption{grpc.ForceServerCodec(bytescodec.Codec{}), grpc.UnknownServiceHandler(answer)}
	if maxStreams > 0 {
		options = append(options, grpc.MaxConcurrentStreams(uint32(maxStreams)))
	}
	log.Fatal(grpc.NewServer(options...).Serve(listener))
}

func answer(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	for {
		var message []byte
		if err := stream.RecvMsg(&message); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if method == "/test.Test/Slow" {
			select {
			case <-time.After(50 * time.Millisecond):
			case <-stream.Context().Done():
				return status.FromContextError(stream.Context().Err()).Err()
			}
		}
		if err := stream.SendMsg(&message); err != nil {
			return err
		}
	}
}

// A channel to one address. It counts the connections that it opens.
type channel struct {
	*grpc.ClientConn
	connections atomic.Int64
}

func newChannel(address, authority string) *channel {
	made := &channel{}
	dial := func(ctx context.Context, address string) (net.Conn, error) {
		made.connections.Add(1)
		return (&net.Dialer{}).DialContext(ctx, "tcp", address)
	}
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority(authority), grpc.WithContextDialer(dial),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(bytescodec.Codec{})))
	if err != nil {
		log.Fatal(err)
	}
	made.ClientConn = conn
	return made
}

func (c *channel) call(ctx context.Context, method string) error {
	request, response := []byte("hello"), []byte{}
	return c.Invoke(ctx, "/test.Test/"+method, &request, &response)
}

// Opens all streams at once, and waits until each has had a message echoed.
func open(channel *channel, count int) {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	if err := channel.call(ctx, "Echo"); err != nil {
		log.Fatal(err)
	}
	start := time.Now()
	var answered atomic.Int64
	var opening sync.WaitGroup
	for range count {
		opening.Go(func() {
			if err := openOne(ctx, channel); err == nil {
				answered.Add(1)
			} else if answered.Load() >= 0 && rand.IntN(100) == 0 {
				fmt.Fprintln(os.Stderr, err)
			}
		})
	}
	beside := beside(channel)
	opening.Wait()
	took := time.Since(start)
	fmt.Printf("answered=%d took_ms=%d %s connections=%d\n",
		answered.Load(), took.Milliseconds(), beside(), channel.connections.Load())
}

// Opens a stream, which stays open until the program ends.
func openOne(ctx context.Context, channel *channel) error {
	stream, err := channel.NewStream(ctx, bidi, "/test.Test/Bidi")
	if err != nil {
		return err
	}
	message := []byte("hello")
	if err := stream.SendMsg(&message); err != nil {
		return err
	}
	return stream.RecvMsg(&message)
}

// Makes unary calls in the background. The returned function ends them, and returns their number, the number of failed
// calls and the time of the slowest call.
func beside(channel *channel) func() string {
	done, finished := make(chan struct{}), make(chan struct{})
	var slowest time.Duration
	var calls, failed int
	go func() {
		defer close(finished)
		for {
			ctx, stop := context.WithTimeout(context.Background(), patience)
			start := time.Now()
			err := channel.call(ctx, "Echo")
			stop()
			calls++
			slowest = max(slowest, time.Since(start))
			if err != nil {
				failed++
				fmt.Fprintln(os.Stderr, err)
			}
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return func() string {
		close(done)
		<-finished
		return fmt.Sprintf("calls=%d failed=%d slowest_ms=%d", calls, failed, slowest.Milliseconds())
	}
}

// Cancels calls at a steady rate, while one stream of the channel stays open.
func cancel(channel *channel, perSecond int, duration time.Duration) {
	if err := channel.call(context.Background(), "Echo"); err != nil {
		log.Fatal(err)
	}
	stream, err := channel.NewStream(context.Background(), bidi, "/test.Test/Bidi")
	if err != nil {
		log.Fatal(err)
	}
	beside := beside(channel)
	var cancelled, others atomic.Int64
	var calls sync.WaitGroup
	clock := time.NewTicker(time.Second / time.Duration(perSecond))
	for range int(duration.Seconds() * float64(perSecond)) {
		<-clock.C
		calls.Go(func() {
			patience := time.Millisecond + time.Duration(rand.Int64N(int64(2*time.Millisecond)))
			ctx, stop := context.WithCancel(context.Background())
			time.AfterFunc(patience, stop)
			switch err := channel.call(ctx, "Slow"); status.Code(err) {
			case codes.Canceled:
				cancelled.Add(1)
			case codes.OK:
				// The machine stalled, so the call was answered before it was cancelled.
			default:
				others.Add(1)
				fmt.Fprintln(os.Stderr, err)
			}
		})
	}
	calls.Wait()
	streamFailed := 0
	message := []byte("hello")
	if stream.SendMsg(&message) != nil || stream.RecvMsg(&message) != nil {
		streamFailed = 1
	}
	fmt.Printf("cancelled=%d others=%d stream_failed=%d %s connections=%d\n",
		cancelled.Load(), others.Load(), streamFailed, beside(), channel.connections.Load())
}
