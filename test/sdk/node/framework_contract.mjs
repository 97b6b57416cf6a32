// The promises of the gateway to frameworks, which hide what a call was made
// of: they are held against what came out and what both ends counted.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { AIMOCK, ALICE, BOB, check, GATEWAY, UPSTREAM, UPSTREAM_KEY } from './stage.mjs';

const SLOW = { delay: 1000 }; // long enough for a second call to come in

// through has what a framework needs to call the gateway, as ask and stream take it:
// url (without /v1), apiKey, fetch, model, and of one call prompt, headers,
// retries, timeout in ms.
export const through = (stage, model, call = {}) => ({
  url: GATEWAY, apiKey: ALICE, fetch: stage.fetch, model, prompt: 'say it', ...call,
});
const direct = (model, url) => ({ url, apiKey: UPSTREAM_KEY, fetch, model, prompt: 'say it' });
const keyed = () => ({ headers: { 'Idempotency-Key': randomUUID() } });
const outcome = (answer) => answer.headers.get('oncegate-outcome');
const reason = (answer) => answer.headers.get('oncegate-reason');

// sameAsDirect is group 1: each operation of a framework gives what it gives
// without a gateway. Those that aimock doesn't play are named in ours.
export function sameAsDirect(operations, ours = []) {
  for (const [name, operation] of Object.entries(operations)) {
    check(`1 same as direct: ${name}`, async (stage) => {
      const own = ours.includes(name);
      const model = own ? await stage.ourModel() : await stage.model();
      const want = await operation(direct(model, own ? UPSTREAM : AIMOCK));
      const [asked] = await stage.calls(model);
      await stage.script(model);
      const have = await operation(through(stage, model));
      assert.ok(JSON.stringify(want).length > 10, `direct gave ${JSON.stringify(want)}`);
      assert.deepEqual(have, want);
      stage.assertSent(1);
      await stage.assertCalls(model, 1);
      assert.equal((await stage.calls(model))[0].path, asked.path);
    });
  }
}

// byEnvironment: the variables that vendors document are enough; ask makes a client without options.
export function byEnvironment(variables, ask) {
  check('1 by the environment', async (stage) => {
    const model = await stage.model();
    Object.assign(process.env, variables);
    assert.match(await ask(model), /and done\.$/);
    for (const name of Object.keys(variables)) delete process.env[name];
    stage.sent++; // there was no fetch to count by
    await stage.assertCalls(model, 1);
  });
}

export const openaiVariables = { OPENAI_BASE_URL: `${GATEWAY}/v1`, OPENAI_API_KEY: ALICE };
export const anthropicVariables = { ANTHROPIC_BASE_URL: `${GATEWAY}/v1`, ANTHROPIC_API_KEY: ALICE };

