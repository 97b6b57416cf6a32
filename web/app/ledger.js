// The ledger: who spent what, what it saved, at which prices, and what if.
import { html, useState } from "./library.js";
import { decimal, nameless, pico, share } from "./money.js";
import { count } from "./words.js";
import { ask, changed, filters, here, range, set, to } from "./address.js";
import { headers, refusal, token, useAnswer } from "./api.js";
import { Answer, Choice, Money, Nothing, Num, Sum, Text, Time } from "./parts.js";
import { Filters } from "./filters.js";

const BY = [["day", "Day"], ["model", "Model"], ["user", "User"], ["key", "Key"], ["tool", "Tool"], ["provider", "Provider"], ["operation", "Operation"], ["outcome", "Outcome"], ["reason", "Reason"]];

// Download is a link, or where a token is needed a button that fetches what the
// link would have led to.
function Download({ address, name, children }) {
  const [fault, setFault] = useState("");
  if (!token()) return html`<a href=${address} download=${name}>${children}</a>`;
  const fetchIt = async () => {
    setFault("");
    try {
      const answer = await fetch(address, { headers: headers() });
      if (!answer.ok) throw await refusal(answer);
      const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(await answer.blob()), download: name });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60e3);
    } catch (e) {
      setFault(e.message);
    }
  };
  return html`<button type="button" class="link" onClick=${fetchIt}>${children}</button>${fault && html` <span role="alert" class="warn">${fault}</span>`}`;
}

function Sums({ s, head, kind }) {
  return html`<tr class=${kind}>
    <th scope="row">${head}</th><td class="n"><${Num} n=${s.requests} /></td><td class="n"><${Num} n=${s.saved.requests} /></td>
    <td class="n"><${Num} n=${s.billed.tokens.input + s.billed.tokens.output} /></td><td class="n"><${Sum} usd=${s.billed.usd} unpriced=${nameless(s, "billed")} /></td>
    <td class="n"><${Sum} usd=${s.saved.usd} unpriced=${nameless(s, "saved")} /></td><td class="n">${share(pico(s.saved.usd), pico(s.billed.usd) + pico(s.saved.usd))}</td>
    <td class="n"><${Num} n=${s.unpriced_requests} /></td><td class="n"><${Num} n=${s.duplicate_writes_prevented} /></td>
  </tr>`;
}

// GROUPS is how many lines the ledger has room for. The foot is of all.
const GROUPS = 200;

function Sheet({ by }) {
  const where = { ...range(), ...filters(), by };
  const report = useAnswer(ask("/api/report", where), { live: true });
  const narrow = (g) => (by === "day" || g[by] === "-" ? html`<${Text} of=${g[by] === "-" ? "none" : g[by]} />` : html`<a href=${changed({ [by]: g[by] })}><${Text} of=${g[by]} most=${50} /></a>`);
  return html`<${Answer} of=${report} lines=${6}>${(data) => {
    const groups = [...data.groups];
    if (by === "day") groups.sort((a, b) => (a.day < b.day ? 1 : -1));
    else groups.sort((a, b) => { const x = pico(a.billed.usd) + pico(a.saved.usd), y = pico(b.billed.usd) + pico(b.saved.usd); return x < y ? 1 : x > y ? -1 : b.requests - a.requests; });
    if (!data.total.requests) return html`<${Nothing}>Nothing is booked in this range.<//>`;
    return html`<div class="scroll" tabindex="0" role="region" aria-label=${"The ledger by " + by}><table>
      <thead><tr><th scope="col">${BY.find(([v]) => v === by)[1]}</th><th scope="col" class="n">Requests</th><th scope="col" class="n">Not sent</th><th scope="col" class="n">Tokens billed</th><th scope="col" class="n">Billed</th><th scope="col" class="n">Saved</th><th scope="col" class="n">Saved %</th><th scope="col" class="n">Unpriced</th><th scope="col" class="n">Writes prevented</th></tr></thead>
      <tbody>${groups.slice(0, GROUPS).map((g) => html`<${Sums} key=${g[by]} s=${g} head=${narrow(g)} />`)}</tbody>
      <tfoot><${Sums} s=${data.total} head="All" /></tfoot>
    </table></div>
    <p class="note">${groups.length > GROUPS && count(groups.length - GROUPS) + " more are in the CSV, and in the sum. "}From <${Time} at=${data.since} whole /> to <${Time} at=${data.until} whole />, days by ${data.zone}. Export: <${Download} address=${ask("/api/report", { ...where, format: "csv" })} name="oncegate-report.csv">CSV<//> · <${Download} address=${ask("/api/report", where)} name="oncegate-report.json">JSON<//></p>`;
  }}<//>`;
}

