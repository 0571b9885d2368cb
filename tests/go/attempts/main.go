// Attempts is a gRPC server on grpc-go that counts the attempts of each call, and fails the first attempts.
//
//	attempts ADDRESS FILE
//
// The metadata `x-fail` of a call sets how many of its attempts fail with UNAVAILABLE. For each attempt, the server
// appends a line to FILE: the call's `x-call`, and the number of earlier attempts, from `grpc-previous-rpc-attempts`.
package main

import (
	"fmt"
	"log"
	"net"
	"os"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"leno.dev/tests/bytescodec"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: attempts ADDRESS FILE; see the comment at the head of main.go")
	}
	file, err := os.OpenFile(os.Args[2], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	answer := func(_ any, stream grpc.ServerStream) error {
		metadata, _ := metadata.FromIncomingContext(stream.Context())
		before, fail := number(metadata, "grpc-previous-rpc-attempts"), number(metadata, "x-fail")
		// One write for each line, so that lines of concurrent calls do not mix.
		if _, err := file.WriteString(fmt.Sprintf("%d %d\n", number(metadata, "x-call"), before)); err != nil {
			return err
		}
		if before < fail {
			return status.Error(codes.Unavailable, "this attempt fails")
		}
		var message []byte
		if err := stream.RecvMsg(&message); err != nil {
			return err
		}
		return stream.SendMsg(&message)
	}
	server := grpc.NewServer(grpc.UnknownServiceHandler(answer), grpc.ForceServerCodec(bytescodec.Codec{}))
	log.Fatal(server.Serve(listener))
}

// The number in a field of the metadata; 0 if it is missing.
func number(metadata metadata.MD, name string) int {
	values := metadata.Get(name)
	if len(values) == 0 {
		return 0
	}
	number, err := strconv.Atoi(values[0])
	if err != nil {
		log.Fatalf("%s: %v", name, err)
	}
	return number
}
