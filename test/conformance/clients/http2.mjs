// What node's http2 says about an origin, as one line of JSON for each exchange.
import http2 from 'node:http2'
import crypto from 'node:crypto'

const origin = process.argv[2]
const session = http2.connect(origin, { rejectUnauthorized: false })
session.on('error', (e) => say('session', { error: e.code }))
const say = (name, what) => console.log(JSON.stringify({ name, ...what }))

function exchange(name, headers, body) {
  return new Promise((resolve) => {
    const s = session.request(headers, { endStream: body === undefined })
    const got = { interim: [] }
    const hash = crypto.createHash('sha256')
    let size = 0
    s.on('headers', (h) => got.interim.push(h[':status']))
    s.on('response', (h) => { got.status = h[':status']; got.type = h['content-type'] })
    s.on('trailers', (t) => { got.trailers = t['x-sum'] })
    s.on('data', (d) => { size += d.length; hash.update(d) })
    s.on('error', (e) => { got.error = e.code })
    s.on('close', () => {
      got.code = s.rstCode
      say(name, { ...got, size, hash: hash.digest('hex').slice(0, 16) })
      resolve()
    })
    if (body !== undefined) body(s)
  })
}

const large = Buffer.alloc(8 << 20, 'node ')
await exchange('get', { ':path': '/hello' })
await exchange('head', { ':path': '/hello', ':method': 'HEAD' })
await exchange('post', { ':path': '/echo', ':method': 'POST' }, (s) => s.end('hello from node'))
await exchange('empty post', { ':path': '/echo', ':method': 'POST', 'content-length': 0 }, (s) => s.end())
await exchange('large up', { ':path': '/echo', ':method': 'POST' }, (s) => s.end(large))
await exchange('large down', { ':path': '/big?n=8388608' })
await exchange('trailers', { ':path': '/trailers' })
await exchange('missing', { ':path': '/none' })
await exchange('early hints', { ':path': '/hints' })
await exchange('events', { ':path': '/events' })
await Promise.all(Array.from({ length: 50 }, (_, i) => new Promise((resolve) => {
  const s = session.request({ ':path': `/big?n=${1000 * i}` })
  let size = 0
  s.on('data', (d) => { size += d.length })
  s.on('close', () => { if (size !== 1000 * i) say('many', { i, size }); resolve() })
})))
// Refused before the upload is over: the answer comes whole, however the rest
// of the upload ends.
await new Promise((resolve) => {
  const s = session.request({ ':path': '/early', ':method': 'POST' })
  let status, size = 0
  s.on('response', (h) => { status = h[':status'] })
  s.on('data', (d) => { size += d.length })
  s.on('error', () => {})
  s.on('end', () => { say('early', { status, size }); s.close(); resolve() })
  s.on('close', () => resolve())
  s.write(large.subarray(0, 1 << 20))
})
// A cancelled stream leaves the others alone.
await new Promise((resolve) => {
  const s = session.request({ ':path': '/endless' })
  s.on('error', () => {})
  s.once('data', () => s.close(http2.constants.NGHTTP2_CANCEL))
  s.on('close', () => { say('cancelled', { code: s.rstCode }); resolve() })
})
await exchange('last', { ':path': '/hello' })
session.close()