function WhatIf() {
  const q = here.value.query;
  const monthly = q.monthly || "1000000";
  const rate = q.rate || "0.1";
  const answer = useAnswer(ask("/api/report", { ...range(), ...filters(), by: "model", monthly, retry_rate: rate }));
  const take = (e) => {
    e.preventDefault();
    const form = new FormData(e.target);
    set({ monthly: form.get("monthly").replace(/[ ,_]/g, ""), rate: String(Number(form.get("rate").replace("%", "").trim()) / 100) }, { replace: true });
  };
  return html`<section aria-labelledby="h-if" class="whatif"><header><h2 id="h-if">What if</h2></header>
    <form class="inline" onSubmit=${take}><label><input name="monthly" inputmode="numeric" defaultValue=${count(monthly)} size="10" required /> requests a month</label>
      <label>of which <input name="rate" inputmode="decimal" defaultValue=${+(Number(rate) * 100).toFixed(4)} size="4" required /> % are asked for again</label><button type="submit">Reckon</button></form>
    <${Answer} of=${answer} lines=${2}>${(data) => (data.what_if?.lines.length ? html`<div class="scroll" tabindex="0" role="region" aria-label="What if"><table>
      <thead><tr><th scope="col">Model</th><th scope="col" class="n">A call</th><th scope="col" class="n">A month without</th><th scope="col" class="n">With oncegate</th><th scope="col" class="n">Saved</th></tr></thead>
      <tbody>${data.what_if.lines.filter((l) => l.name !== "-").map((l) => html`<tr><th scope="row"><${Text} of=${l.name} most=${50} /></th>${["usd_call", "usd_without", "usd_with", "usd_saved"].map((f) => html`<td class="n"><${Money} usd=${l[f]} /></td>`)}</tr>`)}</tbody>
    </table></div><p class="note">By the mean price of this range's billed calls. A model of which some calls have no price has none here.</p>` : html`<${Nothing}>No call was billed in this range: there is nothing to reckon with.<//>`)}<//></section>`;
}

const aged = (date) => count(Math.max(0, Math.floor((Date.now() - Date.parse(date)) / 86400e3))) + " days";

function Prices() {
  const q = here.value.query;
  const prices = useAnswer(ask("/api/prices", { q: q.price, limit: 50, cursor: q.prices }));
  return html`
    <${Answer} of=${prices}>${(data) => html`
      ${data.unpriced.length > 0 && html`<section id="unpriced" aria-labelledby="h-unpriced"><header><h2 id="h-unpriced">Models without a price</h2></header>
        <p class="note">Their calls are counted, and never as $0. A price under <code>prices</code> in the configuration counts from then on.</p>
        <div class="scroll" tabindex="0" role="region" aria-label="Models without a price"><table><thead><tr><th scope="col">Model</th><th scope="col" class="n">Requests</th><th scope="col" class="n">Tokens</th></tr></thead>
        <tbody>${data.unpriced.map((u) => html`<tr><th scope="row"><a href=${to("/requests", { model: u.model })}><${Text} of=${u.model} /></a></th><td class="n">${count(u.requests)}</td><td class="n">${count(u.tokens)}</td></tr>`)}</tbody></table></div></section>`}
      <section aria-labelledby="h-prices"><header><h2 id="h-prices">Prices</h2><input type="search" aria-label="Search models" placeholder="Model" value=${q.price || ""} onChange=${(e) => set({ price: e.target.value.trim(), prices: undefined }, { replace: true })} /></header>
        <p class="note">Dollars a million tokens. The table is of ${data.table.date}, ${aged(data.table.date)} old; its source: <${Text} of=${data.table.source} most=${120} />.</p>
        ${data.prices.length ? html`<div class="scroll" tabindex="0" role="region" aria-label="Prices"><table>
          <thead><tr><th scope="col">Model</th><th scope="col">From</th><th scope="col" class="n">Input</th><th scope="col" class="n">Output</th><th scope="col" class="n">Cached input</th><th scope="col" class="n">Cache write, 5 min</th><th scope="col" class="n">Cache write, 1 h</th></tr></thead>
          <tbody>${data.prices.map((p) => html`<tr><th scope="row"><${Text} of=${p.model} />${p.vendor && html`<span class="why"><${Text} of=${p.vendor} most=${30} /></span>`}</th><td>${p.varies && html`<span class="warn" title="By hour, day or size of the input; this is what holds now, for little input">varies</span> `}${p.source === "config" ? "configuration" : html`<${Text} of=${p.source} />`}</td>${["input", "output", "cached_input", "cache_write_5m", "cache_write_1h"].map((f) => html`<td class="n">${p[f] === null || p[f] === undefined ? html`<span class="none">–</span>` : "$" + decimal(pico(p[f]))}</td>`)}</tr>`)}</tbody>
        </table></div>` : html`<${Nothing}>No model of the table has this in its name.<//>`}
        <nav class="pages" aria-label="Pages of prices">${q.prices && html`<a href=${changed({ prices: undefined })}>← First</a>`}${data.next && html`<a href=${changed({ prices: data.next })} rel="next">More →</a>`}</nav>
      </section>`}<//>`;
}

export function Ledger() {
  const by = BY.some(([v]) => v === here.value.query.by) ? here.value.query.by : "day";
  return html`<h1>Ledger</h1>
    <${Filters} />
    <${Choice} label="By" options=${BY} value=${by} onChange=${(v) => set({ by: v === "day" ? undefined : v })} />
    <${Sheet} by=${by} />
    <${WhatIf} />
    <${Prices} />`;
}
