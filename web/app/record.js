// One record, or one request that has none.
import { html, useState } from "./library.js";
import { addUp, decimal, pico } from "./money.js";
import { count, outcomes, size, took } from "./words.js";
import { ask, here, to } from "./address.js";
import { again, post, useAnswer } from "./api.js";
import { Answer, Copy, Dialog, Money, Nothing, Outcome, tell, Text, Time } from "./parts.js";
import { times, Timeline } from "./timeline.js";
import { alone, called, detail, shared, tokens } from "./requests.js";

const Facts = ({ of }) => html`<dl class="facts">${of.filter(([, v]) => v !== undefined && v !== null && v !== "" && v !== false).map(([name, v]) => html`<div><dt>${name}</dt><dd>${v}</dd></div>`)}</dl>`;

// The log tells when a request was over.
const arrived = (r) => new Date(r.at) - (r.took_ms || 0);

// Callers are those that the answer was given to, in the order in which they came.
function Callers({ list, from }) {
  const given = list.filter(shared).length;
  return html`<section aria-labelledby="h-callers">
    <header><h2 id="h-callers">${given ? `Given to others ${times(given)}` : "Its callers"}</h2></header>
    <div class="scroll" tabindex="0" role="region" aria-label="Callers"><table>
      <thead><tr><th scope="col">Time</th><th scope="col" class="n">After</th><th scope="col">Outcome</th><th scope="col">User</th><th scope="col">Key</th><th scope="col" class="n">Took</th><th scope="col" class="n">Billed</th><th scope="col" class="n">Saved</th><th scope="col">Request</th></tr></thead>
      <tbody>${[...list].sort((a, b) => arrived(a) - arrived(b)).map((r) => html`<tr>
        <th scope="row"><${Time} at=${r.at} /></th>
        <td class="n">${r.at && arrived(r) >= from ? "+" + took(Math.round(arrived(r) - from)) : html`<span class="none">before</span>`}</td>
        <td><${Outcome} of=${r.outcome} />${r.reason && html` <span class="why"><${Text} of=${r.reason} most=${40} /></span>`}</td>
        <td><${Text} of=${r.user} most=${24} /></td><td><${Text} of=${r.key} most=${24} /></td>
        <td class="n">${took(r.took_ms)}</td><td class="n"><${Money} usd=${r.billed} none=${r.tokens && called(r) ? "unpriced" : "–"} /></td><td class="n"><${Money} usd=${r.saved} none=${r.tokens && shared(r) ? "unpriced" : "–"} /></td>
        <td class="mono"><a href=${alone(r)}><${Text} of=${r.id} most=${24} /></a></td>
      </tr>`)}</tbody>
    </table></div>
    ${list.length >= 200 && html`<p class="note">These are the newest 200.</p>`}
  </section>`;
}

const KINDS = [["cached", "cached_input", "Input, from the provider's prompt cache"], ["cache_write_5m", "cache_write_5m", "Input, written to its cache for 5 min"], ["cache_write_1h", "cache_write_1h", "Input, written to its cache for 1 h"], ["output", "output", "Output"]];

// lines are a price by kind of token. Cached tokens are parts of the input, and
// reasoning is one of the output.
export function lines(price) {
  const t = price.tokens;
  const parts = (t.cached || 0) + (t.cache_write_5m || 0) + (t.cache_write_1h || 0);
  const all = [["Input", t.input - parts, price.rates?.input], ...KINDS.map(([kind, rate, label]) => [label, t[kind] || 0, price.rates?.[rate]])];
  return all.filter(([, n]) => n > 0).map(([label, n, rate]) => ({ label, n, rate, cost: rate === null || rate === undefined ? null : pico(rate) * BigInt(n) }));
}

const prices = { upstream: "as the upstream said", config: "by the configuration", table: "by the price table", "": "as the log has it" };

