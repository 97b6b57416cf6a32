// The real @openai/agents package against the gateway.

import assert from 'node:assert/strict';
import { Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, run, setTracingDisabled, tool } from '@openai/agents';
import { OpenAI } from 'openai';
import pay from './agents_pay.mjs';
import {
  byEnvironment, checkCalls, checkStreams, checkWrites, openaiVariables, payKeyless, sameAsDirect, through, wholeStream,
} from './framework_contract.mjs';
import { payment as parameters } from './payments.mjs';
import { check, version } from './stage.mjs';

version('@openai/agents');
version('openai');
setTracingDisabled(true); // traces go to a vendor

const client = ({ url, apiKey, fetch, headers, retries, timeout }) =>
  new OpenAI({ baseURL: `${url}/v1`, apiKey, fetch, defaultHeaders: headers, timeout, ...(retries !== undefined && { maxRetries: retries }) });

const models = {
  chat: (options) => new OpenAIChatCompletionsModel(client(options), options.model),
  responses: (options) => new OpenAIResponsesModel(client(options), options.model),
};

for (const [api, model] of Object.entries(models)) {
  const agent = (options, tools = []) => new Agent({ name: 'payer', instructions: 'pay', model: model(options), tools });
  const ask = async (options) => (await run(agent(options), options.prompt)).finalOutput;
  const stream = async (options, pieces, tools) => {
    const result = await run(agent(options, tools), options.prompt, { stream: true });
    for await (const event of result) {
      if (event.type === 'raw_model_stream_event' && event.data.type === 'output_text_delta') pieces.push(event.data.delta);
    }
    await result.completed;
    return result.finalOutput;
  };
  sameAsDirect({ [api]: ask, [`${api} stream`]: (options) => stream(options, []) });
  checkCalls(api, { ask, obeys: true, timesOut: true });
  checkStreams(api, { stream, whole: wholeStream[api] });
  checkWrites(api, {
    work: (options, tool) => stream(options, [], [tool]),
    pay,
    payByFields: tool({ name: 'pay', description: 'Pays an order.', parameters, execute: payKeyless }),
  });

  // The same run with a whole stream shows that it is the cut that keeps the tool from running.
  const payment = (paid) =>
    tool({
      name: 'pay', description: 'pays', strict: true, execute: async () => paid.push(1) && 'paid',
      parameters: { type: 'object', properties: { amount: { type: 'number' } }, required: ['amount'], additionalProperties: false },
    });

  check(`6 ${api}: a stream that ends after a tool call runs no tool`, async (stage) => {
    const [model, paid] = [await stage.ourModel({ tool: 'pay', break: 'end', events: { chat: 2, responses: 5 }[api] }), []];
    await assert.rejects(stream(through(stage, model), [], [payment(paid)]));
    assert.equal(paid.length, 0, 'times that the tool ran');
    stage.assertSent(1);
    await stage.assertCalls(model, 1);
  });

  check(`6 ${api}: a whole tool call runs its tool once`, async (stage) => {
    const [model, paid] = [await stage.ourModel({ tool: 'pay' }, {}), []];
    assert.match(await stream(through(stage, model), [], [payment(paid)]), /and done\.$/);
    assert.equal(paid.length, 1, 'times that the tool ran');
    stage.assertSent(2);
    await stage.assertCalls(model, 2);
  });
}

byEnvironment(openaiVariables, async (model) => (await run(new Agent({ name: 'sayer', model }), 'say it')).finalOutput);
