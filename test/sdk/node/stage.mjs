// What the checks of each Node SDK stand on: the gateway and the scripted
// upstream that sdk_test.go started, and requests counted where the SDK sends
// them. A check is a node:test, whose reporter writes TAP.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

const { GATEWAY, ADMIN, UPSTREAM, UPSTREAM_KEY, KEY_ALICE: ALICE, KEY_BOB: BOB, SUITE, SDK } = process.env;
export { GATEWAY, UPSTREAM, UPSTREAM_KEY, ALICE, BOB, SDK };

const manifest = new URL(`node_modules/${SDK}/package.json`, import.meta.url);
console.log(`# ${SDK} ${JSON.parse(readFileSync(manifest)).version}`);

// requestsBooked are those that the gateway has counted, whatever their operation and outcome.
async function requestsBooked() {
  const metrics = await (await fetch(`${ADMIN}/metrics`)).text();
  return metrics
    .split('\n')
    .filter((line) => line.startsWith('oncegate_requests_total{'))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0);
}

let booked = 0; // by earlier checks
let number = 0;

// Stage is what one check works with.
class Stage {
  sent = 0; // requests that the SDK put on the wire to the gateway

  constructor(name) {
    this.name = name.replaceAll(/[^a-z0-9]+/gi, '_');
  }

  // fetch counts: the SDKs take it as an option. (openai also probes what fetch is with a data: URL.)
  fetch = (url, init) => {
    if (String(url).startsWith(GATEWAY)) this.sent++;
    return fetch(url, init);
  };

  // model is one of this check's own, whose calls the upstream answers by these steps.
  async model(...steps) {
    const model = `${SUITE}-${this.name}-${++number}`;
    await this.script(model, ...steps);
    return model;
  }

  async script(model, ...steps) {
    await fetch(`${UPSTREAM}/script/${model}`, { method: 'PUT', body: JSON.stringify(steps) });
  }

  // calls are those that the upstream saw for model.
  async calls(model) {
    return (await fetch(`${UPSTREAM}/script/${model}`)).json();
  }

  async assertCalls(model, count) {
    assert.equal((await this.calls(model)).length, count, 'calls that the upstream saw');
  }

  assertSent(count) {
    assert.equal(this.sent, count, 'requests that the SDK sent');
  }
}

// check runs body. After it the gateway must have booked every request that the SDK sent it.
export function check(name, body) {
  test(name, async () => {
    const stage = new Stage(name);
    try {
      await body(stage);
    } finally {
      const want = booked + stage.sent;
      const deadline = performance.now() + 5000;
      while ((booked = await requestsBooked()) < want && performance.now() < deadline) {
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      assert.equal(booked, want, 'requests booked on /metrics so far');
    }
  });
}
