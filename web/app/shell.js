// What stands around every page, and the keys.
import { effect, html, render, useState } from "./library.js";
import { count, home, took, zone } from "./words.js";
import { go, here, to } from "./address.js";
import { token, tokenWanted, useToken } from "./api.js";
import { connected, follow, lastDay } from "./live.js";
import { Dialog, Icon, Nothing, told } from "./parts.js";
import { helping } from "./keys.js";
import { Overview } from "./overview.js";
import { Requests } from "./requests.js";
import { OneRequest, Record } from "./record.js";
import { Tools } from "./tools.js";
import { Doubt } from "./doubt.js";
import { Targets } from "./targets.js";
import { Ledger } from "./ledger.js";

const PAGES = [["/", "Overview"], ["/requests", "Requests"], ["/doubt", "In doubt"], ["/tools", "Tools"], ["/targets", "Targets"], ["/ledger", "Ledger"]];

function Page() {
  const { path } = here.value;
  const [, first, ...rest] = path.split("/");
  let name = "";
  try {
    name = decodeURIComponent(rest.join("/"));
  } catch {
    // It is shown as it stands.
  }
  if (first === "requests" && name) return html`<${OneRequest} key=${name} id=${name} />`;
  if (first === "records" && name) return html`<${Record} key=${name} name=${name} />`;
  const pages = { "": Overview, requests: Requests, tools: Tools, doubt: Doubt, targets: Targets, ledger: Ledger };
  const page = !name && pages[first];
  return page ? html`<${page} />` : html`<h1>Not here</h1><${Nothing}>There is no page at this address. <a href=${to("/")}>The overview</a> is the first.<//>`;
}

const THEME = "oncegate.theme";
const THEMES = [["", "system", "By the system"], ["light", "sun", "Light"], ["dark", "moon", "Dark"]];

function theme(name) {
  if (name) document.documentElement.dataset.theme = name;
  else delete document.documentElement.dataset.theme;
}

function Theme() {
  const [name, setName] = useState(localStorage.getItem(THEME) || "");
  const choose = (next) => {
    localStorage.setItem(THEME, next);
    theme(next);
    setName(next);
  };
  return html`<div class="choice themes" role="group" aria-label="Colours">
    ${THEMES.map(([v, icon, text]) => html`<button type="button" aria-pressed=${v === name} title=${text} aria-label=${text} onClick=${() => choose(v)}><${Icon} name=${icon} /></button>`)}
  </div>`;
}

function Menu() {
  const { path } = here.value;
  const s = lastDay.value;
  return html`<nav class="menu" aria-label="Pages">
    <a class="mark" href=${to("/")} aria-label="oncegate, overview"><svg viewBox="0 0 16 16" aria-hidden="true"><path d="M8 1.500a6.500 6.500 0 1 0 6.500 6.500" /><circle cx="8" cy="8" r="2.400" /></svg><span>oncegate</span></a>
    <ul>${PAGES.map(([at, name]) => {
      const on = at === "/" ? path === "/" : path.startsWith(at) || (at === "/requests" && path.startsWith("/records/"));
      return html`<li><a href=${to(at)} aria-current=${on ? "page" : null}>${name}${at === "/doubt" && s?.doubts > 0 && html` <span class="badge">${count(s.doubts)}</span>`}</a></li>`;
    })}</ul>
    <div class="foot">
      <${Theme} />
      <p><i class=${"dot" + (connected.value ? " on" : "")}></i>${connected.value ? "live" : "not live"}</p>
      ${s && html`<p title="The gateway's version, and since when it runs">${s.version} · up ${took(s.uptime_ms)}</p>`}
      <p><button type="button" class="quiet" onClick=${() => (helping.value = true)}>Keys <kbd>?</kbd></button></p>
    </div>
  </nav>`;
}

function Token() {
  const [odd, setOdd] = useState(false);
  const enter = (e) => {
    e.preventDefault();
    const text = new FormData(e.target).get("token").trim();
    try {
      new Headers({ Authorization: "Bearer " + text });
    } catch {
      return setOdd(true);
    }
    useToken(text);
  };
  return html`<main class="token"><form onSubmit=${enter}>
    <h1>The token, please</h1>
    <p>This gateway's admin listener is guarded by <code>auth.admin_token</code>. It is kept in this tab only, until the tab is closed.</p>
    ${(odd || token()) && html`<p class="fault" role="alert">${odd ? "This has a character in it that no token can have, such as a quotation mark “ or a space of no width. Type it by hand." : "That was not the token."}</p>`}
    <label>Token <input type="password" name="token" autocomplete="off" required ref=${(el) => el && !el.value && el.focus()} /></label>
    <button type="submit" class="main">Show the dashboard</button>
  </form></main>`;
}

const KEYS = [["/", "search"], ["j  k", "next row, row before"], ["Enter", "open the row"], ["Esc", "close, or one step up"], ["?", "these keys"]];

function Shell() {
  if (tokenWanted.value) return html`<${Token} />`;
  return html`
    <a class="skip" href="#main" onClick=${(e) => { e.preventDefault(); document.getElementById("main").focus(); }}>To the page</a>
    <${Menu} />
    <main id="main" tabindex="-1"><${Page} /></main>
    <div class="unseen" aria-live="assertive">${told.value}</div>
    ${helping.value && html`<${Dialog} title="Keys" onClose=${() => (helping.value = false)}>
      <dl class="keys">${KEYS.map(([k, what]) => html`<div><dt>${k.split("  ").map((x) => html`<kbd>${x}</kbd> `)}</dt><dd>${what}</dd></div>`)}</dl>
      <p class="buttons"><button type="button" class="main" onClick=${() => (helping.value = false)}>Close</button></p>
    <//>`}
  `;
}

// A link of this page's own is followed without loading it anew.
document.addEventListener("click", (e) => {
  const a = e.target.closest?.("a[href]");
  if (!a || e.defaultPrevented || e.button || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey || a.target || a.hasAttribute("download")) return;
  if (a.origin !== location.origin || a.pathname.startsWith("/api/")) return;
  e.preventDefault();
  go(a.pathname + a.search + a.hash);
});

effect(() => (zone.value = here.value.query.zone || home.value));
effect(() => {
  const page = PAGES.findLast(([at]) => here.value.path.startsWith(at));
  const at = here.value.path.startsWith("/records/") ? "Record" : page[1];
  document.title = at + " · oncegate";
});
theme(localStorage.getItem(THEME) || "");
render(html`<${Shell} />`, document.getElementById("app"));
follow();
