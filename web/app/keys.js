// The keyboard: / j k Enter Esc ?
import { signal } from "./library.js";
import { go, here, to } from "./address.js";

// helping is whether the keys are shown.
export const helping = signal(false);

const typing = (el) => el.closest?.("input, textarea, select, [contenteditable]");

// step moves the focus to the link of another row.
function step(by) {
  const rows = [...document.querySelectorAll("main tr.row")];
  if (!rows.length) return;
  const at = rows.indexOf(document.activeElement.closest?.("tr.row"));
  const next = rows[Math.min(rows.length - 1, Math.max(0, at < 0 ? 0 : at + by))];
  const target = next.querySelector("th a, a, input, button");
  target.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

document.addEventListener("keydown", (e) => {
  if (e.defaultPrevented || e.metaKey || e.ctrlKey || e.altKey) return;
  if (document.querySelector("dialog[open]")) return;
  if (e.key === "Escape") {
    if (typing(e.target)) e.target.blur();
    else if (document.activeElement !== document.body && document.activeElement.closest("tr.row")) document.activeElement.blur();
    else if (/^\/(records|requests)\//.test(here.value.path)) go(to("/requests"));
    return;
  }
  if (typing(e.target)) return;
  if (e.key === "/") {
    const box = document.querySelector("[data-search]");
    if (box) box.focus(), box.select();
    else go(to("/requests"));
  } else if (e.key === "j" || e.key === "k") step(e.key === "j" ? 1 : -1);
  else if (e.key === "?") helping.value = true;
  else return;
  e.preventDefault();
});
