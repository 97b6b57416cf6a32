// The real openai package against the gateway.

import assert from 'node:assert/strict';
import { checkContract } from './contract.mjs';
import { ALICE, check, GATEWAY, SDK, UPSTREAM, UPSTREAM_KEY, version } from './stage.mjs';

const { OpenAI, toFile } = await import(SDK);
version(SDK);

const messages = [{ role: 'user', content: 'say it' }];
const file = () => toFile(Uint8Array.from({ length: 2052 }, (_, i) => i), 'tone.wav', { type: 'audio/wav' });
const collect = async (events) => {
  const all = [];
  // A chunk's null usage says that its stream was asked for usage: by us, or for the gateway's account.
  for await (const event of await events) all.push(event.usage === null ? { ...event, usage: undefined } : event);
  return JSON.parse(JSON.stringify(all));
};

// What a client gets of every operation, asked as its users ask.
const operations = {
  chat: (c, model) => c.chat.completions.create({ model, messages }),
  'chat stream': (c, model) => collect(c.chat.completions.create({ model, messages, stream: true })),
  'chat stream with usage': (c, model) =>
    collect(c.chat.completions.create({ model, messages, stream: true, stream_options: { include_usage: true } })),
  completions: (c, model) => c.completions.create({ model, prompt: 'say it' }),
  'completions stream': (c, model) => collect(c.completions.create({ model, prompt: 'say it', stream: true })),
  responses: (c, model) => c.responses.create({ model, input: 'say it' }),
  'responses stream': (c, model) => collect(c.responses.create({ model, input: 'say it', stream: true })),
  embeddings: (c, model) => c.embeddings.create({ model, input: ['one', 'two'] }),
  'embeddings as numbers': (c, model) =>
    c.embeddings.create({ model, input: ['one', 'two'], encoding_format: 'float' }),
  moderations: (c, model) => c.moderations.create({ model, input: 'say it' }),
  images: (c, model) => c.images.generate({ model, prompt: 'a fox' }),
  speech: async (c, model) =>
    Buffer.from(await (await c.audio.speech.create({ model, voice: 'alloy', input: 'say it' })).arrayBuffer()),
  transcriptions: async (c, model) => c.audio.transcriptions.create({ model, file: await file() }),
  'transcriptions as text': async (c, model) =>
    c.audio.transcriptions.create({ model, file: await file(), response_format: 'text' }),
  'transcriptions stream': async (c, model) =>
    collect(c.audio.transcriptions.create({ model, file: await file(), stream: true })),
};

const client = (stage, apiKey) => new OpenAI({ baseURL: `${GATEWAY}/v1`, apiKey, fetch: stage.fetch });

for (const [name, operation] of Object.entries(operations)) {
  check(`1 same as direct: ${name}`, async (stage) => {
    const model = await stage.ourModel();
    const direct = await operation(new OpenAI({ baseURL: `${UPSTREAM}/v1`, apiKey: UPSTREAM_KEY }), model);
    const [asked] = await stage.calls(model);
    await stage.script(model);
    assert.deepEqual(await operation(client(stage, ALICE), model), direct);
    stage.assertSent(1);
    const [through, ...more] = await stage.calls(model);
    assert.equal(more.length, 0);
    assert.equal(through.path, asked.path);
    if (asked.body.startsWith('--')) return; // multipart: each try has a boundary of its own
    if (through.body !== asked.body) {
      const body = JSON.parse(asked.body); // the one edit that is allowed
      assert.ok(body.stream && !('stream_options' in body));
      assert.deepEqual(JSON.parse(through.body), { ...body, stream_options: { include_usage: true } });
    }
  });
}

checkContract({
  errors: OpenAI,
  client,
  api: (c) => c.chat.completions,
  params: (model) => ({ model, messages }),
  streamParams: (model) => ({ model, messages, stream_options: { include_usage: true } }),
  text: (message) => message.choices[0].message.content,
  pieces: (events) => events.map((event) => event.choices[0]?.delta.content ?? '').join(''),
  checkStream: (sse) => {
    assert.ok(sse.endsWith('\n\ndata: [DONE]\n\n'));
    const chunks = sse.split('\n\n').slice(0, -2).map((line) => JSON.parse(line.slice('data: '.length)));
    assert.equal(new Set(chunks.map((chunk) => chunk.id)).size, 1);
    assert.deepEqual(chunks.at(-1).choices, []);
    assert.equal(chunks.at(-1).usage.total_tokens, 18);
  },
});

check('models', async () => {
  const c = new OpenAI({ baseURL: `${GATEWAY}/v1`, apiKey: ALICE });
  const ids = [];
  for await (const model of c.models.list()) ids.push(model.id);
  assert.ok(ids.includes('configured-model'));
  assert.equal((await c.models.retrieve('configured-model')).id, 'configured-model');
});

check('6 a response stream without its end', async (stage) => {
  const [model, events] = [await stage.ourModel({ break: 'end', events: 9 }), []];
  await assert.rejects(async () => {
    const stream = await client(stage, ALICE).responses.create({ model, input: 'say it', stream: true });
    for await (const event of stream) events.push(event);
  }, OpenAI.APIError);
  assert.equal(events[0].type, 'response.created');
  stage.assertSent(1);
  await stage.assertCalls(model, 1);
});

// Audio has no end of its own: only a broken connection tells that it isn't whole.
check('6 speech cut short is never taken for whole', async (stage) => {
  const model = await stage.ourModel({ break: 'reset', events: 2 });
  const response = await client(stage, ALICE).audio.speech.create({ model, voice: 'alloy', input: 'say it' });
  await assert.rejects(response.arrayBuffer());
  stage.assertSent(1);
  await stage.assertCalls(model, 1);
});
