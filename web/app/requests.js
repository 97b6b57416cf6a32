// All requests, newest first.
import { html, useEffect, useRef, useState } from "./library.js";
import { clock, count, day, full, took } from "./words.js";
import { ask, filters, go, here, range, set, to } from "./address.js";
import { again, useAnswer } from "./api.js";
import { connected, onRequest } from "./live.js";
import { Answer, Money, Nothing, Outcome, Pages, Text } from "./parts.js";
import { Filters } from "./filters.js";

const PAGE = 50;
// TAIL is how many rows the tail grows to.
const TAIL = 200;

// One request is told from others by its place in the log: an upstream's id is
// that of all that share its answer.
const same = (a) => (b) => a.place === b.place;
// An id with a part such as "..", or with none between two slashes, stands in no
// path: it is searched for.
const astray = (id) => id.split("/").some((part) => /^\.{0,2}$/.test(part));
export const alone = (r) => (astray(r.id) ? to("/requests", { q: r.id }) : to("/requests/" + encodeURIComponent(r.id), { place: r.place }));
export const detail = (r) => (r.record ? to("/records/" + r.record) : alone(r));

// shared says whether a request was given another's answer, called whether it
// made a call of its own.
export const shared = (r) => r.outcome === "coalesced" || r.outcome === "replayed";
export const called = (r) => !shared(r) && r.upstream_ms > 0;

export function tokens(t) {
  if (!t) return html`<span class="none">–</span>`;
  return html`<span title=${`${count(t.input)} input${t.cached ? `, of which ${count(t.cached)} from the provider's own prompt cache` : ""}; ${count(t.output)} output`}>${count(t.input)}<span class="sep"> / </span>${count(t.output)}</span>`;
}

function Row({ r, fresh }) {
  const open = (e) => {
    if (e.target.closest("a, button") || getSelection().toString()) return;
    go(detail(r));
  };
  const t = new Date(r.at);
  const today = day(t) === day(new Date());
  return html`<tr class=${"row" + (fresh ? " fresh" : "")} onClick=${open}>
    <th scope="row"><a href=${detail(r)}><time datetime=${r.at} title=${full(t) + " · " + r.at}>${clock(t)}</time></a>${!today && html`<div class="second">${day(t)}</div>`}</th>
    <td><${Outcome} of=${r.outcome} /><div class="second">${second(r)}</div></td>
    <td><${Text} of=${r.tool || r.model} most=${44} /><div class="second"><${Text} of=${r.operation} most=${44} /></div></td>
    <td><${Text} of=${r.user} most=${24} /><div class="second" title="The gateway key"><${Text} of=${r.key} most=${24} /></div></td>
    <td class="n">${count(r.attempts)}</td>
    <td class="n">${called(r) ? took(r.upstream_ms) : "–"}<div class="second" title="The gateway's own part, before the first attempt">${called(r) && "+" + took(r.overhead_ms)}</div></td>
    <td class="n">${tokens(r.tokens)}</td>
    <td class="n"><${Money} usd=${r.billed} none=${r.tokens && called(r) ? "unpriced" : "–"} /></td>
    <td class="n"><${Money} usd=${r.saved} none=${r.tokens && shared(r) ? "unpriced" : "–"} /></td>
  </tr>`;
}

// second is the line under an outcome: why, and what else there was.
function second(r) {
  const parts = [];
  if (r.reason) parts.push(html`<${Text} of=${r.reason} most=${40} />`);
  if (r.status >= 400) parts.push(html`<span title="The status that the client got">${r.status}</span>`);
  if (r.left) parts.push(html`<span title="The client left before the whole answer was there">client left</span>`);
  return parts.map((p, i) => html`${i > 0 && " · "}${p}`);
}