function Price({ price }) {
  if (!price) return null;
  const list = lines(price);
  // A line's cost is told where all of them make the whole: in millionths.
  const sum = list.some((l) => l.cost === null) ? null : addUp(list.map((l) => l.cost)) / 1000000n;
  const whole = pico(price.cost);
  const fits = sum !== null && whole !== null && (sum - whole < 10n && whole - sum < 10n);
  return html`<section aria-labelledby="h-price">
    <header><h2 id="h-price">Price</h2><p class="note"><${Text} of=${price.model} />, ${prices[price.source] || html`<${Text} of=${price.source} />`}</p></header>
    <div class="scroll" tabindex="0" role="region" aria-label="Price"><table>
      <thead><tr><th scope="col">Kind of token</th><th scope="col" class="n">Tokens</th><th scope="col" class="n">$ a million</th><th scope="col" class="n">Cost</th></tr></thead>
      <tbody>${list.map((l) => html`<tr><th scope="row">${l.label}${l.label === "Output" && price.tokens.reasoning > 0 && html`<span class="why">of it ${count(price.tokens.reasoning)} reasoning</span>`}</th><td class="n">${count(l.n)}</td><td class="n">${l.rate ?? html`<span class="none">–</span>`}</td><td class="n">${fits ? html`<${Money} usd=${decimal(l.cost / 1000000n)} />` : html`<span class="none">–</span>`}</td></tr>`)}</tbody>
      <tfoot><tr><th scope="row" colspan="3">One call</th><td class="n"><${Money} usd=${price.cost} /></td></tr></tfoot>
    </table></div>
  </section>`;
}

function Forgetting({ name, onClose }) {
  const [state, setState] = useState({});
  const forget = (e) => {
    e.preventDefault();
    setState({ busy: true });
    post(ask("/api/records/" + name + "/forget"), { reason: new FormData(e.target).get("reason").trim() }).then(
      () => { tell("It is forgotten."); onClose(); again(); },
      (error) => setState({ error }),
    );
  };
  return html`<${Dialog} title="Forget this record?" onClose=${onClose}>
    <p>Its answer goes, and the next request of its key runs anew and is billed. The ledger stays as it is.</p>
    <form class="stack" onSubmit=${forget}>
      <label>Why <input name="reason" required maxlength="1000" /></label>
      ${state.error && html`<p class="fault" role="alert">${state.error.message}</p>`}
      <p class="buttons"><button type="button" onClick=${onClose}>Keep it</button><button type="submit" class="danger" disabled=${state.busy}>Forget</button></p>
    </form>
  <//>`;
}

const steps = { claimed: "Claimed", dispatched: "Sent", completed: "Completed", unknown: "In doubt", released: "Released", resolved: "Resolved", probed: "Probed", forgotten: "Forgotten" };

// Trail is what a write's record tells of itself.
function Trail({ events }) {
  if (!events?.length) return null;
  return html`<section aria-labelledby="h-trail"><header><h2 id="h-trail">Trail</h2></header>
    <div class="scroll" tabindex="0" role="region" aria-label="Trail"><table>
      <thead><tr><th scope="col">Time</th><th scope="col">What</th><th scope="col" class="n">Fence</th><th scope="col" class="n">Status</th><th scope="col">By</th><th scope="col">Reason</th></tr></thead>
      <tbody>${events.map((e) => html`<tr><th scope="row"><${Time} at=${e.at} /></th><td>${steps[e.what] || html`<${Text} of=${e.what} />`}${e.as && html` <span class="why"><${Text} of=${e.as} /></span>`}</td><td class="n">${e.fence}</td><td class="n">${e.status || "–"}</td><td><${Text} of=${e.actor} /></td><td><${Text} of=${e.reason} most=${300} /></td></tr>`)}</tbody>
    </table></div></section>`;
}

