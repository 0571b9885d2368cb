"""A gRPC server on grpcio that counts the attempts of each call, as tests/go/attempts does on grpc-go.

    attempts-grpcio ADDRESS FILE
"""

import sys
from concurrent import futures

import grpc


class Handler(grpc.GenericRpcHandler):
    """Answers every method; messages are bytes."""

    def __init__(self, file):
        self.file = file

    def service(self, details):
        metadata = dict(details.invocation_metadata)
        before, fail = (int(metadata.get(name, 0)) for name in ("grpc-previous-rpc-attempts", "x-fail"))
        # One write for each line, so that lines of concurrent calls do not mix.
        self.file.write(f"{metadata['x-call']} {before}\n")
        self.file.flush()

        def answer(request, context):
            if before < fail:
                context.abort(grpc.StatusCode.UNAVAILABLE, "this attempt fails")
            return request

        return grpc.unary_unary_rpc_method_handler(answer)


def main():
    address, path = sys.argv[1:]
    with open(path, "a", encoding="ascii") as file:
        server = grpc.server(futures.ThreadPoolExecutor(4), handlers=[Handler(file)])
        server.add_insecure_port(address)
        server.start()
        server.wait_for_termination()


main()