export function Rows({ list, fresh = new Set(), label = "Requests" }) {
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${label}><table class="rows">
    <thead><tr><th scope="col">Time</th><th scope="col">Outcome</th><th scope="col">Model or tool, operation</th><th scope="col">User, key</th>
      <th scope="col" class="n" title="Upstream attempts">Attempts</th><th scope="col" class="n" title="The upstream's time; under it the gateway's own, before the first attempt">Upstream<div class="second">+ overhead</div></th>
      <th scope="col" class="n" title="Input / output">Tokens</th><th scope="col" class="n">Billed</th><th scope="col" class="n">Saved</th></tr></thead>
    <tbody>${list.map((r) => html`<${Row} key=${r.place} r=${r} fresh=${fresh.has(r.place)} />`)}</tbody>
  </table></div>`;
}

// matches says whether a request that the stream told of belongs to a list.
function matches(r, wanted) {
  return Object.entries(wanted).every(([d, v]) => {
    if (!v) return true;
    const has = d === "provider" ? r.provider ?? (r.target || "").split("/")[0] : r[d];
    return (has || "-") === v;
  });
}

export function Requests() {
  const q = here.value.query;
  const wanted = filters();
  const address = ask("/api/requests", { ...range(), ...wanted, q: q.q, limit: PAGE, cursor: q.cursor });
  const page = useAnswer(address);
  // The tail: what came since the page was read. It waits behind a button while
  // its reader is anywhere but at the top. out is how many it leaves out: those
  // that the stream does not tell of, and what it has no room for.
  const none = { of: address, shown: [], waiting: [], out: 0 };
  const [tail, setTail] = useState(none);
  const mine = tail.of === address ? tail : none;
  const grown = (list, t) => ({ ...t, [list]: t[list].slice(0, TAIL), out: t.out + Math.max(0, t[list].length - TAIL) });
  const follows = !q.cursor && !q.q && !q.until && q.live !== "off";
  const body = useRef();
  useEffect(() => {
    if (!follows) return;
    return onRequest((r) => {
      setTail((old) => {
        const t = { ...(old.of === address ? old : none) };
        t.out += r.skipped || 0;
        if (!matches(r, wanted) || t.shown.some(same(r)) || t.waiting.some(same(r))) return t;
        const busy = scrollY > 40 || body.current?.contains(document.activeElement) || body.current?.matches(":hover") || getSelection().toString();
        if (busy) return grown("waiting", { ...t, waiting: [r, ...t.waiting] });
        return grown("shown", { ...t, shown: [r, ...t.waiting, ...t.shown], waiting: [] });
      });
    });
  }, [address, follows]);
  const show = () => setTail(grown("shown", { ...mine, shown: [...mine.waiting, ...mine.shown], waiting: [] }));
  const load = () => {
    setTail(none);
    scrollTo(0, 0);
    again();
  };
  const search = (e) => {
    e.preventDefault();
    set({ q: new FormData(e.target).get("q").trim() });
  };
  return html`
    <header class="top"><h1>Requests</h1>
      <form role="search" class="search" onSubmit=${search}>
        <input type="search" name="q" aria-label="Search by record, request id or idempotency key" placeholder="Record, request id or Idempotency-Key" defaultValue=${q.q || ""} key=${q.q || ""} data-search onInput=${(e) => e.target.value === "" && q.q && set({ q: undefined })} />
        <kbd aria-hidden="true">/</kbd>
      </form>
      <button type="button" class="quiet" aria-pressed=${follows} disabled=${!!(q.cursor || q.q || q.until)} onClick=${() => set({ live: q.live === "off" ? undefined : "off" })}>
        <i class=${"dot" + (follows && connected.value ? " on" : "")}></i>Live</button>
    </header>
    <${Filters} />
    <${Answer} of=${page} lines=${8}>${(data) => {
      const filtered = Object.values(wanted).some(Boolean);
      const known = new Set(mine.shown.map((r) => r.place));
      const waiting = mine.waiting.filter((r) => !data.requests.some(same(r)));
      const list = [...(follows ? mine.shown.filter((r) => !data.requests.some(same(r))) : []), ...data.requests];
      return html`
        <div class="arrivals" aria-live="polite">${follows && waiting.length > 0 && html`<button type="button" class="chip" onClick=${show}>Show ${count(waiting.length)} new</button>`}
          ${follows && mine.out > 0 && html`<button type="button" class="chip" onClick=${load}>${count(mine.out)} more came${filtered ? ", of any kind," : ""} and are not here: load the newest</button>`}</div>
        <div ref=${body}>${list.length ? html`<${Rows} list=${list} fresh=${known} />` : html`<${None} query=${q} wanted=${wanted} more=${data.next} />`}</div>
        <${Pages} next=${data.next} first="Newest" more="Older" />`;
    }}<//>
  `;
}

function None({ query, wanted, more }) {
  if (more) return html`<${Nothing}>Nothing in this part of the log. The search goes on in what is older.<//>`;
  if (query.cursor) return html`<${Nothing}>Nothing older is in this range.<//>`;
  if (query.q) return html`<${Nothing}>Nothing has this key or id in this range. A record's key is looked for by 8 or more of its digits; a request id and an Idempotency-Key whole.<//>`;
  if (Object.values(wanted).some(Boolean)) return html`<${Nothing}>No request in this range matches the filters.<//>`;
  return html`<${Nothing}>No request came in this range. <a href=${to("/")}>The overview</a> shows how to send one.<//>`;
}
