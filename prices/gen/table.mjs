// Makes the built-in price table, table.json, and the cases that the tests
// check it against, testdata/genai.json, from the price list of
// @pydantic/genai-prices (MIT, see LICENSE.genai-prices). To renew it, set the
// version and the day it was published in package.json, and `go generate`.
//
// What this list has and the gateway's usage has not (document pages, video,
// citations, text messages, a least duration) would be priced wrong, so models
// with it are left out; a model listed without any price is left out, too,
// unless it says itself that it is free.
import fs from 'node:fs'
import { calcPrice, waitForUpdate } from '@pydantic/genai-prices'

const own = JSON.parse(fs.readFileSync('package.json', 'utf8'))
const installed = JSON.parse(fs.readFileSync('node_modules/@pydantic/genai-prices/package.json', 'utf8'))
const version = own.dependencies['@pydantic/genai-prices']
if (installed.version !== version) throw new Error(`installed is ${installed.version}, wanted ${version}`)

const names = {
  input_mtok: 'input', cache_read_mtok: 'cached_input', cache_write_mtok: 'cache_write_5m', cache_write_1h_mtok: 'cache_write_1h',
  input_audio_mtok: 'input_audio', input_image_mtok: 'input_image',
  output_mtok: 'output', output_reasoning_mtok: 'reasoning', output_audio_mtok: 'output_audio', output_image_mtok: 'output_image',
  web_searches_kcount: 'searches', requests_kcount: 'requests', audio_hours: 'audio_millis',
}
const perMillion = { web_searches_kcount: 1e3, requests_kcount: 1e3, audio_hours: 1 / 3.6 }
// Prices of what no answer's usage tells, and no answer is charged for unasked.
const untold = new Set(['input_audio_hours', 'cache_audio_read_mtok', 'cache_image_read_mtok', 'storage_searches_kcount'])
const leastDuration = new Set(['whisper-large-v3', 'whisper-large-v3-turbo'])

const text = (n) => Number(n.toPrecision(12)).toFixed(12).replace(/\.?0+$/, '')

// steps of one price: the rates of all of the input up to a size, then those above it.
function steps(prices) {
  const starts = new Set([0])
  for (const p of Object.values(prices)) for (const t of p.tiers ?? []) starts.add(t.start)
  return [...starts].sort((a, b) => a - b).map((above) => {
    const step = above ? { above } : {}
    for (const [key, p] of Object.entries(prices)) {
      if (untold.has(key)) continue
      if (!names[key]) return undefined
      let price = p.base ?? p
      for (const t of p.tiers ?? []) if (t.start <= above) price = t.price
      step[names[key]] = text(price * (perMillion[key] ?? 1))
    }
    return step
  })
}

// priced lists what holds, the first without a condition. What was over when
// the list was published is left out.
function priced(model, vendor) {
  let list = Array.isArray(model.prices) ? model.prices : [{ prices: model.prices }]
  const last = list.findLastIndex((p) => !p.constraint || (p.constraint.type === 'start_date' && p.constraint.start_date <= own.published))
  list = list.slice(Math.max(last, 0))
  const out = []
  for (const { constraint, prices } of list) {
    if (Object.keys(prices).length === 0) {
      const free = model.id.endsWith(':free') || (vendor.id === 'openai' && model.id === 'moderation')
      if (!free) return undefined
      out.push({ input: '0', output: '0' })
      continue
    }
    const s = steps(prices)
    if (s.includes(undefined) || !s[0].input && !s[0].audio_millis) return undefined
    const when = {}
    if (out.length && constraint.type === 'start_date') when.from = constraint.start_date
    if (out.length && constraint.type === 'time_of_date') {
      when.hours = `${clock(constraint.start_time)}-${clock(constraint.end_time)}`
      // The list has no words for it, and says so: these hours count on working days, which are the same in Beijing then.
      if (model.price_comments?.includes('bills off-peak all day at weekends')) when.weekdays = true
    }
    for (const step of s) out.push({ ...when, ...step })
  }
  return out
}

function clock(time) {
  if (!/^\d\d:\d\d:00Z$/.test(time)) throw new Error(`a time of day that is not read: ${time}`)
  return time.slice(0, 5)
}

// The one pattern that Go's regexp has no words for.
const noSpeech = '^(?!.*-[tT][tT][sS](?:$|-))'

function match(m) {
  const [[kind, arg]] = Object.entries(m)
  switch (kind) {
    case 'or': return arg.flatMap(match)
    case 'and': return [arg.map((x) => match(x)).flat()]
    case 'equals': return [`=${arg.toLowerCase()}`]
    case 'starts_with': return [`^${arg.toLowerCase()}`]
    case 'ends_with': return [`$${arg.toLowerCase()}`]
    case 'contains': return [`*${arg.toLowerCase()}`]
    case 'regex':
      if (arg === noSpeech) return ['!-tts(?:$|-)']
      if (arg.includes('(?')) throw new Error(`a pattern that is not read: ${arg}`)
      return [`~${arg}`]
  }
  throw new Error(`a rule that is not read: ${kind}`)
}

