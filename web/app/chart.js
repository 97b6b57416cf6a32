// A chart over time, which is a table too. Bars are stacked, lines are not.
import { html, useLayoutEffect, useMemo, useRef, useState } from "./library.js";
import { midnight } from "./calendar.js";
import { clock, day, minute, zone } from "./words.js";
import { here, set } from "./address.js";

// In pixels: the drawing, and what the axes take of it.
const HEIGHT = 190;
const PAD = { top: 8, end: 6, bottom: 22, start: 54 };
const BASE = HEIGHT - PAD.bottom;

// levels are the round values on the y axis that a greatest one needs.
export function levels(most) {
  if (!(most > 0)) return [0, 1];
  const rough = most / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const unit = [1, 2, 2.5, 5, 10].find((m) => m * power >= rough * 0.999) * power;
  return Array.from({ length: Math.ceil(most / unit - 1e-9) + 1 }, (_, i) => i * unit);
}

// decades are the powers of ten around all values.
function decades(values) {
  const from = Math.floor(Math.log10(Math.min(...values)));
  const till = Math.ceil(Math.log10(Math.max(...values)));
  return Array.from({ length: Math.max(1, till - from) + 1 }, (_, i) => 10 ** (from + i));
}

const TICKS = [300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200];
const DAYS = [1, 2, 7, 14, 28];

// hours are the round times on the x axis. Days begin where the zone's do, also
// where the clocks change; span is in seconds.
export function hours(span, room, name) {
  const most = Math.max(2, Math.floor(room / 76));
  const every = TICKS.find((s) => (span[1] - span[0]) / s <= most);
  const days = every ? 1 : DAYS.find((d) => (span[1] - span[0]) / 86400 / d <= most) || 56;
  const out = [];
  for (let t = Date.parse(midnight(name, span[0] * 1e3)) / 1e3, n = 0; t <= span[1] && out.length < 200; n++) {
    const next = Date.parse(midnight(name, (t + 36 * 3600) * 1e3)) / 1e3;
    if (every) for (let at = t; at < next; at += every) out.push({ at, text: at === t ? day(at * 1e3) : minute(at * 1e3) });
    else if (n % days === 0) out.push({ at: t, text: day(t * 1e3) });
    t = next;
  }
  return out.filter(({ at }) => at >= span[0] && at <= span[1]);
}

