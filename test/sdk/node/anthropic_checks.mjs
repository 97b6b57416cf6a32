// The real @anthropic-ai/sdk package against the gateway.

import assert from 'node:assert/strict';
import { checkContract } from './contract.mjs';
import { ALICE, check, GATEWAY, SDK, UPSTREAM, UPSTREAM_KEY, version } from './stage.mjs';

const { default: Anthropic } = await import(SDK);
version(SDK);

const messages = [{ role: 'user', content: 'say it' }];
const ask = (model) => ({ model, max_tokens: 64, messages });

// What a client gets of every operation, asked as its users ask.
const operations = {
  messages: (c, model) => c.messages.create(ask(model)),
  'messages stream': async (c, model) => {
    const events = [];
    for await (const event of await c.messages.create({ ...ask(model), stream: true })) events.push(event);
    return events;
  },
  'messages stream helper': (c, model) => c.messages.stream(ask(model)).finalMessage(),
  'count tokens': (c, model) => c.messages.countTokens({ model, messages }),
};

const client = (stage, apiKey) => new Anthropic({ baseURL: GATEWAY, apiKey, fetch: stage.fetch });

for (const [name, operation] of Object.entries(operations)) {
  check(`1 same as direct: ${name}`, async (stage) => {
    const model = await stage.ourModel();
    const direct = await operation(new Anthropic({ baseURL: UPSTREAM, apiKey: UPSTREAM_KEY }), model);
    const [asked] = await stage.calls(model);
    await stage.script(model);
    assert.deepEqual(await operation(client(stage, ALICE), model), direct);
    stage.assertSent(1);
    const [through, ...more] = await stage.calls(model);
    assert.equal(more.length, 0);
    for (const field of ['path', 'body']) assert.equal(through[field], asked[field]);
    for (const header of ['Anthropic-Version', 'Anthropic-Beta']) {
      assert.deepEqual(through.header[header], asked.header[header]);
    }
  });
}

checkContract({
  errors: Anthropic,
  client,
  api: (c) => c.messages,
  params: ask,
  streamParams: ask,
  text: (message) => message.content[0].text,
  pieces: (events) =>
    events.filter((event) => event.type === 'content_block_delta').map((event) => event.delta.text).join(''),
  checkStream: (sse) => {
    const names = [...sse.matchAll(/^event: (.*)$/gm)].map((match) => match[1]);
    assert.equal(names[0], 'message_start');
    assert.deepEqual(names.slice(-2), ['message_delta', 'message_stop']);
    assert.match(sse, /"output_tokens":7/);
  },
});

check('2 overloaded for ever is asked once', async (stage) => {
  const model = await stage.model({ status: 529 });
  await assert.rejects(client(stage, ALICE).messages.create(ask(model)), (error) => error.status === 529);
  stage.assertSent(1);
  await stage.assertCalls(model, 3);
});
