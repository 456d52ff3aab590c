"""What grpcio says about a TestService that echoes, without generated code."""
import json, sys, grpc

def say(name, **what):
    print(json.dumps(dict(name=name, **what)), flush=True)

def varint(n):
    b = bytearray()
    while n > 127:
        b.append(n & 127 | 128)
        n >>= 7
    b.append(n)
    return bytes(b)

def field(n, b):
    return bytes([n << 3 | 2]) + varint(len(b)) + b

def message(size):  # {payload: {body}}
    return field(3, field(2, b"x" * size))

channel = grpc.insecure_channel(sys.argv[1])
path = "/grpc.testing.TestService/"

def unary(name, method, m):
    try:
        reply = channel.unary_unary(path + method)(m, timeout=20)
        say(name, code=0, size=len(reply))
    except grpc.RpcError as e:
        say(name, code=e.code().value[0], size=0)

def bidi(name, sizes, cancel_after=0):
    call = channel.stream_stream(path + "FullDuplexCall")(iter([message(s) for s in sizes]), timeout=20)
    n = size = 0
    try:
        for reply in call:
            n += 1
            size += len(reply)
            if n == cancel_after:
                call.cancel()
    except grpc.RpcError:
        pass
    say(name, code=call.code().value[0], n=n, size=size)

unary("unary", "UnaryCall", message(100))
unary("large", "UnaryCall", message(1 << 20))
unary("unknown method", "UnimplementedCall", b"")
bidi("streaming", [1, 10, 100, 1000, 100000])
bidi("cancelled", [10, 20, 30], 1)
for f in [channel.unary_unary(path + "UnaryCall").future(message(1000)) for _ in range(30)]:
    say("many", code=0, size=len(f.result()))
