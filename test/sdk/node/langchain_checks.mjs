// The real @langchain/openai package against the gateway.

import { HumanMessage } from '@langchain/core/messages';
import { tool } from '@langchain/core/tools';
import { ChatOpenAI, OpenAI, OpenAIEmbeddings } from '@langchain/openai';
import {
  byEnvironment, checkCalls, checkStreams, checkWrites, openaiVariables, payKeyless, sameAsDirect, wholeStream,
} from './framework_contract.mjs';
import pay from './langchain_pay.mjs';
import { payment as schema } from './payments.mjs';
import { version } from './stage.mjs';

version('@langchain/openai');
version('@langchain/core');

const fields = ({ url, apiKey, fetch, model, retries, timeout }) => ({
  model, apiKey, timeout, configuration: { baseURL: `${url}/v1`, fetch }, ...(retries !== undefined && { maxRetries: retries }),
});
const chat = (options) => new ChatOpenAI(fields(options));
const responses = (options) => new ChatOpenAI({ ...fields(options), useResponsesApi: true });
// each is a call's own headers: invoke takes them in options, stream beside them.
const each = ({ headers }) => ({ headers, options: { headers } });

const whole = async (chunks) => {
  let all;
  for await (const chunk of chunks) all = all ? all.concat(chunk) : chunk;
  return all;
};
const collect = async (chunks) => pick(await whole(chunks));
const pick = ({ text, usage_metadata }) => ({ text, usage_metadata });

for (const [api, model] of Object.entries({ chat, responses })) {
  sameAsDirect({
    [api]: async (options) => pick(await model(options).invoke(options.prompt)),
    [`${api} stream`]: async (options) => collect(await model(options).stream(options.prompt)),
  });
  checkCalls(api, {
    ask: async (options) => (await model(options).invoke(options.prompt, each(options))).text,
    obeys: false,
    timesOut: true,
  });
  checkStreams(api, {
    stream: async (options, pieces) => {
      for await (const chunk of await model(options).stream(options.prompt, each(options))) pieces.push(chunk.text);
    },
    whole: wholeStream[api],
  });
  checkWrites(api, {
    work: async (options, pay) => {
      const asked = [new HumanMessage(options.prompt)];
      for (;;) {
        const answer = await whole(await model(options).bindTools([pay]).stream(asked, each(options)));
        if (!answer.tool_calls.length) return answer.text;
        asked.push(answer);
        for (const call of answer.tool_calls) asked.push(await pay.invoke(call));
      }
    },
    pay,
    payByFields: tool(payKeyless, { name: 'pay', description: 'Pays an order.', schema }),
  });
}

sameAsDirect(
  {
    completions: (options) => new OpenAI(fields(options)).invoke(options.prompt),
    'completions stream': async (options) => {
      let all = '';
      for await (const piece of await new OpenAI(fields(options)).stream(options.prompt)) all += piece;
      return all;
    },
    embedding: (options) => new OpenAIEmbeddings(fields(options)).embedQuery('one'),
    embeddings: (options) => new OpenAIEmbeddings(fields(options)).embedDocuments(['one', 'two']),
  },
  ['completions', 'completions stream'],
);

byEnvironment(openaiVariables, async (model) => (await new ChatOpenAI({ model }).invoke('say it')).text);
