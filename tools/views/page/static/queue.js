// The view of the queue: where pending pods wait and why, and how many are placed over time.

import { count, h, plural, podLink, svg } from "./dom.js";

const SECONDS = 120;
const PLACES = [
  ["active", "Active", "next to be decided"],
  ["inFlight", "In flight", "decided now, or being bound"],
  ["backoff", "Backoff", "tried again after a delay"],
  ["parked", "Parked", "until something changes that could help"],
  ["gated", "Gated", "held back before the first attempt"],
];

export class QueueView {
  name = "queue";
  title = "Queue";

  constructor(model) {
    this.model = model;
    this.cards = h("dl", { class: "cards" });
    this.reasons = h("div", { class: "reasons" });
    this.chart = h("figure", { class: "chart" });
    this.pods = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Waiting pods" });
    this.element = h("section", { class: "queue" }, h("h1", {}, "Queue"), this.cards,
      h("div", { class: "pair" },
        h("section", {}, h("h2", {}, "Placed, by second"), this.chart),
        h("section", {}, h("h2", {}, "What holds pods back"), this.reasons)),
      h("h2", {}, "Waiting pods"), this.pods);
  }

  draw() {
    const second = Math.floor(Date.now() / 1000);
    if (this.version === this.model.version && second === this.second) return;
    if (second !== this.second) {
      this.second = second;
      this.plot(second);
    }
    this.version = this.model.version;
    const { glance } = this.model;
    if (!glance) {
      this.pods.replaceChildren(h("p", { class: "hint" }, "Waiting for the scheduler."));
      return;
    }
    if (glance === this.shown) return;
    this.shown = glance;
    this.cards.replaceChildren(...PLACES.map(([name, title, text]) =>
      h("div", { class: glance[name] ? "card" : "card none" }, h("dt", {}, title), h("dd", {}, count(glance[name])),
        h("dd", { class: "hint" }, name === "inFlight" && glance.onPermit + glance.inPreBind
          ? `${count(glance.onPermit)} wait for a permit, ${count(glance.inPreBind)} for volumes or devices` : text))));
    const most = Math.max(1, ...glance.rejections.map(({ pods }) => pods));
    this.reasons.replaceChildren(...(glance.rejections.length ? glance.rejections.map(({ plugin, pods }) => {
      const bar = h("i");
      bar.style.width = `${(100 * pods) / most}%`;
      return h("div", { class: "use" }, h("span", {}, plugin), h("b", {}, plural(pods, "pod")), h("div", { class: "bar" }, bar));
    }) : [h("p", { class: "hint" }, "No plugin holds a pod back.")]));
    this.table(glance);
  }

  table(glance) {
    if (!glance.pods.length) {
      this.pods.replaceChildren(h("p", { class: "hint" }, "No pod waits."));
      return;
    }
    const total = glance.active + glance.backoff + glance.parked + glance.gated + glance.inFlight;
    const shown = glance.pods.length;
    this.pods.replaceChildren(h("table", {},
      h("caption", {}, shown < total ? `The first ${count(shown)} of ${plural(total, "pod")}` : plural(shown, "pod")),
      h("thead", {}, h("tr", {}, ["pod", "place", "attempts", "priority", "held back by", "why"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, glance.pods.map((pod) => h("tr", {},
        h("th", { scope: "row" }, h("a", { href: podLink(pod.key) }, pod.key)),
        h("td", {}, pod.backoffLeft > 0.05 ? `${pod.place}, ${pod.backoffLeft.toFixed(1)} s` : pod.place === "unschedulable" ? "parked" : pod.place),
        h("td", { class: "number" }, count(pod.attempts)), h("td", { class: "number" }, count(pod.priority)),
        h("td", {}, pod.plugins.join(", ")),
        h("td", { class: "why" }, pod.waitsOn ? `waits on ${pod.waitsOn} for a permit` : this.model.pods.get(pod.key)?.message ?? ""))))));
  }

  plot(now) {
    const { placed, latency } = this.model;
    const values = Array.from({ length: SECONDS }, (_, index) => placed.get(now - SECONDS + index) ?? 0);
    const waits = Array.from({ length: SECONDS }, (_, index) => latency.get(now - SECONDS + index) ?? 0);
    const total = values.reduce((sum, value) => sum + value, 0);
    const waited = waits.reduce((sum, value) => sum + value, 0);
    const most = Math.max(...values);
    const high = nice(most);
    const drawing = svg("svg", { viewBox: `0 0 ${SECONDS * 4} 120`, preserveAspectRatio: "none", "aria-hidden": "true" });
    for (const part of [0.5, 1]) drawing.append(svg("line", { x1: 0, x2: SECONDS * 4, y1: 120 - part * 110, y2: 120 - part * 110, class: "grid" }));
    values.forEach((value, index) => {
      const tall = (value / high) * 110;
      if (value) drawing.append(svg("rect", { x: index * 4 + 0.5, y: 120 - tall, width: 3, height: tall }));
    });
    const text = total ? `${plural(total, "pod")} in 2 min, at most ${count(most)}/s; they waited ${waited < total ? "less than 1" : (waited / total).toFixed(1)} s on average`
      : "No pod was placed in the last 2 minutes.";
    this.chart.replaceChildren(h("div", { class: "plot" }, h("span", { class: "top" }, `${count(high)}/s`), drawing),
      h("div", { class: "axis" }, h("span", {}, "2 min ago"), h("span", {}, "now")), h("figcaption", {}, text));
  }
}

function nice(value) {
  const size = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
  return [1, 2, 5, 10].map((step) => step * size).find((step) => step >= value) ?? value;
}
