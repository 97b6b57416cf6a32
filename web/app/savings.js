// What was saved, by why it was shared.
import { html } from "./library.js";
import { decimal, nameless, pico, share } from "./money.js";
import { sharing } from "./words.js";
import { Num, Sum } from "./parts.js";
import { to } from "./address.js";

const none = () => ({ requests: 0, unbilled: 0, unsaved: 0, billed: 0n, saved: 0n });
const add = (sum, s) => {
  sum.requests += s.requests;
  sum.unbilled += nameless(s, "billed");
  sum.unsaved += nameless(s, "saved");
  sum.billed += pico(s.billed.usd);
  sum.saved += pico(s.saved.usd);
};

// byReason adds up groups by reason, the rest under "".
export function byReason(groups) {
  const sums = { "": none(), ...Object.fromEntries(Object.keys(sharing).map((r) => [r, none()])) };
  for (const g of groups) add(sums[g.reason in sharing ? g.reason : ""], g);
  return sums;
}

export function Savings({ sums }) {
  const all = none();
  for (const s of Object.values(sums)) for (const field in all) all[field] += s[field];
  const row = (label, s, kind) => html`<tr class=${kind}>
    <th scope="row">${label}</th>
    <td class="n"><${Num} n=${s.requests} /></td>
    <td class="n"><${Sum} usd=${decimal(s.billed + s.saved)} unpriced=${s.unbilled + s.unsaved} /></td>
    <td class="n"><${Sum} usd=${decimal(s.billed)} unpriced=${s.unbilled} /></td>
    <td class="n"><${Sum} usd=${decimal(s.saved)} unpriced=${s.unsaved} /></td>
    <td class="n">${share(s.saved, s.billed + s.saved)}</td>
  </tr>`;
  return html`<section aria-labelledby="h-savings">
    <header><h2 id="h-savings">Why it was shared</h2></header>
    <div class="scroll" tabindex="0" role="region" aria-label="Savings by reason"><table class="savings">
      <thead><tr><th scope="col">Reason</th><th scope="col" class="n">Requests</th><th scope="col" class="n">Would have been billed</th><th scope="col" class="n">Billed</th><th scope="col" class="n">Saved</th><th scope="col" class="n">Saved %</th></tr></thead>
      <tbody>
        ${Object.entries(sharing).map(([reason, label]) => row(html`<a href=${to("/requests", { reason })}>${label}</a> <code>${reason}</code>`, sums[reason], ""))}
        ${row("Not shared", sums[""], "rest")}
      </tbody>
      <tfoot>${row("All requests", all, "")}</tfoot>
    </table></div>
  </section>`;
}
