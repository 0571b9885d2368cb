// Xds-client is a gRPC client that finds its servers by xDS, as grpc-go does, with nothing in between.
//
// Each line of its input is an order, and is answered with one line; or its further arguments are the only order:
//
//	call PATH N   make N unary calls of the method, one after the other; answers with how each status was met
//
// The bootstrap is where GRPC_XDS_BOOTSTRAP says, the target is its first argument.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"sort"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	xdscreds "google.golang.org/grpc/credentials/xds"
	"google.golang.org/grpc/status"
	_ "google.golang.org/grpc/xds"
)

// How long one call may take.
const patience = 10 * time.Second

// Messages are bytes: what is in them is of no account here.
type bytesCodec struct{}

func (bytesCodec) Marshal(message any) ([]byte, error) { return *message.(*[]byte), nil }

func (bytesCodec) Unmarshal(data []byte, message any) error {
	*message.(*[]byte) = append([]byte(nil), data...)
	return nil
}

func (bytesCodec) Name() string { return "proto" }

func main() {
	if len(os.Args) < 2 {
		log.Fatal("usage: xds-client xds:///SERVICE.NAMESPACE:PORT [call PATH N]")
	}
	creds, err := xdscreds.NewClientCredentials(xdscreds.ClientOptions{FallbackCreds: insecure.NewCredentials()})
	if err != nil {
		log.Fatal(err)
	}
	channel, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(creds),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(bytesCodec{}), grpc.WaitForReady(false)))
	if err != nil {
		log.Fatal(err)
	}
	defer channel.Close()

	var input io.Reader = os.Stdin
	if len(os.Args) > 2 {
		input = strings.NewReader(strings.Join(os.Args[2:], " "))
	}
	orders := bufio.NewScanner(input)
	for orders.Scan() {
		var path string
		var count int
		if _, err := fmt.Sscanf(orders.Text(), "call %s %d", &path, &count); err != nil {
			log.Fatalf("%q: %v; write: call PATH N", orders.Text(), err)
		}
		fmt.Println(call(channel, path, count))
	}
}

// Makes the calls; says how often each status was met, as "OK=3 Unavailable=1".
func call(channel *grpc.ClientConn, path string, count int) string {
	met := map[string]int{}
	for range count {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		request, response := []byte{}, []byte{}
		err := channel.Invoke(ctx, path, &request, &response)
		cancel()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		met[status.Code(err).String()]++
	}
	var parts []string
	for code, times := range met {
		parts = append(parts, fmt.Sprintf("%s=%d", code, times))
	}
	sort.Strings(parts)
	return strings.Join(parts, " ")
}
