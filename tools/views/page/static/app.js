// The page: chooses the view by the address, and draws what changed, at most once a frame.

import { ClusterView } from "./cluster.js";
import { count, h, plural } from "./dom.js";
import { Feed } from "./feed.js";
import { Model } from "./model.js";
import { offers } from "./offers.js";
import { PodView } from "./pod.js";
import { QueueView } from "./queue.js";
import { stepsOf } from "./steps.js";
import { WhatIfView } from "./whatif.js";

const main = document.getElementById("main");
const model = new Model();
let view = null;
let shown = "";
let due = false;

function redraw() {
  if (due) return;
  due = true;
  requestAnimationFrame(() => {
    due = false;
    strip();
    view?.draw();
  });
}

const feed = new Feed(model, redraw);

function route() {
  const [name, ...rest] = location.hash.replace(/^#\/?/, "").split("/");
  if (location.hash === "#main") return;
  const where = location.hash;
  if (where === shown && view) return;
  view?.close?.();
  shown = where;
  if (name === "queue") view = new QueueView(model);
  else if (name === "whatif") view = new WhatIfView(model, stepsOf(rest));
  else if (name === "pod" && rest.length === 2) {
    let names = rest;
    try {
      names = rest.map(decodeURIComponent);
    } catch { /* shown as it is */ }
    view = new PodView(model, ...names);
  } else view = new ClusterView(model, redraw);
  main.replaceChildren(view.element);
  document.title = `${view.title} · berth`;
  for (const link of document.querySelectorAll("nav a")) {
    const current = link.dataset.view === view.name;
    if (current) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  redraw();
}

const STATES = {
  live: ["good", "live"],
  connecting: ["idle", "connecting"],
  lost: ["bad", "connection lost"],
  stale: ["bad", "stale"],
  paused: ["idle", "paused"],
};

let stripped = "";
function strip() {
  const glance = model.glance;
  const [kind, word] = STATES[feed.state];
  const signs = [[kind, "feed", word]];
  if (glance) {
    signs.push(glance.leads ? ["good", "lease", "leading"] : ["idle", "lease", "standing by"]);
    const { problems, stillSeconds, outdated } = glance;
    signs.push(problems.length ? ["bad", "informers", problems.join("; ")] : ["good", "informers", "ok"]);
    if (outdated) signs.push(["bad", "configuration", outdated]);
    signs.push(stillSeconds > 2 ? ["bad", "health", `blocked for ${Math.round(stillSeconds)} s`] : ["good", "health", "ok"]);
  }
  const pending = model.pending.size;
  signs.push(["none", "placed", count(model.pods.size - pending)]);
  signs.push([pending ? "warn" : "none", "pending", count(pending)]);
  signs.push(["none", "rate", `${count(Math.round(model.rate()))}/s`]);
  const text = JSON.stringify(signs);
  if (text !== stripped) {
    stripped = text;
    document.getElementById("signs").replaceChildren(...signs.map(([sign, name, value]) =>
      h("li", { class: `sign ${sign}` }, h("span", { class: "what" }, name), h("b", {}, value))));
  }
  logged(glance?.logged ?? []);
  const note = document.getElementById("stale");
  const old = feed.state === "lost" || feed.state === "stale";
  note.hidden = !old;
  document.body.classList.toggle("old", old);
  const quiet = Math.floor(feed.quiet() / 5) * 5;
  const said = `No news for ${quiet ? `${quiet} s` : "a moment"}: what you see may be out of date. Connecting again.`;
  if (old && note.textContent !== said) note.textContent = said;
}

// The scheduler's recent errors and warnings, newest first.
let lines = "";
function logged(problems) {
  const text = JSON.stringify(problems);
  if (text === lines) return;
  lines = text;
  const details = document.getElementById("logged");
  const errors = problems.filter(({ level }) => level === "error").length;
  const counts = [[errors, "error"], [problems.length - errors, "warning"]].filter(([number]) => number);
  details.hidden = !problems.length;
  details.classList.toggle("bad", errors > 0);
  details.querySelector("b").textContent = counts.map(([number, word]) => plural(number, word)).join(", ");
  details.querySelector("ol").replaceChildren(...problems.toReversed().map(({ at, level, text: said }) => {
    const date = new Date(at * 1000);
    return h("li", { class: level }, h("time", { datetime: date.toISOString() }, date.toLocaleTimeString()), h("b", {}, level), h("span", {}, said));
  }));
}

document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
addEventListener("hashchange", route);
addEventListener("resize", () => { model.arranged = true; redraw(); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  model.arranged = true;
  redraw();
});
setInterval(redraw, 1000);
offers().then(({ asks, schedules = true }) => {
  document.querySelector('nav [data-view="whatif"]').hidden = !asks;
  document.querySelector('nav [data-view="queue"]').hidden = !schedules;
});
route();
