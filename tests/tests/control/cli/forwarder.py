# The part of a kubelet that forwards ports: a server of the WebSocket protocol v4.channel.k8s.io. It forwards each port of every
# Pod to the same port of this machine. Like a real kubelet, it keeps the WebSocket connection after the Pod's side has ended.
#
#   forwarder.py CERTIFICATE KEY        prints its port
import base64, hashlib, re, socket, ssl, struct, sys, threading
certificate, key = sys.argv[1:]

def exactly(stream, count):
    data = b''
    while len(data) < count:
        more = stream.recv(count - len(data))
        if not more: raise EOFError
        data += more
    return data

def send(stream, lock, channel, data):
    payload = bytes([channel]) + data
    length = bytes([len(payload)]) if len(payload) < 126 else b'\x7e' + struct.pack('>H', len(payload))
    with lock: stream.sendall(b'\x82' + length + payload)

def serve(stream):
    head = b''
    while not head.endswith(b'\r\n\r\n'): head += exactly(stream, 1)
    port = int(re.search(rb'port=(\d+)', head).group(1))
    nonce = re.search(rb'(?i)sec-websocket-key: (\S+)', head).group(1)
    accept = base64.b64encode(hashlib.sha1(nonce + b'258EAFA5-E914-47DA-95CA-C5AB0DC85B11').digest())
    stream.sendall(b'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n'
        b'Sec-WebSocket-Accept: ' + accept + b'\r\nSec-WebSocket-Protocol: v4.channel.k8s.io\r\n\r\n')
    lock = threading.Lock()
    for channel in (0, 1): send(stream, lock, channel, struct.pack('<H', port))
    try: pod = socket.create_connection(('127.0.0.1', port))
    except OSError as error:
        send(stream, lock, 1, f'nobody listens on port {port}: {error}'.encode())
        while stream.recv(4096): pass
        return
    def back():
        while data := pod.recv(30000): send(stream, lock, 0, data)
    threading.Thread(target=back, daemon=True).start()
    while True:
        first, second = exactly(stream, 2)
        length = second & 127
        if length == 126: length = struct.unpack('>H', exactly(stream, 2))[0]
        mask = exactly(stream, 4)
        data = bytes(byte ^ mask[at % 4] for at, byte in enumerate(exactly(stream, length)))
        if first & 15 == 8: return
        if first & 15 == 2 and data[0] == 0: pod.sendall(data[1:])

def answer(raw):
    try:
        with context.wrap_socket(raw, server_side=True) as stream: serve(stream)
    except (EOFError, OSError): pass

context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
server = socket.create_server(('127.0.0.1', 0))
print(server.getsockname()[1], flush=True)
while True: threading.Thread(target=answer, args=(server.accept()[0],), daemon=True).start()