function Drawing({ xs, series, stacked, log, axis, step, span, at, onAt, label }) {
  const box = useRef();
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const watch = new ResizeObserver(() => box.current && setWidth(box.current.clientWidth));
    watch.observe(box.current);
    setWidth(box.current.clientWidth);
    return () => watch.disconnect();
  }, []);
  const place = (t) => PAD.start + ((t - span[0]) / (span[1] - span[0] || 1)) * (width - PAD.start - PAD.end);
  const middle = (t) => place(t) + (stacked ? (place(t + step) - place(t)) / 2 : 0);
  const drawing = useMemo(() => {
    if (!width) return null;
    const bars = stacked ? series.filter((s) => !s.line) : [];
    const lines = stacked ? series.filter((s) => s.line) : series;
    const tops = xs.map((_, i) => bars.reduce((sum, s) => sum + (s.drawn[i] || 0), 0));
    const values = [...tops, ...lines.flatMap((s) => s.drawn.filter((v) => v !== null))];
    const marks = log ? decades(values.filter((v) => v > 0)) : levels(values.reduce((a, b) => Math.max(a, b), 0));
    const [low, high] = [marks[0], marks[marks.length - 1]].map((v) => (log ? Math.log10(v) : v));
    const rise = (v) => BASE - (((log ? Math.log10(v) : v) - low) / (high - low || 1)) * (BASE - PAD.top);
    const r = (n) => Math.round(n * 10) / 10;
    const floor = xs.map(() => 0);
    const paths = bars.map((s) => {
      let d = "";
      xs.forEach((t, i) => {
        if (!s.drawn[i]) return;
        const all = place(t + step) - place(t);
        const wide = Math.max(0.8, Math.min(40, all * 0.8));
        const top = rise(floor[i] + s.drawn[i]);
        // Something is never nothing, be it ever so little beside the rest.
        const bottom = Math.max(rise(floor[i]), top + 0.7);
        d += `M${r(place(t) + (all - wide) / 2)} ${r(bottom)}h${r(wide)}V${r(top)}h${r(-wide)}z`;
        floor[i] += s.drawn[i];
      });
      return html`<path class=${"bar c-" + s.color} d=${d} />`;
    });
    for (const s of lines) {
      let d = "";
      let alone = "";
      const has = (i) => i < xs.length && s.drawn[i] !== null && s.drawn[i] !== undefined && !(log && s.drawn[i] <= 0);
      xs.forEach((t, i) => {
        if (!has(i)) return;
        const at = r(middle(t)) + " " + r(rise(s.drawn[i]));
        const joins = i > 0 && has(i - 1);
        if (!joins && !has(i + 1)) alone += "M" + at + "h0";
        else d += (joins ? "L" : "M") + at;
      });
      if (alone) paths.push(html`<path class=${"alone c-" + s.color} d=${alone} />`);
      paths.push(html`<path class=${"line c-" + s.color + (s.style ? " " + s.style : "")} d=${d} />`);
    }
    return html`
      ${marks.map((v) => html`<line class="grid" x1=${PAD.start} x2=${width - PAD.end} y1=${rise(v)} y2=${rise(v)} /><text class="y" x=${PAD.start - 8} y=${rise(v) + 4}>${axis(v)}</text>`)}
      ${hours(span, width - PAD.start - PAD.end, zone.value).filter((h) => place(h.at) > 18 && place(h.at) < width - 22).map((h) => html`<text class="x" x=${place(h.at)} y=${HEIGHT - 4}>${h.text}</text>`)}
      ${paths}`;
  }, [xs, series, width, ...span, zone.value]);
  const look = (e) => {
    const x = e.clientX - box.current.getBoundingClientRect().left;
    let best = null;
    xs.forEach((t, i) => (best === null || Math.abs(middle(t) - x) < Math.abs(middle(xs[best]) - x)) && (best = i));
    onAt(best);
  };
  return html`<div class="drawing" dir="ltr" ref=${box}>
    <svg role="img" aria-label=${label} width=${width} height=${HEIGHT} onPointerMove=${look} onPointerLeave=${() => onAt(null)}>
      ${drawing}
      ${at !== null && width > 0 && html`<line class="guide" x1=${middle(xs[at])} x2=${middle(xs[at])} y1=${PAD.top} y2=${BASE} />`}
    </svg>
  </div>`;
}

// when names a point: its day, or its minute.
export function when(t, step) {
  return step >= 86400 ? day(t * 1e3) : day(t * 1e3) + ", " + (step < 60 ? clock(t * 1e3) : minute(t * 1e3));
}

// Chart draws series of {label, color, drawn, text(i), all}. all is what the
// legend says where no point is looked at. span is in seconds.
export function Chart({ id, title, note, xs, series, empty, step = 60, ...rest }) {
  const [at, setAt] = useState(null);
  const shown = (here.value.query.table || "").split(",").filter(Boolean);
  const table = shown.includes(id);
  const flip = () => set({ table: (table ? shown.filter((x) => x !== id) : [...shown, id]).join(",") }, { replace: true });
  const i = at !== null && at < xs.length ? at : null;
  return html`<section class="chart" aria-labelledby=${"h-" + id}>
    <header>
      <h2 id=${"h-" + id}>${title}</h2>
      <button type="button" class="quiet" aria-pressed=${table} onClick=${flip} disabled=${!!empty}>Table<span class="unseen"> of ${title}</span></button>
    </header>
    <p class="legend">
      ${series.map((s) => html`<span><i class=${"swatch c-" + s.color + (s.style ? " " + s.style : "")}></i>${s.label} <b>${i === null ? s.all : s.text(i)}</b></span>`)}
      <span class="at">${i === null ? note : when(xs[i], step)}</span>
    </p>
    ${empty
      ? html`<div class="blank">${empty}</div>`
      : table
        ? html`<div class="scroll short" tabindex="0" role="region" aria-label=${title + ", as a table"}><table>
            <thead><tr><th scope="col">Time</th>${series.map((s) => html`<th scope="col" class="n">${s.label}</th>`)}</tr></thead>
            <tbody>${xs.map((t, j) => html`<tr><th scope="row">${when(t, step)}</th>${series.map((s) => html`<td class="n">${s.text(j)}</td>`)}</tr>`).reverse()}</tbody>
          </table></div>`
        : html`<${Drawing} xs=${xs} series=${series} step=${step} at=${i} onAt=${setAt} label=${title + ": the button Table has its figures"} ...${rest} />`}
  </section>`;
}