export function Record({ name }) {
  const record = useAnswer("/api/records/" + encodeURIComponent(name), { live: true });
  const [forgetting, setForgetting] = useState(false);
  if (record.error?.status === 404 && !record.data) return html`<h1>No such record</h1><${Nothing}><${Text} of=${record.error.message} most=${400} /> <a href=${to("/requests")}>All requests</a><//>`;
  return html`<${Answer} of=${record} lines=${7}>${(r) => {
    const callers = r.requests || [];
    // Who led is the latest that claimed it.
    const leader = callers.find((c) => c.timeline?.some((e) => e.what === "claimed")) || callers.find(called) || callers[callers.length - 1];
    const first = leader && arrived(leader);
    const size_ = r.size ?? null;
    return html`
      <header class="top"><p class="label"><a href=${to("/requests")}>Requests</a> / Record</p>
        <span class="space"></span>
        <${Copy} text=${r.key || name} label="Copy the key" />
        ${!r.tool && r.state === "completed" && html`<button type="button" onClick=${() => setForgetting(true)}>Forget…</button>`}
        ${r.state === "unknown" && html`<a class="button danger" href=${to("/doubt")}>Decide what happened</a>`}
      </header>
      <h1 class="sentence">${r.sentence ? html`<${Text} of=${r.sentence} most=${600} />` : html`A record of ${r.tool ? html`the tool <${Text} of=${r.tool} />` : "a completion"}, ${r.state}.`}</h1>
      <p class="mono key"><bdi>${r.key || name}</bdi></p>
      <${Facts} of=${[
        ["State", r.state === "unknown" ? html`<${Outcome} of="unknown" />` : html`<${Text} of=${r.state} />`],
        ["Tool", r.tool && html`<${Text} of=${r.tool} />`], ["Write", r.method && html`<span class="mono"><${Text} of=${r.method + " " + r.path} /></span>`],
        ["Model", (r.model || leader?.model) && html`<${Text} of=${r.model || leader.model} />`], ["Operation", (r.operation || leader?.operation) && html`<${Text} of=${r.operation || leader.operation} />`],
        ["Principal", r.principal && html`<${Text} of=${r.principal} most=${40} />`], ["User", r.user && html`<${Text} of=${r.user} most=${40} />`],
        ["Status", r.status], ["Fence", r.fence], ["Claimed", r.claimed && html`<${Time} at=${r.claimed} />`], ["Settled", r.settled && html`<${Time} at=${r.settled} />`],
        ["Kept until", r.expires && html`<${Time} at=${r.expires} />`], ["Answer", size_ !== null && size(size_)], ["SHA-256", r.sha256 && html`<span class="mono" title=${r.sha256}>${r.sha256.slice(0, 16)}…</span>`],
        ["Tokens", leader?.tokens && tokens(leader.tokens)],
      ]} />
      <section aria-labelledby="h-line"><header><h2 id="h-line">What happened</h2><p class="note">to scale, from the first request's arrival</p></header>
        <${Timeline} events=${r.timeline?.length ? r.timeline : leader?.timeline} /></section>
      ${callers.length > 0 && html`<${Callers} list=${callers} from=${first} />`}
      <${Price} price=${r.price} />
      <${Trail} events=${r.events} />
      ${forgetting && html`<${Forgetting} name=${r.key || name} onClose=${() => setForgetting(false)} />`}`;
  }}<//>`;
}

export function OneRequest({ id }) {
  const request = useAnswer(ask("/api/requests/" + encodeURIComponent(id), { place: here.value.query.place }));
  return html`<${Answer} of=${request} lines=${7}>${(r) => html`
    <header class="top"><p class="label"><a href=${to("/requests")}>Requests</a> / Request</p><span class="space"></span><${Copy} text=${r.id} label="Copy the id" /></header>
    <h1 class="sentence"><${Outcome} of=${r.outcome} />: ${outcomes[r.outcome]}${r.reason && html`, <${Text} of=${r.reason} />`}.</h1>
    <${Facts} of=${[
      ["Over at", html`<${Time} at=${r.at} />`], ["Request", html`<span class="mono"><${Text} of=${r.id} /></span>`], ["Record", r.record && html`<a class="mono" href=${detail(r)}>${r.record.slice(0, 16)}…</a>`],
      ["Operation", html`<${Text} of=${r.operation} />`], ["Model", r.model && html`<${Text} of=${r.model} />`], ["Tool", r.tool && html`<${Text} of=${r.tool} />`], ["Target", r.target && html`<${Text} of=${r.target} />`],
      ["User", r.user && html`<${Text} of=${r.user} />`], ["Key", r.key && html`<${Text} of=${r.key} />`], ["Status", r.status], ["Attempts", count(r.attempts)],
      ["Took", took(r.took_ms)], ["Upstream", called(r) && took(r.upstream_ms)], ["Overhead", called(r) && took(r.overhead_ms)], ["Tokens", r.tokens && tokens(r.tokens)],
      ["Billed", r.billed !== null && r.billed !== undefined && html`<${Money} usd=${r.billed} />`], ["Saved", r.saved !== null && r.saved !== undefined && html`<${Money} usd=${r.saved} />`], ["Client", r.left && "left before the whole answer was there"],
    ]} />
    <section aria-labelledby="h-line"><header><h2 id="h-line">What happened</h2><p class="note">to scale, from its arrival</p></header><${Timeline} events=${r.timeline} /></section>`}<//>`;
}
