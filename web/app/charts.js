// What the overview's charts are drawn from.
import { html, useMemo } from "./library.js";
import { addUp, drawn, nameless, pico, summed } from "./money.js";
import { compact, count, outcomes, took } from "./words.js";
import { Chart } from "./chart.js";

const STEPS = { minute: 60, quarter: 900, hour: 3600, day: 86400 };
// A chart has room for this many bars.
const BARS = 120;

// gathered puts points into as few buckets as there is room for. Sums may be
// gathered; quantiles may not.
export function gathered(points, step, from, until, merge) {
  let wide = step;
  if (step < 86400) wide = [60, 300, 900, 1800, 3600, 10800, 21600, 43200, 86400].find((w) => w >= step && (until - from) / w <= BARS) || 86400;
  const buckets = new Map();
  for (const p of points) {
    const at = Date.parse(p.at) / 1e3;
    const t = wide === step ? at : Math.floor(at / wide) * wide;
    if (!buckets.has(t)) buckets.set(t, []);
    buckets.get(t).push(p);
  }
  const xs = [...buckets.keys()].sort((a, b) => a - b);
  return { xs, rows: xs.map((t) => merge(buckets.get(t))), step: wide };
}

const seconds = (t) => Date.parse(t) / 1e3;

// reach is what a chart of a range shows: whole buckets.
const reach = ({ xs, step }, from, until) => [Math.min(from, xs[0] ?? from), Math.max(until, (xs[xs.length - 1] ?? until - step) + step)];

function sums(series, merge) {
  const step = STEPS[series.step] || 60;
  const from = seconds(series.since);
  const until = seconds(series.until);
  const all = gathered(series.points, step, from, until, merge);
  return { ...all, span: reach(all, from, until) };
}

export function MoneyChart({ series }) {
  const made = useMemo(() => {
    const s = sums(series, (ps) => Object.fromEntries(["billed", "saved"].flatMap((part) => [
      [part, addUp(ps.map((p) => pico(p.total[part].usd)))], ["un" + part, ps.reduce((sum, p) => sum + nameless(p.total, part), 0)],
    ])));
    const line = (name, label) => ({
      label, color: name, drawn: s.rows.map((r) => drawn(r[name])), text: (i) => summed(s.rows[i][name], s.rows[i]["un" + name]),
      all: summed(addUp(s.rows.map((r) => r[name])), s.rows.some((r) => r["un" + name])),
    });
    return { ...s, series: [line("billed", "Billed"), line("saved", "Saved")] };
  }, [series]);
  const empty = made.rows.every((r) => r.billed === 0n && r.saved === 0n) && (made.rows.some((r) => r.unbilled || r.unsaved) ? "Nothing had a price in this time." : "Nothing was billed or saved in this time.");
  return html`<${Chart} id="money" title="Billed and saved" ...${made} empty=${empty} stacked axis=${(v) => (v === 0 ? "$0" : v < 0.01 ? "$" + v.toPrecision(1) : v < 10 ? "$" + v.toFixed(2) : "$" + compact(v))} />`;
}

export function OutcomeChart({ series }) {
  const made = useMemo(() => {
    const names = Object.keys(outcomes);
    const s = sums(series, (ps) => Object.fromEntries(names.map((n) => [n, ps.reduce((sum, p) => sum + p.total.outcomes[n], 0)])));
    const of = (n) => s.rows.reduce((sum, r) => sum + r[n], 0);
    return { ...s, series: names.filter((n) => of(n)).map((n) => ({ label: n, color: n, drawn: s.rows.map((r) => r[n]), text: (i) => count(s.rows[i][n]), all: count(of(n)) })) };
  }, [series]);
  return html`<${Chart} id="outcomes" title="Outcomes" ...${made} empty=${!made.series.length && "No request came in this time."} stacked axis=${whole} />`;
}

const whole = (v) => (Number.isInteger(v) ? compact(v) : "");

const FAULTS = [["429", "429", "refused"], ["5xx", "5xx", "failed"], ["timeout", "Time-outs", "bypassed"], ["unreachable", "Unreachable", "unknown"], ["other", "Other", "muted"]];

export function FaultChart({ pulse, range }) {
  const made = useMemo(() => {
    const s = gathered(pulse.points, STEPS[pulse.step] || 60, ...range, (ps) => {
      const row = Object.fromEntries(FAULTS.map(([n]) => [n, ps.reduce((sum, p) => sum + (p.attempts[n] || 0), 0)]));
      return { ...row, retries: ps.reduce((sum, p) => sum + p.retries, 0), ok: ps.reduce((sum, p) => sum + (p.attempts.ok || 0), 0) };
    });
    const of = (n) => s.rows.reduce((sum, r) => sum + r[n], 0);
    const line = (n, label, color, more) => ({ label, color, drawn: s.rows.map((r) => r[n]), text: (i) => count(s.rows[i][n]), all: count(of(n)), ...more });
    const some = FAULTS.filter(([n]) => of(n));
    return {
      ...s, ok: of("ok"), span: reach(s, ...range),
      series: some.length || of("retries") ? [...some.map(([n, label, c]) => line(n, label, c)), line("retries", "Retries", "text", { line: true, style: "dash" })] : [],
    };
  }, [pulse, ...range]);
  const { ok, ...rest } = made;
  const empty = !made.series.length && (ok ? "No attempt failed: all " + count(ok) + " were answered." : "No attempt was made in this time.");
  return html`<${Chart} id="faults" title="Upstream errors" ...${rest} empty=${empty} stacked axis=${whole} note="this node" />`;
}

// GAP is how many steps without a call break a line.
const GAP = 5;

export function PaceChart({ pulse, range }) {
  const made = useMemo(() => {
    const xs = [];
    const rows = [];
    const step = STEPS[pulse.step] || 60;
    for (const p of pulse.points) {
      const t = seconds(p.at);
      if (xs.length && t - xs[xs.length - 1] > GAP * step) {
        xs.push(xs[xs.length - 1] + step);
        rows.push({});
      }
      xs.push(t);
      rows.push({ op50: p.overhead_ms?.p50, op99: p.overhead_ms?.p99, up50: p.upstream_ms?.p50, up99: p.upstream_ms?.p99 });
    }
    const line = (n, label, color, more) => {
      const last = rows.findLast((r) => r[n] > 0);
      return { label, color, drawn: rows.map((r) => r[n] || null), text: (i) => took(rows[i][n]), all: last ? took(last[n]) : "–", ...more };
    };
    return { xs, span: [Math.min(range[0], xs[0] ?? range[0]), Math.max(range[1], (xs[xs.length - 1] ?? 0) + step)], step, series: [
      line("up99", "Upstream p99", "executed", { style: "faint" }), line("up50", "p50", "executed"),
      line("op99", "Overhead p99", "saved", { style: "faint" }), line("op50", "p50", "saved"),
    ] };
  }, [pulse, ...range]);
  const empty = pulse.points.every((p) => !(p.overhead_ms?.p50 >= 0 || p.upstream_ms?.p50 >= 0)) && "No call was timed in this time.";
  return html`<${Chart} id="pace" title="Overhead and upstream time" ...${made} empty=${empty} log axis=${took} note="the newest, this node" />`;
}
