// One stream tells what happens. It is quiet while nobody looks.
import { signal } from "./library.js";
import { beat, headers, refusal, tokenWanted } from "./api.js";
import { home, now } from "./words.js";

// lastDay is the summary of the last 24 hours, as the stream last told it.
export const lastDay = signal(null);
export const connected = signal(false);
const listeners = new Set();
// onRequest has each new request told to f, until what it gives is called.
export function onRequest(f) {
  listeners.add(f);
  return () => listeners.delete(f);
}

// REFRESH is how often, at most, figures are asked for because of what the
// stream told, in milliseconds.
const REFRESH = 5e3;

let last = "";
let stop = null;
let wait = 2000;
let refreshed = Date.now();
let stale = false;

function take(event) {
  if (event.id) last = event.id;
  if (event.retry) wait = event.retry;
  if (!event.data) return;
  let data;
  try {
    data = JSON.parse(event.data);
  } catch {
    return;
  }
  if (event.name === "summary") {
    const before = lastDay.peek();
    lastDay.value = data;
    if (data.zone) home.value = data.zone;
    stale = stale || (before && JSON.stringify(before.total) !== JSON.stringify(data.total));
  } else if (event.name === "request") {
    for (const f of listeners) f(data);
  }
}

async function hear(body) {
  const decoder = new TextDecoder();
  let rest = "";
  let event = {};
  for (const reader = body.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += decoder.decode(value, { stream: true });
    const lines = rest.split(/\r\n|\r|\n/);
    rest = lines.pop();
    for (const line of lines) {
      if (line === "") {
        take(event);
        event = {};
        continue;
      }
      const at = line.indexOf(":");
      const field = at < 0 ? line : line.slice(0, at);
      const text = at < 0 ? "" : line.slice(at + 1).replace(/^ /, "");
      if (field === "data") event.data = event.data === undefined ? text : event.data + "\n" + text;
      else if (field === "id") event.id = text;
      else if (field === "event") event.name = text;
      else if (field === "retry" && /^\d+$/.test(text)) event.retry = Number(text);
    }
  }
}

async function listen() {
  if (stop || document.hidden || tokenWanted.peek()) return;
  const mine = (stop = new AbortController());
  try {
    const answer = await fetch("/api/events", { headers: headers({ Accept: "text/event-stream", ...(last && { "Last-Event-ID": last }) }), signal: mine.signal });
    if (!answer.ok) throw await refusal(answer);
    connected.value = true;
    await hear(answer.body);
  } catch {
    // It is opened again below.
  }
  if (stop === mine) {
    stop = null;
    connected.value = false;
    setTimeout(listen, wait);
  }
}

function quiet() {
  if (!stop) return;
  const mine = stop;
  stop = null;
  connected.value = false;
  mine.abort();
}

export function follow() {
  document.addEventListener("visibilitychange", () => (document.hidden ? quiet() : listen()));
  tokenWanted.subscribe((wanted) => wanted || listen());
  setInterval(() => {
    if (document.hidden) return;
    now.value = Date.now();
    if (stale && now.value - refreshed >= REFRESH) {
      stale = false;
      refreshed = now.value;
      beat.value++;
    }
  }, 1000);
}
