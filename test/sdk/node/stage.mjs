// What the checks of each Node SDK stand on: the gateway and the upstreams that
// sdk_test.go started, and requests counted where the SDK sends them. A check is
// a node:test, whose reporter writes TAP.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

const { GATEWAY, ADMIN, UPSTREAM, AIMOCK, UPSTREAM_KEY, KEY_ALICE: ALICE, KEY_BOB: BOB, SUITE, SDK } = process.env;
export { GATEWAY, UPSTREAM, AIMOCK, UPSTREAM_KEY, ALICE, BOB, SDK };

// version prints that of a package, for the line that sums up.
export function version(name) {
  const manifest = new URL(`node_modules/${name}/package.json`, import.meta.url);
  console.log(`# ${name} ${JSON.parse(readFileSync(manifest)).version}`);
}

// requestsBooked are those that the gateway has counted, whatever their operation and outcome.
async function requestsBooked() {
  const metrics = await (await fetch(`${ADMIN}/metrics`)).text();
  return metrics
    .split('\n')
    .filter((line) => line.startsWith('oncegate_requests_total{'))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0);
}

let booked = 0; // by earlier checks
let [number, ours] = [0, 0];
const upstreams = new Map(); // by model, where it isn't ours
const headers = { Authorization: `Bearer ${UPSTREAM_KEY}` };

// Stage is what one check works with.
class Stage {
  sent = 0; // requests that the SDK put on the wire to the gateway
  written = 0; // requests that its tools sent there, by fetch as it is
  answers = []; // what the gateway answered, in order: its headers, and a promise of its text

  constructor(name) {
    this.name = name.replaceAll(/[^a-z0-9]+/gi, '_');
  }

  // fetch counts: the SDKs take it as an option. (openai also probes what fetch is with a data: URL.)
  fetch = async (url, init) => {
    if (!String(url).startsWith(GATEWAY)) return fetch(url, init);
    this.sent++;
    const response = await fetch(url, init);
    this.answers.push({ headers: response.headers, text: response.clone().text().catch((error) => error.message) });
    return response;
  };

  // model is one of this check's own, whose calls aimock answers by these steps.
  async model(...steps) {
    const model = `${SUITE}-${++number}`;
    upstreams.set(model, AIMOCK);
    await this.script(model, ...steps);
    return model;
  }

  // ourModel is the same at our own upstream, for what aimock can't play or doesn't keep.
  async ourModel(...steps) {
    const model = `${SUITE}-${this.name}-${++ours}`;
    await this.script(model, ...steps);
    return model;
  }

  async order(model, init) {
    const response = await fetch(`${upstreams.get(model) ?? UPSTREAM}/script/${model}`, { ...init, headers });
    assert.ok(response.ok, `the upstream took no order: ${response.status}`);
    return response;
  }

  async script(model, ...steps) {
    await this.order(model, { method: 'PUT', body: JSON.stringify(steps) });
  }

  // calls are those that the upstream saw for model.
  async calls(model) {
    return (await this.order(model)).json();
  }

  async assertCalls(model, count) {
    const { length } = await this.calls(model);
    assert.ok(length === count, `the upstream saw ${length} calls, want ${count}`);
  }

  assertSent(count) {
    assert.ok(this.sent === count, `the SDK sent ${this.sent} requests, want ${count}`);
  }
}

// check runs body. After it the gateway must have booked every request that the SDK and its tools sent it.
export function check(name, body) {
  test(name, async () => {
    const stage = new Stage(name);
    const { fetch } = globalThis;
    globalThis.fetch = (url, init) => {
      if (String(url).startsWith(`${GATEWAY}/tools/`)) stage.written++;
      return fetch(url, init);
    };
    try {
      await body(stage);
    } finally {
      globalThis.fetch = fetch;
      const want = booked + stage.sent + stage.written;
      const deadline = performance.now() + 5000;
      while ((booked = await requestsBooked()) < want && performance.now() < deadline) {
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      assert.ok(booked === want, `${booked} requests booked on /metrics so far, want ${want}`);
    }
  });
}
