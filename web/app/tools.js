// The tools: how often their writes ran, and how often they were kept from it.
import { html, useState } from "./library.js";
import { count, took } from "./words.js";
import { ask, filters, here, range, to } from "./address.js";
import { useAnswer } from "./api.js";
import { Answer, Nothing, Num, Pages, Text } from "./parts.js";
import { Filters } from "./filters.js";

// leaves are the values of an object, by their paths.
export function leaves(value, path = "") {
  if (value === null || typeof value !== "object") return [[path, value]];
  return Object.entries(value).flatMap(([k, v]) => leaves(v, path ? path + "." + k : k));
}

function Settings({ of }) {
  const { name, base_url, calls, executed, prevented, unknown, open, policy, configured, ...rest } = of;
  const shown = [...leaves(rest), ...leaves(policy || {})].map(([path, v]) => (path.endsWith("_ms") && typeof v === "number" ? [path.slice(0, -3), took(v)] : [path, v]));
  return html`<dl class="facts small">${shown.map(([path, v]) => html`<div><dt><${Text} of=${path.replaceAll("_", " ").replaceAll(".", ", ")} /></dt><dd><${Text} of=${v === true ? "yes" : v === false ? "no" : v} /></dd></div>`)}</dl>`;
}

function Tool({ t, open, onOpen }) {
  const id = "policy-" + t.name;
  return html`<tr class="row">
      <th scope="row"><button type="button" class="plain" aria-expanded=${open} onClick=${onOpen}><${Text} of=${t.name} most=${40} /></button>${t.configured === false && html`<span class="why">no longer configured</span>`}</th>
      <td><span class="note"><${Text} of=${t.base_url} most=${60} /></span></td>
      <td class="n"><a href=${to("/requests", { tool: t.name })}>${count(t.calls)}</a></td><td class="n"><${Num} n=${t.executed} /></td><td class="n"><${Num} n=${t.prevented} /></td><td class="n"><${Num} n=${t.unknown} /></td>
      <td class="n">${t.open ? html`<a class="badge" href=${to("/doubt", { tool: t.name })}>${count(t.open)} in doubt</a>` : html`<span class="zero">0</span>`}</td>
    </tr>
    ${open && html`<tr class="under"><td colspan="7" id=${id}><${Settings} of=${t} /></td></tr>`}`;
}

export function Tools() {
  const q = here.value.query;
  const { tool, key, user } = filters();
  const list = useAnswer(ask("/api/tools", { ...range(), tool, key, user, cursor: q.cursor }), { live: true });
  const [open, setOpen] = useState(null);
  return html`<h1>Tools</h1>
    <${Filters} dims=${["tool", "user", "key"]} />
    <${Answer} of=${list}>${(data) => (data.tools.length ? html`
      <div class="scroll" tabindex="0" role="region" aria-label="Tools"><table>
        <thead><tr><th scope="col">Tool</th><th scope="col">Leads to</th><th scope="col" class="n">Calls</th><th scope="col" class="n">Executed</th><th scope="col" class="n">Duplicates prevented</th><th scope="col" class="n">Unknown</th><th scope="col" class="n">Open</th></tr></thead>
        <tbody>${data.tools.map((t) => html`<${Tool} key=${t.name} t=${t} open=${open === t.name} onOpen=${() => setOpen(open === t.name ? null : t.name)} />`)}</tbody>
      </table></div>
      <p class="note">A tool's name shows its policy.</p>
      <${Pages} next=${data.next} />` : html`<${Nothing}>No tool is configured. With one under <code>tools</code> in the configuration, agents write through <code>/tools/NAME/</code>, and each keyed write runs at most once.<//>`)}<//>`;
}
