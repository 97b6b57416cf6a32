// What happened to a record, to scale.
import { html } from "./library.js";
import { count, took } from "./words.js";
import { Text } from "./parts.js";

const said = {
  claimed: () => "Claimed",
  attempt: (e, n) => "Attempt " + n,
  wait: () => "Waited",
  answered: () => "Answered",
  stored: () => "Stored",
  shared: () => "Shared",
};

function particulars(e) {
  const parts = [];
  if (e.target) parts.push(html`<${Text} of=${e.target} most=${50} />`);
  if (e.status) parts.push(html`<b>${e.status}</b>`);
  if (e.fence) parts.push("fence " + e.fence);
  if (e.result && e.result !== "ok") parts.push(html`<${Text} of=${e.result} most=${120} />`);
  if (e.what === "wait") parts.push(html`${took(e.ms)} of 0 to ${took(e.of_ms)}`);
  else if (e.ms) parts.push(html`in ${took(e.ms)}`);
  return parts.map((p, i) => html`${i > 0 && " · "}${p}`);
}

const bad = (e) => e.what === "attempt" && (e.status >= 400 || (!e.status && e.result && e.result !== "ok"));

export function Timeline({ events }) {
  if (!events?.length) return html`<p class="note">Its steps were not kept.</p>`;
  const end = Math.max(1, ...events.map((e) => e.at_ms + Math.max(e.ms || 0, e.of_ms || 0)));
  const part = (ms) => ((100 * ms) / end).toFixed(2) + "%";
  let attempts = 0;
  return html`<ol class="timeline">${events.map((e) => {
    if (e.what === "attempt") attempts++;
    return html`<li class=${"step " + (said[e.what] ? e.what : "") + (bad(e) ? " bad" : "")}>
      <span class="what">${said[e.what] ? said[e.what](e, attempts) : html`<${Text} of=${e.what} most=${20} />`}</span>
      <span class="track" dir="ltr" aria-hidden="true">
        ${e.of_ms > 0 && html`<i class="bound" style=${{ left: part(e.at_ms), width: part(e.of_ms) }}></i>`}
        <i class=${e.ms ? "bar" : "mark"} style=${{ left: part(e.at_ms), ...(e.ms && { width: part(e.ms) }) }}></i>
      </span>
      <span class="how">${particulars(e)}</span>
      <span class="n at">+${took(e.at_ms)}</span>
    </li>`;
  })}
    <li class="step scale" aria-hidden="true"><span class="what"></span><span class="track" dir="ltr"><b>0</b><b>${took(end)}</b></span><span class="how"></span><span class="at"></span></li>
  </ol>`;
}

export const times = (n) => (n === 1 ? "once" : n === 2 ? "twice" : count(n) + " times");
