// The upstream that is not ours: @copilotkit/aimock, which plays OpenAI's and
// Anthropic's surfaces and journals what it was asked. sdk_test.go starts it
// for all suites. It takes the same orders as the upstream in upstream_test.go,
// and knows fewer breaks:
//
//	PUT /script/{model}  a JSON list of steps: status, delay, break, events, and
//	                     tool, with arguments, which is called until its result is told
//	GET /script/{model}  what aimock's journal has of the model since
//
// Prints its address when it listens, and ends when its standard input does.

import { LLMock } from '@copilotkit/aimock';

const mock = new LLMock({ port: 0, strict: true, chunkSize: 8, journalMaxEntries: 0, auth: { apiKeys: [process.env.UPSTREAM_KEY] } });
const scripts = new Map(); // model to {steps, taken, since}

// planned is what happens to one request: its step, and its number among those
// of its model. aimock asks each of its fixtures about a request in turn, so
// the first to ask decides.
const plans = new WeakMap();
function planned(request) {
  if (!plans.has(request)) {
    const script = scripts.get(request.model);
    if (!script) return {};
    const n = ++script.taken;
    plans.set(request, { n, step: script.steps[Math.min(n, script.steps.length) - 1] ?? {} });
  }
  return plans.get(request);
}

function asked(request) {
  const last = request.messages?.at(-1)?.content ?? request.embeddingInput ?? request.input ?? '';
  return typeof last === 'string' ? last : last.map((part) => part.text ?? '').join('');
}

// answer is aimock's for the n-th request. It has what tells it from others of its model.
async function answer(request) {
  const { n, step } = planned(request);
  // In here aimock has the request and hasn't journalled it: it will, whether or not the client stays.
  if (step.delay) await new Promise((resolve) => setTimeout(resolve, step.delay));
  if (step.status) return { status: step.status, error: { message: `scripted ${step.status}, call ${n}`, type: 'api_error' } };
  const id = `${request.model}-${n}`;
  const usage = { prompt_tokens: 11, completion_tokens: 7, input_tokens: 11, output_tokens: 7, total_tokens: 18 };
  const text = `To "${asked(request)}" I say for the ${n}th time: žluťoučký, "quoted" \\ \n and done.`;
  switch (request._endpointType) {
    case 'embedding':
      return { embedding: [n, -0.25, 1e-7, 0.5] };
    case 'image':
      return { images: [{ b64Json: Buffer.from(text).toString('base64') }] };
    case 'speech':
      return { audio: Buffer.from(text.repeat(500)).toString('base64') };
    case 'transcription':
      return { transcription: { text } };
  }
  if (step.tool && request.messages.at(-1).role !== 'tool') {
    const call = { id: `call-${id}`, name: step.tool, arguments: JSON.stringify(step.arguments ?? { amount: 5 }) };
    return { id, created: 1760000000, usage, toolCalls: [call] };
  }
  return { id, created: 1760000000, usage, content: text };
}

// aimock destroys the connection: what it didn't send by then is lost, so it is given time for each event.
const breaks = {
  connection: () => ({ chaos: { disconnectRate: 1 } }),
  reset: ({ events }) => ({ truncateAfterChunks: events, latency: 30 }),
};

function put(model, steps) {
  scripts.set(model, { steps, taken: 0, since: mock.journal.getAll().length });
  for (const step of steps.filter((step) => step.break)) {
    if (!breaks[step.break]) throw new Error(`aimock can't break by ${step.break}`);
    const match = { predicate: (request) => request.model === model && planned(request).step === step };
    mock.prependFixture({ match, response: answer, ...breaks[step.break](step) });
  }
}

// calls waits for those that are still under way.
async function calls(model) {
  const { taken, since } = scripts.get(model) ?? { taken: 0, since: 0 };
  const deadline = performance.now() + 10_000;
  for (;;) {
    const entries = mock.journal.getAll().slice(since).filter((entry) => entry.body?.model === model);
    if (entries.length >= taken || performance.now() > deadline) {
      return entries.map(({ path, headers, body }) => ({ path, header: headers, body }));
    }
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

mock.addFixture({ match: { predicate: (request) => scripts.has(request.model) && !!planned(request) }, response: answer });
mock.mount('/script', {
  async handleRequest(request, response, pathname) {
    const model = decodeURIComponent(pathname.slice(1));
    if (request.method === 'PUT') {
      let body = '';
      for await (const piece of request) body += piece;
      put(model, JSON.parse(body));
      response.end();
    } else {
      response.setHeader('Content-Type', 'application/json');
      response.end(JSON.stringify(await calls(model)));
    }
    return true;
  },
});

console.log(await mock.start());
process.stdin.on('end', () => process.exit()).resume();
