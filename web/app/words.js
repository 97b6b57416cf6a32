// How numbers, times and the gateway's own words are written for people.
import { signal } from "./library.js";
import { format, known } from "./calendar.js";

// home is the zone of the gateway's configuration, and zone the one that this
// page shows times in.
export const home = signal("UTC");
export const zone = signal("UTC");
// now moves on by itself, for ages.
export const now = signal(Date.now());

export const count = (n) => (n === null || n === undefined ? "–" : Number(n).toLocaleString("en-US"));

export function compact(n) {
  return Number(n).toLocaleString("en-US", { notation: "compact", maximumFractionDigits: 2 });
}

// parted writes a length in two units, such as minutes and seconds.
const parted = (n, per, unit, rest) => Math.floor(n / per) + " " + unit + (n % per ? " " + (n % per) + " " + rest : "");

// took writes a length of time given in milliseconds. What is rounded up to 60
// seconds is a minute.
export function took(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 10) return Number(ms.toPrecision(2)) + " ms";
  if (ms < 999.5) return Math.round(ms) + " ms";
  const s = ms / 1000;
  if (s < 59.95) return Number(s.toPrecision(3)) + " s";
  if (s < 3599.5) return parted(Math.round(s), 60, "min", "s");
  if (s < 86370) return parted(Math.round(s / 60), 60, "h", "min");
  return parted(Math.round(s / 3600), 24, "d", "h");
}

export function size(bytes) {
  if (bytes === null || bytes === undefined) return "–";
  if (bytes < 1024) return bytes + " B";
  const mib = bytes / (1 << 20);
  return mib < 1 ? Number((bytes / 1024).toPrecision(3)) + " KiB" : Number(mib.toPrecision(3)) + " MiB";
}

export const clock = (t) => format(known(zone.value), { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" }).format(t);
export const day = (t) => format(known(zone.value), { day: "numeric", month: "short" }).format(t);
export const minute = (t) => format(known(zone.value), { hour: "2-digit", minute: "2-digit", hourCycle: "h23" }).format(t);
export const full = (t) => format(known(zone.value), { dateStyle: "medium", timeStyle: "long" }).format(t);

// moment is a time of day, with its day unless that is today.
export function moment(t) {
  t = new Date(t);
  return day(t) === day(new Date()) ? clock(t) : day(t) + ", " + clock(t);
}

export const outcomes = {
  executed: "ran its own upstream call",
  coalesced: "answered by a call already in flight",
  replayed: "answered from a finished record",
  bypassed: "ran without protection: the store was away",
  refused: "answered by the gateway, with no upstream call",
  failed: "the upstream failed, after its attempts",
  unknown: "nobody knows whether it happened",
};

export const sharing = {
  retry_marked: "Retries that say so",
  owed: "Answers owed after a lost connection",
  twin: "Twins in flight",
  key: "Idempotency keys",
  within_ttl: "Repeats within the TTL",
};

export const reasons = [
  ...Object.keys(sharing),
  "circuit_open", "target_held", "budget_exhausted", "attempts_exhausted", "retry_after_exceeds_cap", "retry_after_exceeds_deadline",
  "quota_spent", "overloaded", "deadline", "failure_memo", "upstream_credential", "unreachable", "stream_broken", "response_lost", "ambiguous",
  "unkeyed", "store_away", "draining", "client_gone", "key_reused", "key_invalid", "key_required", "in_flight", "result_gone", "key_expired",
  "not_allowed", "not_found", "bad_request", "too_large", "cross_origin", "unauthorized", "method_not_allowed", "unsupported_encoding", "internal",
];
