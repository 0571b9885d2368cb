// Xds-client is a gRPC client on grpc-go that finds its servers by xDS, without a proxy.
//
// The first argument is the target. GRPC_XDS_BOOTSTRAP is the path of the bootstrap. Each line of the standard input is
// a command, and the client answers it with one line. Further arguments are a single command, and replace the standard
// input:
//
//	call PATH N   makes N unary calls of the method, one after the other; answers with the number of calls by status
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

	"leno.dev/tests/bytescodec"
)

// Time limit of one call.
const patience = 10 * time.Second

func main() {
	if len(os.Args) < 2 {
		log.Fatal("usage: xds-client xds:///SERVICE.NAMESPACE:PORT [call PATH N]")
	}
	creds, err := xdscreds.NewClientCredentials(xdscreds.ClientOptions{FallbackCreds: insecure.NewCredentials()})
	if err != nil {
		log.Fatal(err)
	}
	channel, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(creds),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(bytescodec.Codec{}), grpc.WaitForReady(false)))
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

// Makes the calls, and returns how many ended with each status, such as "OK=3 Unavailable=1".
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
