// The first page: what it saved, and whether anything is in doubt.
import { html, useState } from "./library.js";
import { decimal, nameless, pico, share } from "./money.js";
import { compact, count, home, took } from "./words.js";
import { ask, filters, here, range, to } from "./address.js";
import { again, post, useAnswer } from "./api.js";
import { connected, lastDay } from "./live.js";
import { Answer, Copy, Fault, Icon, Money, Sum, Text } from "./parts.js";
import { FaultChart, MoneyChart, OutcomeChart, PaceChart } from "./charts.js";
import { byReason, Savings } from "./savings.js";
import { Filters } from "./filters.js";

export function Overview() {
  const where = { ...range(), ...filters() };
  const { since, until } = where;
  const summary = useAnswer(ask("/api/summary", where), { live: true });
  const series = useAnswer(ask("/api/series", { ...where, by: "reason" }), { live: true });
  const pulse = useAnswer(ask("/api/pulse", { since, until }), { live: true });
  const targets = useAnswer("/api/targets?limit=200", { live: true, list: "targets" });
  // Where reasons were gathered as "other", the report has them one by one.
  const lumped = series.data?.points.some((p) => p.groups?.some((g) => g.reason === "other"));
  const report = useAnswer(lumped ? ask("/api/report", { ...where, by: "reason" }) : null, { live: true });
  const groups = lumped ? report.data?.groups : series.data?.points.flatMap((p) => p.groups || []);
  // One store that is away is one fault, not five.
  const all = [summary, series, pulse, targets, report];
  const faults = all.filter((a, i) => a.error && all.findIndex((b) => b.error?.message === a.error.message) === i);
  const filtered = Object.values(filters()).some(Boolean);
  return html`
    <h1 class="unseen">Overview</h1>
    <${Filters} />
    ${faults.map((a) => html`<${Fault} error=${a.error} old=${a.data} />`)}
    <${Answer} of=${summary} told>${(s) => (s.total.requests === 0 && !filtered ? html`<${Empty} summary=${s} />` : html`<${Head} summary=${s} />`)}<//>
    ${summary.data && summary.data.total.requests === 0 && !filtered ? null : html`
    <${Answer} of=${series} lines=${6} told>${(s) => html`
      <${MoneyChart} series=${s} />
      ${Date.parse(s.since) < Date.now() - QUARTERS && html`<p class="note">This range goes back beyond 90 days, where the ledger has whole days of ${home.value}.</p>`}
    `}<//>
    <div class="pair">
      ${series.data && html`<${OutcomeChart} series=${series.data} />`}
      ${pulse.data && series.data && html`<${FaultChart} pulse=${pulse.data} range=${pulsed(series.data)} />`}
    </div>
    ${pulse.data && series.data && html`<${PaceChart} pulse=${pulse.data} range=${pulsed(series.data)} />`}
    <${Answer} of=${targets} lines=${1} told>${(t) => html`<${Strip} targets=${t.targets} />`}<//>
    ${groups && html`<${Savings} sums=${byReason(groups)} />`}`}
  `;
}

// QUARTERS is how long the ledger tells quarters of an hour apart, in milliseconds.
const QUARTERS = 90 * 86400e3;

const pulsed = (s) => [Date.parse(s.since) / 1e3, Date.parse(s.until) / 1e3];

const spoken = { "1h": "in the last hour", "6h": "in the last 6 hours", "24h": "in the last 24 hours", "7d": "in the last 7 days", "30d": "in the last 30 days", "90d": "in the last 90 days", today: "today" };

function Head({ summary }) {
  const t = summary.total;
  const saved = pico(t.saved.usd);
  const billed = pico(t.billed.usd);
  const tokens = t.saved.tokens.input + t.saved.tokens.output;
  const doubts = connected.value && lastDay.value ? lastDay.value.doubts : summary.doubts;
  const asked = here.value.query.until ? "in this range" : spoken[here.value.query.since || "24h"] || "since then";
  return html`<section class="head" aria-label="What it saved">
    <p class="label">Saved ${asked}</p>
    <p class=${"figure" + (saved === 0n ? " zero" : "")}><${Sum} usd=${t.saved.usd} unpriced=${nameless(t, "saved")} /></p>
    <p class="lead">${saved + billed === 0n ? "Nothing had a price in this time." : html`of <${Money} usd=${decimal(saved + billed)} /> that would have been billed: <b>${share(saved, saved + billed)}</b>`}${t.unpriced_requests > 0 && html`<span class="label">${saved + billed === 0n ? " " : "; "}${count(t.unpriced_requests)} requests have no price</span>`}</p>
    <dl class="counts">
      <div><dd title=${count(t.saved.requests)}>${count(t.saved.requests)}</dd><dt>requests not sent</dt></div>
      <div><dd title=${count(tokens)}>${tokens < 1e6 ? count(tokens) : compact(tokens)}</dd><dt>tokens not bought</dt></div>
      <div><dd>${count(t.duplicate_writes_prevented)}</dd><dt>duplicate writes prevented</dt></div>
    </dl>
    <dl class="beside">
      <div><dt>Billed</dt><dd><${Sum} usd=${t.billed.usd} unpriced=${nameless(t, "billed")} /></dd></div>
      <div><dt>Saved</dt><dd><${Sum} usd=${t.saved.usd} unpriced=${nameless(t, "saved")} /></dd></div>
      <div><dt>Calls with a price</dt><dd>${summary.priced_share === null ? html`<span class="none" title="No answer had tokens">–</span>` : priced(summary.priced_share, t.unpriced_requests)}</dd></div>
      <div><dt>Writes in doubt</dt><dd>${doubts ? html`<a class="badge" href=${to("/doubt")}><${Icon} name="unknown" />${count(doubts)} in doubt</a>` : "none"}</dd></div>
      ${summary.durability && summary.durability !== "strict" && html`<div><dt>Durability</dt><dd class="warn">${summary.durability}</dd></div>`}
      ${summary.store === "away" && html`<div><dt>Store</dt><dd class="warn">away</dd></div>`}
      ${summary.draining && html`<div><dt>This node</dt><dd class="warn">draining</dd></div>`}
    </dl>
  </section>`;
}

