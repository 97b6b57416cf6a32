// The real ai package with one of its providers against the gateway.

import { embed, embedMany, experimental_generateSpeech, experimental_transcribe, generateImage, generateText, streamText } from 'ai';
import { checkCalls, checkStreams, sameAsDirect, wholeStream } from './framework_contract.mjs';
import { SDK, version } from './stage.mjs';

version('ai');
version(SDK);

const call = (model, { prompt, headers, retries, timeout }) => ({
  model, prompt, headers, maxRetries: retries, abortSignal: timeout && AbortSignal.timeout(timeout),
});

// apis are the ways in which a provider makes a model of a call's options.
async function apis() {
  if (SDK === '@ai-sdk/anthropic') {
    const { createAnthropic } = await import(SDK);
    return { messages: ({ url, apiKey, fetch, model }) => createAnthropic({ baseURL: `${url}/v1`, apiKey, fetch })(model) };
  }
  return { chat: (o) => openai(o).chat(o.model), responses: (o) => openai(o).responses(o.model) };
}
const { createOpenAI } = await import('@ai-sdk/openai');
const openai = ({ url, apiKey, fetch }) => createOpenAI({ baseURL: `${url}/v1`, apiKey, fetch });

const tone = Uint8Array.from({ length: 2052 }, (_, i) => i);
const pick = ({ text, finishReason, usage }) => ({ text, finishReason, usage: { ...usage, raw: undefined } });

for (const [api, model] of Object.entries(await apis())) {
  const ask = async (options) => (await generateText(call(model(options), options))).text;
  const stream = async (options, pieces) => {
    for await (const part of streamText({ ...call(model(options), options), onError: () => {} }).fullStream) {
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
}

if (SDK === '@ai-sdk/openai') {
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
