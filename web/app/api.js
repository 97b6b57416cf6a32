// Asking the gateway. What was there stays until something newer is.
import { signal, useEffect, useRef } from "./library.js";
import { home } from "./words.js";

const TOKEN = "oncegate.token";
export const tokenWanted = signal(false);
export const token = () => sessionStorage.getItem(TOKEN);
export function useToken(text) {
  sessionStorage.setItem(TOKEN, text);
  tokenWanted.value = false;
  again();
}

// RETRY is how long what the gateway could not answer waits to be asked for
// again, in milliseconds.
const RETRY = 5e3;

// turn counts how often everything was asked for anew.
export const turn = signal(0);
export const again = () => turn.value++;
// beat counts how often what lives was asked for anew.
export const beat = signal(0);

export class Refused extends Error {
  constructor(status, { message, param, code } = {}) {
    super(message || "the gateway answered " + status);
    Object.assign(this, { status, param, code });
  }
}

export function headers(more) {
  return token() ? { Authorization: "Bearer " + token(), ...more } : { ...more };
}

export async function refusal(answer) {
  if (answer.status === 401) tokenWanted.value = true;
  const body = await answer.json().catch(() => ({}));
  return new Refused(answer.status, body.error || {});
}

export async function get(address, stop) {
  let answer;
  try {
    answer = await fetch(address, { headers: headers(), signal: stop });
  } catch (e) {
    if (e.name === "AbortError") throw e;
    throw new Refused(0, { message: "The gateway can't be reached: is it running?" });
  }
  if (!answer.ok) throw await refusal(answer);
  return answer.json();
}

// getAll asks for all pages of a list.
async function getAll(address, stop, list) {
  const data = await get(address, stop);
  for (let { next } = data; next; ) {
    const more = await get(address + "&cursor=" + encodeURIComponent(next), stop);
    data[list].push(...more[list]);
    next = more.next;
  }
  return data;
}

export async function post(address, body) {
  let answer;
  try {
    answer = await fetch(address, { method: "POST", headers: headers({ "Content-Type": "application/json" }), body: JSON.stringify(body) });
  } catch {
    throw new Refused(0, { message: "The gateway can't be reached, and may have taken it: look before you try again." });
  }
  if (!answer.ok) throw await refusal(answer);
  return answer.json();
}

// useAnswer gives {data, error, loading} of an address; of none nothing is asked.
// fresh: nothing stands in until its answer is there. live: it is asked for
// again when the stream tells of something new; round: and when that changes.
// list: what all pages of are asked for.
// Where the gateway is away, or can't answer, it is asked until it does.
export function useAnswer(address, { fresh = false, live = false, round: own = 0, list } = {}) {
  const state = useRef(null);
  if (!state.current) state.current = signal({ data: null, error: null, loading: true, of: null });
  const s = state.current;
  const round = turn.value + own + (live ? beat.value : 0);
  useEffect(() => {
    if (!address) return;
    const stop = new AbortController();
    let timer;
    const old = s.peek();
    s.value = { ...old, data: fresh && old.of !== address ? null : old.data, loading: true };
    const load = () =>
      (list ? getAll : get)(address, stop.signal, list).then(
        (data) => {
          if (data.zone && !address.includes("zone=")) home.value = data.zone;
          s.value = { data, error: null, loading: false, of: address };
        },
        (error) => {
          if (error.name === "AbortError") return;
          s.value = { ...s.peek(), error, loading: false };
          if (!error.status || error.status >= 500) timer = setTimeout(retry, RETRY);
        },
      );
    const retry = () => (document.hidden ? (timer = setTimeout(retry, RETRY)) : load());
    load();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [address, round]);
  return s.value;
}
