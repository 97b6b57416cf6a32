// The small parts that all pages are made of.
import { html, signal, useEffect, useRef, useState } from "./library.js";
import { decimal, dollars, pico } from "./money.js";
import { count, full, moment, now, outcomes, took } from "./words.js";
import { again } from "./api.js";
import { changed, here, to } from "./address.js";

const shapes = {
  executed: "M5 3.2v9.6L13 8z",
  coalesced: "M2.5 3.5h2.2C7 3.5 7 8 9.500 8h4M2.500 12.500h2.200C7 12.500 7 8 9.500 8M11 5.500 13.500 8 11 10.500",
  replayed: "M3.200 8a4.800 4.800 0 1 0 1.600-3.600M4.800 1.800v2.800h2.800",
  bypassed: "M2.500 10.500C4 4.500 12 4.500 13.200 9.500M13.600 6v3.700h-3.700",
  refused: "M8 2.200a5.800 5.800 0 1 0 0 11.600A5.800 5.800 0 0 0 8 2.200M4.500 8h7",
  failed: "M4 4l8 8M12 4l-8 8",
  unknown: "M5.800 6A2.300 2.300 0 1 1 8.800 8.100C8.200 8.400 8 8.800 8 9.600M8 12.400v.200",
  closed: "M3 8.500 6.500 12 13 4.500",
  half_open: "M8 2.500a5.500 5.500 0 1 0 0 11zM8 2.500a5.500 5.500 0 0 1 0 11",
  open: "M8 2.500 14.200 13H1.800zM8 6.500v3M8 11.200v.200",
  copy: "M5.500 5.500h7v8h-7zM10.500 5.500v-3h-7v8h2",
  sun: "M8 5.200a2.800 2.800 0 1 0 0 5.600 2.800 2.800 0 0 0 0-5.600M8 1.500v1.300M8 13.200v1.300M1.500 8h1.300M13.200 8h1.300M3.400 3.400l.9.9M11.700 11.700l.9.9M3.400 12.600l.9-.9M11.700 4.300l.9-.9",
  moon: "M13.200 9.600A5.600 5.600 0 0 1 6.400 2.800a5.600 5.600 0 1 0 6.800 6.800z",
  system: "M2 3h12v8H2zM6 14h4M8 11v3",
  cross: "M4.500 4.500l7 7M11.500 4.500l-7 7",
};
const solid = new Set(["executed", "half_open"]);

export function Icon({ name }) {
  return html`<svg class=${"icon" + (solid.has(name) ? " solid" : "")} viewBox="0 0 16 16" aria-hidden="true"><path d=${shapes[name] || shapes.unknown} /></svg>`;
}

export function Outcome({ of }) {
  return html`<span class=${"outcome " + (outcomes[of] ? of : "")} title=${outcomes[of]}><${Icon} name=${of} />${of}</span>`;
}

// Money shows few digits, and all of them in its title.
export function Money({ usd, none = "unpriced" }) {
  const p = pico(usd);
  if (p === null) return html`<span class="none">${none}</span>`;
  return html`<data class="money" value=${decimal(p)} title=${"$" + decimal(p)}>${dollars(p)}</data>`;
}

// Sum is money that was added up. Where nothing of it had a price it is not $0.
export function Sum({ usd, unpriced }) {
  return unpriced > 0 && pico(usd) === 0n ? html`<span class="none" title=${count(unpriced) + " requests have no price"}>unpriced</span>` : html`<${Money} usd=${usd} />`;
}

export function Time({ at, whole }) {
  if (!at) return html`<span class="none">–</span>`;
  return html`<time datetime=${at} title=${full(new Date(at)) + " · " + at}>${whole ? full(new Date(at)) : moment(at)}</time>`;
}

export function Age({ at }) {
  return html`<time datetime=${at} title=${full(new Date(at)) + " · " + at}>${took(Math.max(0, now.value - new Date(at)))}</time>`;
}

