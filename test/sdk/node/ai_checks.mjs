// The real ai package with one of its providers against the gateway.

import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { embed, embedMany, experimental_generateSpeech, experimental_transcribe, generateImage, generateText, stepCountIs, streamText, tool } from 'ai';
import pay from './ai_pay.mjs';
import {
  anthropicVariables, byEnvironment, checkCalls, checkStreams, checkWrites, openaiVariables, payKeyless, sameAsDirect, wholeStream,
} from './framework_contract.mjs';
import { payment as inputSchema } from './payments.mjs';
import { SDK, version } from './stage.mjs';

version('ai');
version(SDK);

const settings = ({ url, apiKey, fetch }) => ({ baseURL: `${url}/v1`, apiKey, fetch });
const openai = (options) => createOpenAI(settings(options));
const call = (model, { prompt, headers, retries, timeout }) => ({
  model, prompt, headers, maxRetries: retries, abortSignal: timeout && AbortSignal.timeout(timeout),
});
const pick = ({ text, finishReason, usage }) => ({ text, finishReason, usage: { ...usage, raw: undefined } });

// checkModels is every group for one way to make a model of a call's options.
function checkModels(api, model) {
  const ask = async (options) => (await generateText(call(model(options), options))).text;
  const stream = async (options, pieces, tools) => {
    const agent = { tools, stopWhen: stepCountIs(5), onError: () => {} };
    for await (const part of streamText({ ...call(model(options), options), ...agent }).fullStream) {
      if (part.type === 'error') throw part.error;
      if (part.type === 'text-delta') pieces.push(part.text);
    }
  };
  sameAsDirect({
    [api]: async (options) => pick(await generateText(call(model(options), options))),
    [`${api} stream`]: async (options) => {
      const result = streamText(call(model(options), options));
      return pick({ text: await result.text, finishReason: await result.finishReason, usage: await result.usage });
    },
  });
  checkCalls(api, { ask, obeys: false, timesOut: false });
  checkStreams(api, { stream, whole: wholeStream[api] });
  checkWrites(api, {
    work: async (options, pay) => {
      const pieces = [];
      await stream(options, pieces, { pay });
      return pieces.join('');
    },
    pay,
    payByFields: tool({ description: 'Pays an order.', inputSchema, execute: payKeyless }),
  });
}

// The ready-made providers, openai and anthropic, read the environment where they are imported, these where they are made.
const unset = (make) => async (model) => (await generateText({ model: make()(model), prompt: 'say it' })).text;

if (SDK === '@ai-sdk/anthropic') {
  checkModels('messages', (o) => createAnthropic(settings(o))(o.model));
  byEnvironment(anthropicVariables, unset(createAnthropic));
} else {
  checkModels('chat', (o) => openai(o).chat(o.model));
  checkModels('responses', (o) => openai(o).responses(o.model));
  byEnvironment(openaiVariables, unset(createOpenAI));
  const tone = Uint8Array.from({ length: 2052 }, (_, i) => i);
  sameAsDirect(
    {
      completions: async (o) => pick(await generateText(call(openai(o).completion(o.model), o))),
      'completions stream': (o) => streamText(call(openai(o).completion(o.model), o)).text,
      embedding: async (o) => (await embed({ model: openai(o).embedding(o.model), value: 'one' })).embedding,
      embeddings: async (o) => (await embedMany({ model: openai(o).embedding(o.model), values: ['one', 'two'] })).embeddings,
      images: async (o) => (await generateImage({ model: openai(o).image(o.model), prompt: 'a fox' })).image.base64,
      speech: async (o) => (await experimental_generateSpeech({ model: openai(o).speech(o.model), text: 'say it' })).audio.base64,
      transcriptions: async (o) => (await experimental_transcribe({ model: openai(o).transcription(o.model), audio: tone })).text,
    },
    ['completions', 'completions stream'],
  );
}