function priced(part, unpriced) {
  const text = share(BigInt(Math.round(part * 1e6)), 1000000n);
  return unpriced ? html`<a href=${to("/ledger") + "#unpriced"} title=${count(unpriced) + " requests have no price"}>${text}</a>` : text;
}

export const breakers = { closed: "closed", half_open: "half open", open: "open" };

// worstFirst has targets in trouble before the rest, which stay by name.
const trouble = (t) => ["open", "half_open", "closed"].indexOf(t.breaker.state);
export const worstFirst = (targets) => [...targets].sort((a, b) => trouble(a) - trouble(b));

// STRIP is how many breakers the overview has room for.
const STRIP = 24;

function Strip({ targets }) {
  if (!targets.length) return null;
  const all = worstFirst(targets);
  const more = all.slice(STRIP);
  const bad = more.filter((t) => t.breaker.state !== "closed").length;
  return html`<section aria-labelledby="h-breakers">
    <header><h2 id="h-breakers">Breakers</h2></header>
    <ul class="strip">${all.slice(0, STRIP).map((t) => html`<li class=${"breaker " + t.breaker.state}>
      <a href=${to("/targets") + "#" + encodeURIComponent(t.target)}><${Icon} name=${t.breaker.state} /><${Text} of=${t.target} most=${60} /> <b>${breakers[t.breaker.state] || t.breaker.state}</b>${t.breaker.state === "open" && " · " + took(t.breaker.half_open_in * 1e3)}</a>
    </li>`)}${more.length > 0 && html`<li class="breaker"><a href=${to("/targets")}>${count(more.length)} more${bad ? ", " + count(bad) + " of them not closed" : ""}</a></li>`}</ul>
  </section>`;
}

function Step({ n, title, children, text }) {
  return html`<li><h3>${n}. ${title}</h3><p>${children}</p><div class="code"><pre>${text}</pre><${Copy} text=${text} /></div></li>`;
}

// Empty is what a gateway shows that nothing was asked of in this time.
function Empty({ summary }) {
  const [state, setState] = useState({});
  const at = summary.data_address || "http://127.0.0.1:8080";
  const model = summary.mock ? "mock" : "YOUR_MODEL";
  const demo = () => {
    setState({ busy: true });
    post("/api/demo", {}).then((done) => { setState({ done }); again(); }, (error) => setState({ error }));
  };
  return html`<section class="empty">
    <p class="label">Saved so far</p>
    <p class="figure zero">$0</p>
    <p class="lead">No request came through this gateway ${here.value.query.since ? "in this range" : "in the last 24 hours"}. Three steps, and there are figures here:</p>
    <ol class="steps">
      <${Step} n="1" title="Point your SDK at it" text=${"export OPENAI_BASE_URL=" + at + "/v1"}>The OpenAI SDKs read their address from here.<//>
      <${Step} n="2" title="Ask for something" text=${`curl ${at}/v1/chat/completions \\\n  -H 'Content-Type: application/json' \\\n  -H 'Idempotency-Key: first-call' \\\n  -d '{"model": "${model}", "messages": [{"role": "user", "content": "Hello"}]}'`}>Any client does.<//>
      <${Step} n="3" title="Ask for the same again" text=${`curl -i ${at}/v1/chat/completions \\\n  -H 'Content-Type: application/json' \\\n  -H 'Idempotency-Key: first-call' \\\n  -d '{"model": "${model}", "messages": [{"role": "user", "content": "Hello"}]}'`}>The answer comes from the record, with <code>Oncegate-Outcome: replayed</code>, and costs nothing.<//>
    </ol>
    ${summary.mock && html`<p><button type="button" class="main" onClick=${demo} disabled=${state.busy}>${state.busy ? "Sending…" : "Send a demo request"}</button> <span class="note">One request, twice, to the built-in mock upstream.</span></p>`}
    ${state.done && html`<p role="status">It was sent: ${(state.done.outcomes || []).join(", ")}.</p>`}
    ${state.error && html`<p class="fault" role="alert">${state.error.message}</p>`}
  </section>`;
}
