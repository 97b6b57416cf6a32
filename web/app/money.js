// Money is an exact decimal text of dollars. It is added up and shown as whole
// pico-dollars, and never goes through a float.

const PICO = 12;

// pico reads a decimal text; null is what nobody knows.
export function pico(text) {
  if (text === null || text === undefined || text === "") return null;
  const m = /^(-?)(\d+)(?:\.(\d+))?$/.exec(String(text));
  if (!m) return null;
  const n = BigInt(m[2] + (m[3] || "").padEnd(PICO, "0").slice(0, PICO));
  return m[1] ? -n : n;
}

// decimal writes pico-dollars as the exact text that pico reads.
export function decimal(p) {
  const sign = p < 0n ? "-" : "";
  const digits = (p < 0n ? -p : p).toString().padStart(PICO + 1, "0");
  const part = digits.slice(-PICO).replace(/0+$/, "");
  return sign + digits.slice(0, -PICO) + (part && "." + part);
}

const grouped = (digits) => digits.replace(/\B(?=(\d{3})+$)/g, ",");

// dollars is what people read: whole cents from a dollar on, four significant
// digits below, and never $0.00 for something.
export function dollars(p) {
  if (p === null) return "unpriced";
  if (p < 0n) return "−" + dollars(-p);
  if (p === 0n) return "$0";
  const digits = p.toString();
  const keep = digits.length > PICO ? digits.length - PICO + 2 : 4;
  let rounded = p;
  if (digits.length > keep) {
    const unit = 10n ** BigInt(digits.length - keep);
    rounded = ((p + unit / 2n) / unit) * unit;
  }
  const text = rounded.toString().padStart(PICO + 1, "0");
  const whole = text.slice(0, -PICO);
  const part = text.slice(-PICO);
  if (whole !== "0") return "$" + grouped(whole) + "." + part.slice(0, 2);
  return "$0." + part.replace(/0+$/, "").padEnd(2, "0");
}

// nameless says how many requests without a price are in the billed or saved
// part of a sum: such have tokens.
export const nameless = (s, part) => (s[part].tokens.input + s[part].tokens.output ? s.unpriced_requests : 0);

// summed is dollars that were added up. Where nothing of it had a price it is not $0.
export const summed = (p, unpriced) => (unpriced && p === 0n ? "unpriced" : dollars(p));

export const addUp = (values) => values.reduce((sum, v) => (v === null ? sum : sum + v), 0n);

// share writes a part of a whole. Something is never 0%, nor less than all 100%.
export function share(part, whole) {
  part = BigInt(part);
  whole = BigInt(whole);
  if (whole === 0n) return "–";
  if (part === 0n) return "0%";
  if (part === whole) return "100%";
  const mille = (part * 2000n + whole) / (whole * 2n);
  if (mille === 0n) return "<0.1%";
  if (mille >= 1000n && part < whole) return ">99.9%";
  return (Number(mille) / 10).toFixed(1) + "%";
}

// drawn is money as the length of a line or bar, where a float is enough.
export const drawn = (p) => (p === null ? null : Number(p) / 1e12);