// checkCalls is groups 2 to 5.
//
//	ask(options)  the text of an answer
//	obeys         whether the framework takes x-should-retry for an answer
//	timesOut      whether it has a time-out of its own, after which it asks again
export function checkCalls(api, { ask, obeys, timesOut }) {
  check(`2 ${api}: two 503 are hidden`, async (stage) => {
    const model = await stage.model({ status: 503 }, { status: 503 }, {});
    assert.match(await ask(through(stage, model)), /and done\.$/);
    stage.assertSent(1);
    await stage.assertCalls(model, 3);
  });

  // Who doesn't obey x-should-retry meets the failure again, which is remembered.
  check(`2 ${api}: 503 for ever`, async (stage) => {
    const model = await stage.model({ status: 503 });
    const asks = obeys ? [{}] : [{ retries: 0 }, { retries: 0 }];
    for (const call of asks) await assert.rejects(ask(through(stage, model, call)), /scripted 503/);
    for (const answer of stage.answers) assert.equal(answer.headers.get('x-should-retry'), 'false');
    assert.equal(reason(stage.answers.at(-1)), obeys ? 'attempts_exhausted' : 'failure_memo');
    stage.assertSent(asks.length);
    await stage.assertCalls(model, 3);
  });

  check(`3 ${api}: keyed calls at once and later`, async (stage) => {
    const [model, key] = [await stage.model(SLOW), keyed()];
    const [one, two] = await Promise.all([ask(through(stage, model, key)), ask(through(stage, model, key))]);
    assert.equal(one, two);
    assert.equal(await ask(through(stage, model, key)), one);
    assert.deepEqual(stage.answers.map(outcome).sort(), ['coalesced', 'executed', 'replayed']);
    const bodies = await Promise.all(stage.answers.map((answer) => answer.text));
    assert.equal(new Set(bodies).size, 1, `three bodies to one key: ${bodies.join('\n')}`);
    stage.assertSent(3);
    await stage.assertCalls(model, 1);
  });

  check(`3 ${api}: a key with another body`, async (stage) => {
    const [model, key] = [await stage.model(), keyed()];
    await ask(through(stage, model, key));
    const other = { ...key, prompt: 'say that' };
    await assert.rejects(ask(through(stage, model, obeys ? other : { ...other, retries: 0 })));
    assert.equal(reason(stage.answers.at(-1)), 'key_reused');
    stage.assertSent(2);
    await stage.assertCalls(model, 1);
  });

  if (timesOut) {
    check(`4 ${api}: a retry after a time-out joins`, async (stage) => {
      const model = await stage.model({ delay: 2500 }, {});
      assert.match(await ask(through(stage, model, { timeout: 1000 })), /and done\.$/);
      assert.ok(stage.sent >= 2, `the SDK sent ${stage.sent} requests, want a retry`);
      await stage.assertCalls(model, 1);
    });
  } else {
    check(`4 ${api}: the same call after one that was given up`, async (stage) => {
      const model = await stage.model({ delay: 1000 }, {});
      await assert.rejects(ask(through(stage, model, { timeout: 300 })));
      await new Promise((resolve) => setTimeout(resolve, 2000)); // what the caller waits
      assert.match(await ask(through(stage, model)), /and done\.$/);
      stage.assertSent(2);
      await stage.assertCalls(model, 1);
    });
  }

  check(`5 ${api}: twins share one call`, async (stage) => {
    const model = await stage.model(SLOW);
    const [one, two] = await Promise.all([ask(through(stage, model)), ask(through(stage, model))]);
    assert.equal(one, two);
    assert.deepEqual(stage.answers.map(outcome).sort(), ['coalesced', 'executed']);
    stage.assertSent(2);
    await stage.assertCalls(model, 1);
  });

  check(`5 ${api}: two clients share nothing`, async (stage) => {
    const model = await stage.model(SLOW);
    const [one, two] = await Promise.all([ask(through(stage, model)), ask(through(stage, model, { apiKey: BOB }))]);
    assert.notEqual(one, two);
    stage.assertSent(2);
    await stage.assertCalls(model, 2);
  });

  check(`5 ${api}: a delivered answer is not repeated`, async (stage) => {
    const model = await stage.model();
    assert.notEqual(await ask(through(stage, model)), await ask(through(stage, model)));
    stage.assertSent(2);
    await stage.assertCalls(model, 2);
  });
}

// checkStreams is groups 6 and 7.
//
//	stream(options, pieces)  pushes the pieces of text as they come
//	whole(sse)               looks at a stream as it came from the gateway
export function checkStreams(api, { stream, whole }) {
  const streamed = async (options) => {
    const pieces = [];
    await stream(options, pieces);
    return pieces;
  };

  const beforeFirstEvent = (place, model) =>
    check(`6 ${api}: a stream reset before its ${place}`, async (stage) => {
      const m = await model(stage);
      assert.match((await streamed(through(stage, m))).join(''), /and done\.$/);
      stage.assertSent(1);
      await stage.assertCalls(m, 2);
    });
  beforeFirstEvent('status', (stage) => stage.model({ break: 'connection' }, {}));
  beforeFirstEvent('first event', (stage) => stage.ourModel({ break: 'headers' }, {}));

  // A cut stream raises after what came; it isn't kept, so its key runs again.
  const cut = (name, model) =>
    check(`6 ${api}: a stream ${name}`, async (stage) => {
      const [m, key, pieces] = [await model(stage), keyed(), []];
      await assert.rejects(stream(through(stage, m, key), pieces));
      assert.match(pieces.join(''), /^To /);
      assert.doesNotMatch(pieces.join(''), /and done\.$/);
      stage.assertSent(1);
      await stage.assertCalls(m, 1);
      assert.match((await streamed(through(stage, m, key))).join(''), /and done\.$/);
      await stage.assertCalls(m, 2);
    });
  cut('that ends without a finish', (stage) => stage.ourModel({ break: 'end', events: 8 }, {}));
  cut('reset in its middle', (stage) => stage.model({ break: 'reset', events: 8 }, {}));

  check(`7 ${api}: a keyed stream is replayed`, async (stage) => {
    const [model, key] = [await stage.model(), keyed()];
    const [first, again] = [await streamed(through(stage, model, key)), await streamed(through(stage, model, key))];
    assert.ok(first.length > 5, `${first.length} pieces came`);
    assert.deepEqual(again, first);
    const [one, two] = await Promise.all(stage.answers.map((answer) => answer.text));
    assert.equal(two, one);
    whole(two);
    assert.equal(stage.answers[1].headers.get('idempotent-replayed'), 'true');
    stage.assertSent(2);
    await stage.assertCalls(model, 1);
  });
}

