// What @grpc/grpc-js says about a TestService that echoes, without generated
// code: a payload is what its bytes are.
const grpc = require('@grpc/grpc-js')
const same = (b) => b
const client = new grpc.Client(process.argv[2], grpc.credentials.createInsecure())
const say = (name, what) => console.log(JSON.stringify({ name, ...what }))
const path = (method) => `/grpc.testing.TestService/${method}`
// SimpleRequest{payload: {body}} and StreamingOutputCallRequest likewise: field 3, then field 2.
const varint = (n) => { const b = []; for (; n > 127; n >>>= 7) b.push(n & 127 | 128); b.push(n); return Buffer.from(b) }
const field = (n, b) => Buffer.concat([Buffer.from([n << 3 | 2]), varint(b.length), b])
const message = (size) => field(3, field(2, Buffer.alloc(size, 'x')))

const unary = (name, method, m, options = {}) => new Promise((resolve) => {
  client.makeUnaryRequest(path(method), same, same, m, new grpc.Metadata(), options, (err, reply) => {
    say(name, { code: err ? err.code : 0, size: reply ? reply.length : 0 })
    resolve()
  })
})
const bidi = (name, sizes, cancelAfter) => new Promise((resolve) => {
  const call = client.makeBidiStreamRequest(path('FullDuplexCall'), same, same, new grpc.Metadata())
  let n = 0, size = 0
  call.on('data', (d) => { n++; size += d.length; if (n === cancelAfter) call.cancel() })
  call.on('error', () => {})
  call.on('status', (s) => { say(name, { code: s.code, n, size }); resolve() })
  for (const s of sizes) call.write(message(s))
  if (!cancelAfter) call.end()
})
async function main() {
  await unary('unary', 'UnaryCall', message(100))
  await unary('large', 'UnaryCall', message(1 << 20))
  await unary('unknown method', 'UnimplementedCall', Buffer.alloc(0))
  await bidi('streaming', [1, 10, 100, 1000, 100000])
  await bidi('cancelled', [10], 1)
  await Promise.all(Array.from({ length: 30 }, () => unary('many', 'UnaryCall', message(1000))))
  client.close()
}
main()