const vendors = await waitForUpdate()
const lines = []
let models = 0
const left = []
for (const v of vendors) {
  if (/\(\?[=!<]/.test(v.api_pattern)) throw new Error(`a pattern that is not read: ${v.api_pattern}`)
  const rows = []
  for (const m of v.models) {
    const p = leastDuration.has(m.id) && v.id === 'groq' ? undefined : priced(m, v)
    // A model left out still takes its names: no later rule must match them.
    rows.push(`  {"match":${JSON.stringify(match(m.match))}${p ? `,"prices":${JSON.stringify(p)}` : ''}}`)
    if (p) models++
    else left.push(`${v.id}/${m.id}`)
  }
  const head = { id: v.id, url: v.api_pattern, ...(v.fallback_model_providers && { fallback: v.fallback_model_providers }) }
  lines.push(`${JSON.stringify(head).slice(0, -1)},"models":[\n${rows.join(',\n')}\n ]}`)
}
const source = `@pydantic/genai-prices ${version}`
const notice = fs.readFileSync('node_modules/@pydantic/genai-prices/LICENSE', 'utf8') // goes wherever the table goes
fs.writeFileSync('../table.json', `{"source":"${source}","date":"${own.published}","notice":${JSON.stringify(notice)},"vendors":[\n ${lines.join(',\n ')}\n]}\n`)
fs.writeFileSync('../LICENSE.genai-prices', notice)
console.log(`${models} models of ${vendors.length} vendors; left out: ${left.length}`)
console.log(left.filter((n) => !n.startsWith('openrouter/')).join(' '))

// Cases: what the list's own code makes of a usage, for the test to compare.
let seed = 1
const random = (n) => { seed = (seed * 1103515245 + 12345) % 2147483648; return seed % n }
const cases = []
const moments = ['2026-10-05T12:00:00Z', '2026-10-05T02:30:00Z', '2026-12-31T23:59:59Z', '2027-01-01T00:00:00Z', '2027-03-01T07:00:00Z']
function add(vendor, model, usage, at) {
  const r = calcPrice(usage, model, { providerId: vendor.id, timestamp: new Date(at) })
  if (r) cases.push({ vendor: vendor.id, model, at, usage, usd: r.total_price, found: r.model.id })
}
const plain = (m) => [m].flat(Infinity).flatMap((r) => Object.entries(r)).flatMap(([k, v]) => (k === 'or' ? v.flatMap(plain) : k === 'equals' || k === 'starts_with' ? [v] : []))
for (const v of vendors) {
  for (const m of v.models) {
    const dated = Array.isArray(m.prices) || JSON.stringify(m.prices).includes('tiers')
    if (!dated && random(6) > 0) continue
    const [id] = plain(m.match)
    if (!id) continue
    const list = Array.isArray(m.prices) ? m.prices.flatMap((p) => Object.keys(p.prices)) : Object.keys(m.prices)
    for (const input of dated ? [1000, 200000, 200001, 272000, 900000] : [1 + random(5000)]) {
      const usage = { input_tokens: input }
      if (list.includes('output_mtok')) usage.output_tokens = random(3000)
      if (list.includes('cache_read_mtok') && random(2)) usage.cache_read_tokens = random(input)
      else if (list.includes('cache_write_1h_mtok') && random(2)) {
        usage.cache_write_1h_tokens = random(input >> 1)
        usage.cache_write_tokens = usage.cache_write_1h_tokens + random(input >> 1)
      } else if (list.includes('cache_write_mtok') && random(2)) usage.cache_write_tokens = random(input)
      if (list.includes('output_reasoning_mtok')) usage.output_reasoning_tokens = random(usage.output_tokens + 1)
      if (list.includes('web_searches_kcount') && random(2)) usage.web_searches = random(5)
      if (list.includes('input_audio_mtok') && !usage.cache_read_tokens && !usage.cache_write_tokens && random(2)) usage.input_audio_tokens = random(input)
      if (list.includes('audio_hours')) { usage.audio_seconds = 10 + random(4000); delete usage.input_tokens }
      for (const at of Array.isArray(m.prices) ? moments : [moments[0]]) add(v, id, usage, at)
    }
  }
}
fs.writeFileSync('../testdata/genai.json', `[\n${cases.map((c) => JSON.stringify(c)).join(',\n')}\n]\n`)
console.log(`${cases.length} cases`)
