// Where calls go, how that is, and how the gateway is configured.
import { html, useEffect, useState } from "./library.js";
import { count, took } from "./words.js";
import { here, set } from "./address.js";
import { useAnswer } from "./api.js";
import { Answer, Icon, Nothing, Num, Pages, Text } from "./parts.js";
import { breakers, worstFirst } from "./overview.js";

// EVERY is how often targets are looked at, in milliseconds.
const EVERY = 2000;
// CARDS is how many are shown at once.
const CARDS = 50;

const rules = { consecutive: "failures in a row", low_traffic: "failures in a row, with little traffic", failure_rate: "too many failed", probe: "its probe failed" };

function Target({ t }) {
  const b = t.breaker;
  return html`<article class=${"target " + b.state} id=${t.target}>
    <header><h2><${Text} of=${t.target} most=${60} /></h2>
      <p class=${"state " + b.state}><${Icon} name=${b.state} /> <b>${breakers[b.state] || b.state}</b>${b.state === "open" && html`: ${rules[b.rule] || b.rule}; half open in <b>${took(b.half_open_in * 1e3)}</b>`}${b.state === "half_open" && html`: ${count(b.probes)} of its probes in flight`}${b.state === "closed" && b.streak > 0 && html`, ${count(b.streak)} failed in a row`}</p></header>
    <dl class="facts">
      <div><dt>Retry budget left</dt><dd><${Num} n=${t.budget.remaining} /></dd></div>
      <div><dt>In flight</dt><dd>${count(t.limit.in_flight)} <span class="none">of ${count(t.limit.size)}</span></dd></div>
      <div><dt>Queued</dt><dd><${Num} n=${t.limit.queued} /></dd></div>
      ${t.holds.map((h) => html`<div class="warn"><dt>Held${h.all ? " for all models" : ""}, key ${h.credential + 1}</dt><dd>${took(h.ends_in * 1e3)} more <span class="none">asked for ${took(h.told * 1e3)}; calls get ${h.status}</span></dd></div>`)}
    </dl>
    ${t.rate_limits.length > 0 && html`<dl class="limits">${t.rate_limits.map((l) => html`<div><dt><${Text} of=${l.name} most=${30} /> <span class="none">key ${l.credential + 1}</span></dt>
      <dd>${l.limit > 0 && l.remaining >= 0 ? html`<meter min="0" max=${l.limit} low=${l.limit / 10} optimum=${l.limit} value=${l.remaining} aria-label=${l.name + " left"}></meter>` : null}
        ${l.remaining < 0 ? "–" : count(l.remaining)} <span class="none">of ${l.limit < 0 ? "?" : count(l.limit)} · whole in ${took(l.reset * 1e3)} · seen ${took(l.seen * 1e3)} ago</span></dd></div>`)}</dl>`}
  </article>`;
}

function Config() {
  const q = here.value.query.config || "";
  const config = useAnswer("/api/config");
  return html`<section aria-labelledby="h-config"><header><h2 id="h-config">Configuration in force</h2>
    <input type="search" aria-label="Search the configuration" placeholder="Search" value=${q} onInput=${(e) => set({ config: e.target.value }, { replace: true })} /></header>
    <${Answer} of=${config}>${(data) => {
      const rows = data.values.filter((v) => (v.path + " " + v.value + " " + v.source).toLowerCase().includes(q.toLowerCase()));
      return rows.length ? html`<div class="scroll" tabindex="0" role="region" aria-label="Configuration"><table class="config">
        <thead><tr><th scope="col">Setting</th><th scope="col">Value</th><th scope="col">From</th></tr></thead>
        <tbody>${rows.map((v) => html`<tr class=${v.source === "default" ? "rest" : ""}><th scope="row" class="mono"><${Text} of=${v.path} /></th><td class="mono"><${Text} of=${typeof v.value === "string" ? v.value : JSON.stringify(v.value)} most=${160} /></td><td><${Text} of=${v.source} /></td></tr>`)}</tbody>
      </table></div>` : html`<${Nothing}>No setting has this in it.<//>`;
    }}<//></section>`;
}

export function Targets() {
  const [round, setRound] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => document.hidden || setRound((n) => n + 1), EVERY);
    return () => clearInterval(timer);
  }, []);
  const targets = useAnswer("/api/targets?limit=200", { round, list: "targets" });
  const from = Number(here.value.query.cursor) || 0;
  return html`<h1>Targets</h1>
    <${Answer} of=${{ ...targets, loading: targets.loading && !targets.data }}>${(data) => html`
      ${data.targets.length ? html`<div class="targets">${worstFirst(data.targets).slice(from, from + CARDS).map((t) => html`<${Target} key=${t.target} t=${t} />`)}</div>` : html`<${Nothing}>Nothing is configured that a call could go to.<//>`}
      <${Pages} next=${data.targets.length > from + CARDS && from + CARDS} />`}<//>
    <${Config} />`;
}
