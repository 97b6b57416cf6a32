// Writes of which nobody knows whether they happened. People decide; nothing is
// ever run again from here.
import { html, useState } from "./library.js";
import { count, size } from "./words.js";
import { ask, changed, filters, here, to } from "./address.js";
import { again, post, useAnswer } from "./api.js";
import { Age, Answer, Dialog, Icon, Key, Nothing, Pages, tell, Text, Time } from "./parts.js";
import { Filters } from "./filters.js";

const deeds = {
  executed: { does: "It happened", title: "These happened?", one: "This happened?", how: "Found in the payee's list of payments", then: "Repeats of the key are told that it ran, with 410 result_gone: its answer is not known. It is never run again." },
  "not-executed": { does: "It did not happen", title: "These did not happen?", one: "This did not happen?", how: "Not in the payee's list of payments", then: "The key is free again: the next request with it runs the write. Look at the upstream's own records first." },
  probe: { does: "Ask the probe", title: "Ask the probes?", one: "Ask the probe?", how: "Why it is asked now", then: "The upstream is asked what became of it. What it finds settles the record; what it does not find changes nothing." },
};

const recorded = { completed: "recorded: it happened", tombstone: "recorded: it happened, and its answer is not known", released: "recorded: it did not happen, and the key is free" };

// decide does it, and gives what came of each: {key, ok, text}.
async function decide(deed, list, reason) {
  if (deed !== "probe") {
    const { results } = await post("/api/records/resolve", { resolve: list.map((r) => ({ key: r.key, as: deed, reason, ...(r.fence && { fence: r.fence }) })) });
    return results.map((r) => ({ key: r.key, ok: r.status === 200, text: r.status === 200 ? recorded[r.state] || "recorded: " + r.state : r.error?.message || "status " + r.status }));
  }
  const out = [];
  for (const r of list) {
    try {
      const found = await post("/api/records/" + r.key + "/probe", { reason });
      out.push({ key: r.key, ok: true, text: (found.found ? "found: " : "not found: ") + found.state });
    } catch (e) {
      out.push({ key: r.key, ok: false, text: e.message });
    }
  }
  return out;
}

const Write = ({ r }) => html`<span class="mono"><${Text} of=${r.method} most=${10} /> <${Text} of=${r.path} most=${60} /></span>`;

function Deciding({ deed, list, onClose }) {
  const [state, setState] = useState({});
  const about = deeds[deed];
  const go = (e) => {
    e.preventDefault();
    setState({ busy: true });
    decide(deed, list, new FormData(e.target).get("reason").trim()).then(
      (results) => { setState({ results }); tell(count(results.filter((r) => r.ok).length) + " of " + count(results.length) + " done"); again(); },
      (error) => setState({ error }),
    );
  };
  const result = (r) => state.results?.find((x) => x.key === r.key);
  return html`<${Dialog} title=${state.results ? "What came of it" : list.length === 1 ? about.one : about.title} onClose=${onClose} wide>
    <ul class="picked">${list.map((r) => html`<li><b><${Text} of=${r.tool} most=${30} /></b> <${Write} r=${r} /> <span class="note">sent <${Age} at=${r.dispatched || r.claimed} /> ago</span>
      ${result(r) && html`<p class=${result(r).ok ? "good" : "warn"} role="status"><${Icon} name=${result(r).ok ? "closed" : "open"} /> <${Text} of=${result(r).text} most=${300} /></p>`}</li>`)}</ul>
    ${state.results
      ? html`<p class="buttons"><button type="button" class="main" onClick=${onClose}>Close</button></p>`
      : html`<form class="stack" onSubmit=${go}>
          <p>${about.then}</p>
          <label>How do you know? <input name="reason" required maxlength="1000" placeholder=${about.how} /></label>
          ${state.error && html`<p class="fault" role="alert">${state.error.message}</p>`}
          <p class="note">The decision and its reason go to the audit.</p>
          <p class="buttons"><button type="button" onClick=${onClose}>Cancel</button><button type="submit" class="main" disabled=${state.busy}>${state.busy ? "…" : about.does}</button></p>
        </form>`}
  <//>`;
}

function Last({ r }) {
  const last = r.last || r.events?.[r.events.length - 1];
  if (!last) return html`<span class="none">sent, and nothing since</span>`;
  return html`<${Text} of=${last.reason || last.what} most=${80} />${last.status && ` (${last.status})`}<div class="second"><${Time} at=${last.at} /></div>`;
}

function Body({ r }) {
  const hash = r.request_sha256 || r.body_sha256;
  const bytes = r.request_size ?? r.body_size;
  const fields = r.body || r.fields;
  return html`${bytes !== undefined && html`<span>${size(bytes)}</span> `}${hash ? html`<span class="mono note" title=${"SHA-256 " + hash}>${hash.slice(0, 12)}…</span>` : bytes === undefined && html`<span class="none">–</span>`}
    ${fields && html`<div class="mono note"><${Text} of=${typeof fields === "string" ? fields : JSON.stringify(fields)} most=${200} /></div>`}`;
}

