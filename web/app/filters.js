// The range and the filters that most pages share.
import { html, useState } from "./library.js";
import { count, home, moment, outcomes, reasons, zone } from "./words.js";
import { ask, dimensions, filters, here, range, set } from "./address.js";
import { useAnswer } from "./api.js";
import { Choice, Icon, Text } from "./parts.js";

const RANGES = [["1h", "1 h"], ["today", "Today"], ["24h", "24 h"], ["7d", "7 d"], ["30d", "30 d"], ["90d", "90 d"]];

const browserZone = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
let zoneNames = null;
const allZones = () => (zoneNames = zoneNames || (Intl.supportedValuesOf ? Intl.supportedValuesOf("timeZone") : []));

function Zone() {
  const [all, setAll] = useState(false);
  const chosen = here.value.query.zone || "";
  const short = [...new Set(["UTC", browserZone, chosen].filter((z) => z && z !== home.value))];
  const choose = (e) => (e.target.value === "+" ? setAll(true) : set({ zone: e.target.value }));
  return html`<label class="zone"><span class="unseen">Time zone of days and times</span>
    <select value=${chosen} onChange=${choose}>
      <option value="">${home.value} (gateway)</option>
      ${(all ? allZones() : short).map((z) => html`<option value=${z}>${z}${z === browserZone ? " (browser)" : ""}</option>`)}
      ${!all && html`<option value="+">All zones…</option>`}
    </select>
  </label>`;
}

// Between takes two times, in the zone of this browser's clock.
function Between({ onDone }) {
  const take = (e) => {
    e.preventDefault();
    const form = new FormData(e.target);
    const iso = (name) => (form.get(name) ? new Date(form.get(name)).toISOString() : undefined);
    set({ since: iso("since"), until: iso("until") });
    onDone();
  };
  return html`<form class="pop" onSubmit=${take}>
    <label>From <input type="datetime-local" name="since" required /></label>
    <label>until <input type="datetime-local" name="until" /></label>
    <button type="submit">Show</button>
    <p class="note">By this browser's clock, ${browserZone}. Without an end: until now.</p>
  </form>`;
}

function Adding({ onDone, without }) {
  const [by, setBy] = useState("model");
  const { since, until } = range();
  const seen = useAnswer(ask("/api/report", { since, until, by }), { fresh: true });
  const names = seen.data ? [...seen.data.groups].sort((a, b) => b.requests - a.requests).slice(0, 200) : [];
  const listed = by === "outcome" ? Object.keys(outcomes) : by === "reason" ? reasons : [];
  const take = (e) => {
    e.preventDefault();
    const value = new FormData(e.target).get("value").trim();
    if (value) set({ [by]: value });
    onDone();
  };
  return html`<form class="pop" onSubmit=${take}>
    <label>Only where <select value=${by} onChange=${(e) => setBy(e.target.value)}>${dimensions.filter((d) => !without.includes(d)).map((d) => html`<option>${d}</option>`)}</select></label>
    <label>is <input name="value" list="filter-values" autocomplete="off" required ref=${(el) => el && !el.value && el.focus()} /></label>
    <datalist id="filter-values">${names.map((g) => html`<option value=${g[by]}>${count(g.requests)} requests</option>`)}${listed.filter((v) => !names.some((g) => g[by] === v)).map((v) => html`<option value=${v} />`)}</datalist>
    <button type="submit">Add</button>
  </form>`;
}

export function Filters({ dims = dimensions, timeless = false }) {
  const [open, setOpen] = useState("");
  const q = here.value.query;
  const since = q.until ? "" : q.since || "24h";
  const custom = !RANGES.some(([v]) => v === since);
  const active = Object.entries(filters()).filter(([d, v]) => v && dims.includes(d));
  const flip = (name) => setOpen(open === name ? "" : name);
  const esc = (e) => e.key === "Escape" && open && (e.stopPropagation(), setOpen(""));
  return html`<div class="filters" onKeyDown=${esc}>
    ${!timeless && html`<${Choice} label="Range" options=${RANGES} value=${since} onChange=${(v) => set({ since: v === "24h" ? undefined : v, until: undefined, ...(v === "today" && !q.zone && { zone: home.value }) })} />
    <button type="button" class="quiet" aria-expanded=${open === "range"} aria-pressed=${custom} onClick=${() => flip("range")}>${custom && q.since ? spanned(q) : "Between…"}</button>`}
    <${Zone} />
    <span class="space"></span>
    ${active.map(([d, v]) => html`<button type="button" class="chip" onClick=${() => set({ [d]: undefined })} title=${"Remove the filter " + d}><span>${d}</span> <${Text} of=${v} most=${30} /> <${Icon} name="cross" /></button>`)}
    ${dims.length > 0 && html`<button type="button" class="quiet" aria-expanded=${open === "filter"} onClick=${() => flip("filter")}>+ Filter</button>`}
    ${open === "range" && html`<${Between} onDone=${() => setOpen("")} />`}
    ${open === "filter" && html`<${Adding} onDone=${() => setOpen("")} without=${dimensions.filter((d) => !dims.includes(d))} />`}
  </div>`;
}

function spanned(q) {
  const text = (v) => (/^\d{4}-/.test(v) ? moment(v) : v + " ago");
  return text(q.since) + " – " + (q.until ? text(q.until) : "now");
}
