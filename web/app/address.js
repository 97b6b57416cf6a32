// The page's whole state stands in its address.
import { signal } from "./library.js";
import { midnight } from "./calendar.js";
import { zone } from "./words.js";

export const dimensions = ["outcome", "reason", "operation", "model", "provider", "tool", "user", "key"];
// What goes along when one page leads to another.
const lasting = ["since", "until", "zone", ...dimensions];

const read = () => ({ path: location.pathname, query: Object.fromEntries(new URLSearchParams(location.search)) });
export const here = signal(read());
addEventListener("popstate", (e) => {
  here.value = read();
  stand(e.state?.y, here.peek(), Date.now() + 5000);
});

// stand has who came back to a page where they were in it, once it is there.
function stand(y, page, until) {
  if (y > 0 && Date.now() < until) requestAnimationFrame(() => {
    if (here.peek() !== page) return;
    if (document.documentElement.scrollHeight >= y + innerHeight) scrollTo(0, y);
    else stand(y, page, until);
  });
}

const write = (path, query) => {
  const text = new URLSearchParams(Object.entries(query).filter(([, v]) => v !== undefined && v !== null && v !== "")).toString();
  return path + (text && "?" + text);
};

// to is the address of a page, with what lasts of this one.
export function to(path, change = {}) {
  const kept = Object.fromEntries(lasting.map((name) => [name, here.value.query[name]]));
  return write(path, { ...kept, ...change });
}

// changed is this page's address with other state. A page of a list is one of
// the list as it was.
export function changed(change) {
  return write(here.value.path, { ...here.value.query, cursor: undefined, ...change });
}

export function go(address, { replace = false } = {}) {
  const { path, query } = here.peek();
  if (!replace) history.replaceState({ y: scrollY }, "");
  history[replace ? "replaceState" : "pushState"](null, "", address);
  here.value = read();
  if (here.value.path !== path || here.value.query.cursor !== query.cursor) scrollTo(0, 0);
}

export const set = (change, options) => go(changed(change), options);

// range is what the API is asked for: since, until and zone.
export function range(query = here.value.query) {
  const since = query.since === "today" ? midnight(query.zone || zone.value) : query.since || "24h";
  return { since, until: query.until, zone: query.zone };
}

export const filters = (query = here.value.query) => Object.fromEntries(dimensions.map((d) => [d, query[d]]));

export const ask = (path, query = {}) => write(path, query);