// checkWrites is group 8.
//
//	work(options, tool)  the text that an agent with the tool pay ends with; its model is asked in streams
//	pay                  that tool, as the README has it: its key is the id of the tool call
//	payByFields          the same without a key, at a tool whose key_fields are ref and amount
export function checkWrites(api, { work, pay, payByFields }) {
  const again = { headers: { 'Oncegate-Retry': '1' } };
  const paying = (ref) => ({ tool: 'pay', arguments: { ref, amount: 5 } });

  // The model's second answer breaks after the tool ran, so the caller runs all of it again.
  check(`8 ${api}: a run that failed after its write, run again`, async (stage) => {
    const ref = await stage.ourModel();
    const model = await stage.model(paying(ref), { break: 'reset', events: 8 }, paying(ref));
    await assert.rejects(work(through(stage, model), pay));
    await stage.assertCalls(ref, 1);
    assert.match(await work(through(stage, model, again), pay), /and done\.$/);
    await stage.assertCalls(ref, 1);
    await stage.assertCalls(model, 3);
    assert.deepEqual(stage.answers.map(outcome), ['executed', 'executed', 'replayed', 'executed']);
    const [, failed, finished] = await stage.calls(model);
    assert.deepEqual(finished.body, failed.body, 'what the model was told of its tool');
    assert.match(JSON.stringify(finished.body), new RegExp(`call-${model}-1.*pay-${ref}-1`));
    assert.equal(stage.written, 2);
  });

  // The API pays, and its answer is lost: the agent is told that nobody knows, each time.
  check(`8 ${api}: a write whose answer is lost`, async (stage) => {
    const ref = await stage.ourModel({ break: 'connection' });
    const model = await stage.model(paying(ref));
    const end = await work(through(stage, model), pay);
    assert.match(end, /and done\.$/);
    assert.equal(await work(through(stage, model, again), pay), end);
    await stage.assertCalls(ref, 1);
    await stage.assertCalls(model, 2);
    assert.match(JSON.stringify((await stage.calls(model))[1].body), /idempotency_outcome_unknown/);
    assert.equal(stage.written, 2);
  });

  check(`8 ${api}: a write that the model planned anew`, async (stage) => {
    const ref = await stage.ourModel();
    const model = await stage.model(paying(ref));
    for (const _ of [1, 2]) assert.match(await work(through(stage, model), payByFields), /and done\.$/);
    await stage.assertCalls(ref, 1);
    await stage.assertCalls(model, 4);
    const [, first, , second] = (await stage.calls(model)).map(({ body }) => JSON.stringify(body));
    assert.match(first, new RegExp(`call-${model}-1.*pay-${ref}-1`));
    assert.match(second, new RegExp(`call-${model}-3.*pay-${ref}-1`));
    assert.equal(stage.written, 2);
  });
}

// payKeyless is what a tool without a key does.
export async function payKeyless(payment) {
  const response = await fetch(`${GATEWAY}/tools/orders/payments`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${ALICE}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ ...payment, said: randomUUID() }), // as a model words things differently
  });
  return response.text();
}

// What a whole stream of each API has: one id, the usage, its end.
export const wholeStream = {
  chat(sse) {
    assert.ok(sse.endsWith('\n\ndata: [DONE]\n\n'), sse);
    const chunks = sse.split('\n\n').slice(0, -2).map((line) => JSON.parse(line.slice('data: '.length)));
    assert.equal(new Set(chunks.map((chunk) => chunk.id)).size, 1);
    assert.equal(chunks.at(-1).usage.total_tokens, 18);
  },
  responses(sse) {
    const last = JSON.parse(sse.trimEnd().split('\ndata: ').at(-1));
    assert.equal(last.type, 'response.completed');
    assert.equal(last.response.usage.total_tokens, 18);
  },
  messages(sse) {
    const names = [...sse.matchAll(/^event: (.*)$/gm)].map((match) => match[1]);
    assert.equal(names[0], 'message_start');
    assert.deepEqual(names.slice(-2), ['message_delta', 'message_stop']);
    assert.match(sse, /"output_tokens":7/);
  },
};