export function Doubt() {
  const q = here.value.query;
  const { tool } = filters();
  const list = useAnswer(ask("/api/records", { state: "unknown", tool, limit: 200, cursor: q.cursor }), { live: true });
  const audit = useAnswer(ask("/api/audit", { limit: 20 }), { live: true });
  const [picked, setPicked] = useState([]);
  const [deciding, setDeciding] = useState(null);
  return html`<h1>In doubt</h1>
    <p class="note">Writes that were sent and never answered. Nothing here runs again by itself: look at the upstream, then say what happened.</p>
    <${Filters} dims=${["tool"]} timeless />
    <${Answer} of=${list}>${(data) => {
      const rows = data.records;
      if (!rows.length && q.cursor) return html`<${Nothing}>No write of this page is in doubt any more. <a href=${changed({})}>To the first page</a><//>`;
      if (!rows.length) return html`<${Nothing}>No write is in doubt${tool ? " of this tool" : ""}.<//>`;
      const chosen = rows.filter((r) => picked.includes(r.key));
      const flip = (key) => setPicked(picked.includes(key) ? picked.filter((k) => k !== key) : [...picked, key]);
      const all = chosen.length === rows.length;
      const button = (deed, on, small) => html`<button type="button" class=${small ? "small" : ""} onClick=${() => setDeciding({ deed, list: on })} disabled=${!on.length || (deed === "probe" && on.some((r) => r.probe === false))}>${deeds[deed].does}</button>`;
      return html`
        <div class="bar" role="group" aria-label="For those that are chosen"><span>${chosen.length ? count(chosen.length) + " chosen" : "For several at once, choose them:"}</span> ${Object.keys(deeds).map((d) => button(d, chosen))}</div>
        <div class="scroll" tabindex="0" role="region" aria-label="Writes in doubt"><table>
          <thead><tr><th scope="col"><input type="checkbox" aria-label="Choose all" checked=${all} onChange=${() => setPicked(all ? [] : rows.map((r) => r.key))} /></th><th scope="col">Age, record</th><th scope="col">Tool, caller</th><th scope="col">Write, its body</th><th scope="col">Last event</th><th scope="col"><span class="unseen">Decide</span></th></tr></thead>
          <tbody>${rows.map((r) => html`<tr key=${r.key} class="row still">
            <td><input type="checkbox" aria-label=${"Choose " + r.tool + " " + r.key.slice(0, 8)} checked=${picked.includes(r.key)} onChange=${() => flip(r.key)} /></td>
            <th scope="row"><${Age} at=${r.dispatched || r.claimed} /><div class="second"><${Key} of=${r.key} /></div></th>
            <td><${Text} of=${r.tool} most=${30} />${r.unkeyed && html`<span class="why" title="It came without a key: there is nothing that a repeat could be given">unkeyed</span>`}<div class="second"><${Text} of=${r.principal} most=${24} />${r.user && html`, <${Text} of=${r.user} most=${24} />`}</div></td>
            <td class="write"><${Write} r=${r} /><div class="second"><${Body} r=${r} /></div></td>
            <td class="last"><${Last} r=${r} /></td>
            <td class="n deeds">${Object.keys(deeds).map((d) => (d === "probe" && r.probe === false ? null : button(d, [r], true)))}</td>
          </tr>`)}</tbody>
        </table></div>
        <${Pages} next=${data.next} />
      `;
    }}<//>
    ${deciding && html`<${Deciding} ...${deciding} onClose=${() => { setDeciding(null); setPicked([]); }} />`}
    ${audit.data?.audit.length > 0 && html`<section aria-labelledby="h-audit"><header><h2 id="h-audit">Decided before</h2></header>
      <div class="scroll" tabindex="0" role="region" aria-label="Audit"><table>
        <thead><tr><th scope="col">Time</th><th scope="col">By</th><th scope="col">Decided</th><th scope="col">Tool</th><th scope="col">Write</th><th scope="col">Reason</th><th scope="col">Record</th></tr></thead>
        <tbody>${audit.data.audit.map((a) => html`<tr><th scope="row"><${Time} at=${a.at} /></th><td><${Text} of=${a.actor} /></td><td>${deeds[a.as]?.does || html`<${Text} of=${a.what} />`}</td><td><${Text} of=${a.tool} most=${30} /></td><td><${Write} r=${a} /></td><td><${Text} of=${a.reason} most=${200} /></td><td><${Key} of=${a.key} /></td></tr>`)}</tbody>
      </table></div></section>`}`;
}
