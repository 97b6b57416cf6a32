// The promises of the gateway that both SDKs are held against in the same
// words: their clients differ only in where a call is made and what it takes.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { ALICE, BOB, check } from './stage.mjs';

const SLOW = { delay: 1000 }; // long enough for a second call to come in
const header = (response, name) => response.headers.get(name);
const keyed = () => ({ headers: { 'Idempotency-Key': randomUUID() } });

// checkContract needs of an SDK:
//
//	errors               the class with its error classes
//	client(stage, key)   a client of the gateway that counts
//	api(client)          where calls are made: has create
//	params(model)        what create takes for a call of one model
//	streamParams(model)  the same, for the stream that is replayed
//	text(message)        the text of an answer
//	pieces(events)       the text of a streamed answer
//	checkStream(sse)     looks at a replayed stream
export function checkContract({ errors, client, api, params, streamParams, text, pieces, checkStream }) {
  const create = (c, model, options) => api(c).create(params(model), options);
  const raw = async (c, model, options) => {
    const response = await create(c, model, options).asResponse();
    return { headers: response.headers, text: await response.text() };
  };
  const stream = async (c, model, events, options) => {
    for await (const event of await api(c).create({ ...params(model), stream: true }, options)) events.push(event);
    return events;
  };
  const outcomes = (...answers) => new Set(answers.map((answer) => header(answer, 'oncegate-outcome')));
  const rejects = async (call, kind, status) => {
    let caught;
    await assert.rejects(call, (error) => (caught = error) instanceof kind);
    if (status) assert.equal(caught.status, status);
    return caught;
  };

  check('2 two 503 are hidden', async (stage) => {
    const model = await stage.model({ status: 503 }, { status: 503 }, {});
    assert.match(text(await create(client(stage, ALICE), model)), /and done\.$/);
    stage.assertSent(1);
    await stage.assertCalls(model, 3);
  });

  check('2 503 for ever is asked once', async (stage) => {
    const model = await stage.model({ status: 503 });
    const error = await rejects(create(client(stage, ALICE), model), errors.APIError, 503);
    assert.match(error.message, /scripted 503/);
    assert.equal(header(error, 'x-should-retry'), 'false');
    assert.equal(header(error, 'oncegate-outcome'), 'failed');
    stage.assertSent(1);
    await stage.assertCalls(model, 3);
  });

  check('refusals of the upstream come as they are', async (stage) => {
    const model = await stage.ourModel({ status: 400 });
    const error = await rejects(create(client(stage, ALICE), model), errors.BadRequestError, 400);
    assert.match(error.message, /scripted 400, call 1/);
    assert.equal(error.requestID, `req-${model}-1`);
    stage.assertSent(1);
    await stage.assertCalls(model, 1);
  });

  check('an unknown key is refused', async (stage) => {
    const model = await stage.model();
    await rejects(create(client(stage, 'ogk_unknown'), model), errors.AuthenticationError, 401);
    stage.assertSent(1);
    await stage.assertCalls(model, 0);
  });

  check('3 keyed calls at once and later', async (stage) => {
    const [model, key, c] = [await stage.model(SLOW), keyed(), client(stage, ALICE)];
    const [one, two] = await Promise.all([raw(c, model, key), raw(c, model, key)]);
    assert.equal(one.text, two.text);
    assert.deepEqual(outcomes(one, two), new Set(['executed', 'coalesced']));
    const later = await raw(c, model, key);
    assert.equal(later.text, one.text);
    assert.equal(header(later, 'oncegate-outcome'), 'replayed');
    assert.equal(header(later, 'idempotent-replayed'), 'true');
    stage.assertSent(3);
    await stage.assertCalls(model, 1);
  });

  check('3 a key with another body', async (stage) => {
    const [model, key, c] = [await stage.model(), keyed(), client(stage, ALICE)];
    await create(c, model, key);
    const other = api(c).create({ ...params(model), temperature: 0.25 }, key);
    const error = await rejects(other, errors.UnprocessableEntityError, 422);
    assert.equal(header(error, 'oncegate-reason'), 'key_reused');
    stage.assertSent(2);
    await stage.assertCalls(model, 1);
  });

  check('4 a retry after a time-out joins', async (stage) => {
    const model = await stage.model({ delay: 2500 }, {});
    const answer = await create(client(stage, ALICE), model, { timeout: 1000 });
    assert.match(text(answer), /and done\.$/);
    assert.ok(stage.sent >= 2);
    await stage.assertCalls(model, 1);
  });

  check('5 twins share one call', async (stage) => {
    const [model, c] = [await stage.model(SLOW), client(stage, ALICE)];
    const [one, two] = await Promise.all([raw(c, model), raw(c, model)]);
    assert.equal(one.text, two.text);
    assert.deepEqual(outcomes(one, two), new Set(['executed', 'coalesced']));
    stage.assertSent(2);
    await stage.assertCalls(model, 1);
  });

  check('5 two clients share nothing', async (stage) => {
    const model = await stage.model(SLOW);
    const [one, two] = await Promise.all([raw(client(stage, ALICE), model), raw(client(stage, BOB), model)]);
    assert.notEqual(one.text, two.text);
    stage.assertSent(2);
    await stage.assertCalls(model, 2);
  });

  check('5 a delivered answer is not repeated', async (stage) => {
    const [model, c] = [await stage.model(), client(stage, ALICE)];
    assert.notEqual((await raw(c, model)).text, (await raw(c, model)).text);
    stage.assertSent(2);
    await stage.assertCalls(model, 2);
  });

  check('a marked retry is replayed', async (stage) => {
    const [model, c] = [await stage.model(), client(stage, ALICE)];
    const first = await raw(c, model);
    const again = await raw(c, model, { headers: { 'Oncegate-Retry': '1' } });
    assert.equal(again.text, first.text);
    assert.equal(header(again, 'oncegate-reason'), 'retry_marked');
    await stage.assertCalls(model, 1);
  });

  check('nothing of the client reaches the upstream', async (stage) => {
    const model = await stage.ourModel();
    const headers = { 'Idempotency-Key': 'k-1', 'Oncegate-User': 'u', Cookie: 'c=1', 'X-Team': 'blue' };
    await create(client(stage, ALICE), model, { headers });
    const [call] = await stage.calls(model);
    assert.deepEqual(call.header['X-Team'], ['blue']);
    const private_ = /^(oncegate-|x-stainless-|idempotency-key|cookie|openai-organization|x-forwarded-)/i;
    assert.deepEqual(Object.keys(call.header).filter((name) => private_.test(name)), []);
    assert.ok(!JSON.stringify(call).includes(ALICE));
  });

  const streamBeforeFirstEvent = (place, model) =>
    check(`6 a stream reset before its ${place}`, async (stage) => {
      const m = await model(stage);
      assert.match(pieces(await stream(client(stage, ALICE), m, [])), /and done\.$/);
      stage.assertSent(1);
      await stage.assertCalls(m, 2);
    });
  streamBeforeFirstEvent('status', (stage) => stage.model({ break: 'connection' }, {}));
  streamBeforeFirstEvent('first event', (stage) => stage.ourModel({ break: 'headers' }, {}));

  // A cut stream raises after what came; it isn't kept, so its key runs again.
  const cutStream = (name, model) =>
    check(`6 a stream ${name}`, async (stage) => {
      const [m, key, events] = [await model(stage), keyed(), []];
      const c = client(stage, ALICE);
      await rejects(stream(c, m, events, key), errors.APIError);
      assert.match(pieces(events), /^To /);
      stage.assertSent(1);
      await stage.assertCalls(m, 1);
      assert.match(pieces(await stream(c, m, [], key)), /and done\.$/);
      await stage.assertCalls(m, 2);
    });
  cutStream('that ends without a finish', (stage) => stage.ourModel({ break: 'end', events: 7 }, {}));
  cutStream('reset in its middle', (stage) => stage.model({ break: 'reset', events: 7 }, {}));

  check('7 a keyed stream is replayed', async (stage) => {
    const [model, key, c] = [await stage.model(), keyed(), client(stage, ALICE)];
    const ask = async () => {
      const response = await api(c).create({ ...streamParams(model), stream: true }, key).asResponse();
      return { headers: response.headers, text: await response.text() };
    };
    const [first, again] = [await ask(), await ask()];
    assert.equal(again.text, first.text);
    assert.equal(header(again, 'idempotent-replayed'), 'true');
    stage.assertSent(2);
    await stage.assertCalls(model, 1);
    checkStream(first.text);
  });
}