export const Num = ({ n }) => html`<span class=${n ? "" : "zero"}>${count(n)}</span>`;

// MOST is how much of a text that others typed is shown: a name of 10 KB is
// still a name, and no page.
const MOST = 80;
export function Text({ of, most = MOST }) {
  if (of === null || of === undefined || of === "") return html`<span class="none">–</span>`;
  const text = String(of);
  return html`<bdi title=${text.length > most ? text.slice(0, 1000) : null}>${text.length > most ? text.slice(0, most) + "…" : text}</bdi>`;
}

const shortKey = (key) => key.slice(0, 10) + "…";
export function Key({ of }) {
  return of ? html`<a class="mono" href=${to("/records/" + of)} title=${of}>${shortKey(of)}</a>` : html`<span class="none">–</span>`;
}

export function Copy({ text, label = "Copy" }) {
  const [done, setDone] = useState("");
  useEffect(() => {
    if (!done) return;
    const timer = setTimeout(() => setDone(""), 1500);
    return () => clearTimeout(timer);
  }, [done]);
  const copy = () => navigator.clipboard.writeText(text).then(() => setDone("Copied"), () => setDone("Not allowed here"));
  return html`<button type="button" class="quiet" onClick=${copy}><${Icon} name="copy" /><span aria-live="polite">${done || label}</span></button>`;
}

// Fault is an error, which is neither nothing nor zero.
export function Fault({ error, old }) {
  if (!error) return null;
  return html`<div class="fault" role="alert">
    <p><strong>${old ? "These figures are not the newest." : "This could not be read."}</strong> <${Text} of=${error.message} most=${500} /></p>
    <button type="button" onClick=${again}>Try again</button>
  </div>`;
}

// Answer shows what was asked for: its fault, old figures while new ones come,
// or nothing yet.
// told: its fault is shown elsewhere.
export function Answer({ of, lines = 4, told: elsewhere, children }) {
  const { data, error, loading } = of;
  return html`<div class=${"answer" + (loading && data ? " loading" : "")} aria-busy=${loading}>
    ${!elsewhere && html`<${Fault} error=${error} old=${data} />`}
    ${data ? children(data) : !error && html`<div class="coming" role="status"><span class="unseen">Loading</span>${Array.from({ length: lines }, () => html`<i></i>`)}</div>`}
  </div>`;
}

export const Nothing = ({ children }) => html`<p class="nothing">${children}</p>`;

// Pages leads to the first page of a list and to the next one.
export function Pages({ next, first = "First", more = "More" }) {
  return html`<nav class="pages" aria-label="Pages">
    ${here.value.query.cursor && html`<a href=${changed({})}>${"← " + first}</a>`}
    ${next && html`<a href=${changed({ cursor: next })} rel="next">${more + " →"}</a>`}
  </nav>`;
}

// Choice is a row of buttons of which one is on.
export function Choice({ label, options, value, onChange }) {
  return html`<div class="choice" role="group" aria-label=${label}>
    ${options.map(([v, text]) => html`<button type="button" aria-pressed=${v === value} onClick=${() => onChange(v)}>${text}</button>`)}
  </div>`;
}

// Dialog is modal, and gives the focus back when it goes.
export function Dialog({ title, onClose, children, wide }) {
  const ref = useRef();
  useEffect(() => {
    const before = document.activeElement;
    ref.current.showModal();
    ref.current.querySelector("input")?.focus();
    return () => before && before.isConnected && before.focus();
  }, []);
  return html`<dialog ref=${ref} class=${wide ? "wide" : ""} aria-label=${title} onCancel=${(e) => { e.preventDefault(); onClose(); }} onClick=${(e) => e.target === ref.current && onClose()}>
    <div class="inside"><h2>${title}</h2>${children}</div>
  </dialog>`;
}

// told is what a screen reader is told of.
export const told = signal("");
export const tell = (text) => (told.value = text);
