// What openai and eventsource-parser read of an event stream, without comments.
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
const resolve = (name) => createRequire(import.meta.url).resolve(name, { paths: ['clients', ...(process.env.NODE_PATH || '').split(':')] })
const { OpenAI } = await import(pathToFileURL(resolve('openai')))
const { createParser } = await import(pathToFileURL(resolve('eventsource-parser')))

const say = (name, what) => console.log(JSON.stringify({ name, ...what }))
const base = process.argv[2]
const client = new OpenAI({ baseURL: base + '/v1', apiKey: 'none', maxRetries: 0 })
const complete = async (model) => {
  let text = ''
  try {
    const stream = await client.chat.completions.create(
      { model, stream: true, messages: [{ role: 'user', content: 'x' }] }, { headers: { Accept: 'text/event-stream' } })
    for await (const chunk of stream) text += chunk.choices[0].delta.content
    say(model, { text })
  } catch (e) {
    say(model, { text, error: e.constructor.name, code: e.code, type: e.type, message: e.message })
  }
}
await complete('slow')

const events = []
const parser = createParser({ onEvent: (e) => events.push(e), onError: (e) => events.push(String(e)) })
const response = await fetch(base + '/slow', { headers: { Accept: 'text/event-stream' } })
let raw = ''
for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
  raw += piece
  parser.feed(piece)
}
say('parser', { status: response.status, type: response.headers.get('content-type').split(';')[0], events, raw: raw.replaceAll(': queuegate waiting\n\n', '') })
if (process.argv[3] === 'failing') {
  await complete('failing')
  say('comments', { any: raw.startsWith(': queuegate waiting\n\n') })
}
