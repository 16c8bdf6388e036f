// The view of the cluster: each node is a box, filled by the pods on it.

import { Buttons } from "./buttons.js";
import { Colours } from "./colours.js";
import { amount, ago, count, ending, fitted, h, plural, podLink, shortened, variable } from "./dom.js";
import { arrange, tiles } from "./layout.js";
import { percent, share } from "./model.js";
import { PendingPods } from "./pending.js";

const ZONE = "topology.kubernetes.io/zone";
const NONE = "without this label";
const MOST_PODS = 100; // of a node, in its details
const MOST_ROWS = 500; // of the table
const SMALL = { width: 22, height: 17 }; // of a box that has the end of its node's name
const MOST_LEGIBLE = 1500; // nodes for whose names the map may be higher than the window
const DETAILS_EVERY = 500; // milliseconds
const settings = { group: ZONE, fill: "cpu", colour: "workload", table: false, find: "" };

export class ClusterView {
  name = "cluster";
  title = "Cluster";

  constructor(model, redraw) {
    this.model = model;
    this.redraw = redraw;
    this.colours = new Colours(model);
    this.colours.by = settings.colour;
    this.waiting = new PendingPods(model);
    this.focused = null;
    this.boxOf = new Map();
    this.stamp = 0;
    this.build();
    model.arranged = true;
  }

  close() {
    this.waiting.close();
  }

  build() {
    const choose = (label, key, options) => {
      const select = h("select", { onchange: () => { settings[key] = select.value; this.changed(); } });
      this[`${key}Options`] = (list) => {
        const text = JSON.stringify(list);
        if (select.dataset.list === text) return;
        select.dataset.list = text;
        select.replaceChildren(...list.map(([value, name]) => h("option", { value, selected: value === settings[key] }, name)));
      };
      if (options) this[`${key}Options`](options);
      return h("label", {}, h("span", {}, label), select);
    };
    this.find = h("input", { type: "search", placeholder: "node or pod", value: settings.find,
      oninput: () => { settings.find = this.find.value; this.changed(); } });
    this.toggle = h("button", { type: "button", "aria-pressed": settings.table,
      onclick: () => { settings.table = !settings.table; this.changed(); } }, "Table");
    this.summary = h("p", { class: "summary" });
    this.legend = h("ul", { class: "legend", "aria-label": "Colours" });
    this.canvas = h("canvas", { "aria-hidden": "true" });
    this.hover = h("div", { class: "ring over", hidden: true });
    this.ring = h("div", { class: "ring", hidden: true });
    this.map = h("div", { class: "map", tabindex: "0", role: "application",
      "aria-label": "Map of the nodes. Arrow keys move from node to node, Escape leaves. The table shows the same.",
      onkeydown: (event) => this.key(event), onfocus: () => this.focused ?? this.focus(0),
      onpointermove: (event) => this.over(event), onpointerleave: () => { this.hover.hidden = true; },
      onclick: (event) => this.over(event, true) }, this.canvas, this.hover, this.ring);
    this.table = h("div", { class: "scroll", hidden: true, tabindex: "0", role: "region", "aria-label": "Nodes" });
    this.live = h("p", { class: "hear", "aria-live": "polite" });
    this.buttons = new Buttons();
    this.node = h("h2", { hidden: true });
    this.facts = h("div");
    this.details = h("aside", { class: "details", "aria-label": "Node" }, this.node, this.buttons.element, this.facts);
    this.element = h("section", { class: "cluster" },
      h("h1", { class: "hear" }, "Cluster"),
      h("div", { class: "tools" },
        choose("Group", "group"), choose("Fill", "fill"),
        choose("Colour", "colour", [["workload", "workload"], ["priority", "priority"], ["age", "age"]]),
        h("label", {}, h("span", {}, "Find"), this.find), this.toggle, this.summary),
      this.legend,
      h("div", { class: "split" }, h("div", { class: "stage" }, this.map, this.table), this.details),
      this.live);
    this.detail();
  }

  changed() {
    this.colours.by = settings.colour;
    this.model.arranged = true;
    this.redraw();
  }

  draw() {
    const { model } = this;
    if (settings.colour === "age" && Date.now() - (this.aged ?? 0) > 10000) {
      this.aged = Date.now();
      model.arranged = true;
    }
    if (!settings.table && this.map.clientWidth !== this.width) model.arranged = true;
    if (model.arranged) {
      this.arrange();
      this.paint();
    } else if (model.changed.size) {
      for (const name of model.changed) {
        const index = this.boxOf.get(name);
        if (index !== undefined) this.box(this.plan.boxes[index]);
      }
    }
    const dirty = model.arranged || model.changed.size > 0 || model.version !== this.version;
    this.version = model.version;
    model.arranged = false;
    model.changed.clear();
    if (dirty || this.waits) {
      this.waits = Date.now() - this.stamp < DETAILS_EVERY;
      if (!this.waits) {
        this.stamp = Date.now();
        this.texts();
      }
    }
  }

  texts() {
    const nodes = this.model.existing();
    const pods = this.model.pods.size - this.model.pending.size;
    const sum = (of) => nodes.reduce((total, node) => total + (of(node) ?? 0), 0);
    const whole = sum((node) => node.allocatable[settings.fill]);
    const used = sum((node) => node.used[settings.fill]);
    this.summary.textContent = [plural(nodes.length, "node"), `${plural(pods, "pod")} placed`,
      `${percent(used, whole)} % of ${settings.fill}`].join(" · ");
    const legend = JSON.stringify(this.colours.legend());
    if (legend !== this.legended) {
      this.legended = legend;
      this.legend.replaceChildren(...this.colours.legend().map(([colour, text]) => {
        const swatch = h("i", { hidden: !colour });
        swatch.style.background = colour ?? "none";
        return h("li", {}, swatch, text);
      }), h("li", {}, h("i", { class: "mark taint" }), "taint"),
      h("li", {}, h("i", { class: "mark cordon" }), "cordoned"),
      h("li", {}, h("i", { class: "mark problem" }), "pressure, not ready"));
    }
    this.detail();
    if (settings.table) this.rows();
  }

  // The nodes by their label, without those that the search leaves out.
  groups() {
    const find = settings.find.trim().toLowerCase();
    const groups = new Map();
    for (const node of this.model.existing()) {
      if (find && !node.name.toLowerCase().includes(find)
        && ![...node.pods].some((pod) => pod.key.toLowerCase().includes(find))) continue;
      const name = settings.group ? node.labels[settings.group] ?? NONE : "all nodes";
      if (!groups.has(name)) groups.set(name, { name, nodes: [] });
      groups.get(name).nodes.push(node);
    }
    const natural = new Intl.Collator("en", { numeric: true }).compare;
    const sorted = [...groups.values()].sort((a, b) => (a.name === NONE) - (b.name === NONE) || natural(a.name, b.name));
    for (const group of sorted) group.nodes.sort((a, b) => natural(a.name, b.name));
    return sorted;
  }

  arrange() {
    const { model } = this;
    const labels = model.labels();
    if (settings.group && labels.length && !labels.includes(settings.group)) settings.group = "";
    this.groupOptions([["", "no group"], ...labels.map((key) => [key, key === ZONE ? "zone" : key])]);
    this.fillOptions(model.resources().map((name) => [name, name]));
    this.toggle.setAttribute("aria-pressed", settings.table);
    this.map.hidden = settings.table;
    this.table.hidden = !settings.table;
    this.width = this.map.clientWidth;
    const top = this.map.getBoundingClientRect().top + scrollY;
    const groups = this.groups();
    const names = groups.flatMap((group) => group.nodes.map((node) => node.name));
    this.common = shared(names);
    const width = Math.max(this.width, 100);
    const high = Math.max(innerHeight - top - 24, 280);
    this.plan = arrange(groups, width, high, names.length <= MOST_LEGIBLE ? SMALL : undefined);
    this.boxOf = new Map(this.plan.boxes.map((box, index) => [box.node.name, index]));
  }

  paint() {
    const { canvas, plan } = this;
    this.colours.read();
    this.ink = Object.fromEntries(["box", "line", "text", "faint", "warn", "bad", "hatch", "on-tile"].map((name) => [name, variable(`--${name}`)]));
    const ratio = Math.min(devicePixelRatio || 1, 16000 / plan.height);
    canvas.width = Math.round(this.width * ratio);
    canvas.height = Math.round(plan.height * ratio);
    canvas.style.height = `${plan.height}px`;
    const pen = (this.pen = canvas.getContext("2d"));
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.textBaseline = "middle";
    for (const { x, y, width, group } of plan.heads) {
      pen.font = "600 12px system-ui, sans-serif";
      pen.fillStyle = this.ink.text;
      const name = fitted(pen, group.name, width - 70);
      pen.fillText(name, x, y + 10);
      const at = x + pen.measureText(name).width + 8;
      pen.font = "12px system-ui, sans-serif";
      pen.fillStyle = this.ink.faint;
      pen.fillText(plural(group.nodes.length, "node"), at, y + 10);
    }
    for (const box of plan.boxes) this.box(box);
    this.show(this.ring, this.focused);
    if (!this.model.existing().length) this.map.dataset.empty = "No node yet.";
    else if (!plan.boxes.length) this.map.dataset.empty = "No node or pod has this name.";
    else delete this.map.dataset.empty;
  }

  box({ node, x, y, width, height }) {
    const { pen, ink } = this;
    const radius = width > 60 ? 5 : 2;
    pen.clearRect(x - 1, y - 1, width + 2, height + 2);
    pen.fillStyle = ink.box;
    pen.beginPath();
    pen.roundRect(x, y, width, height, radius);
    pen.fill();
    const named = width >= 56 && height >= 36;
    const small = !named && width >= SMALL.width && height >= SMALL.height;
    const head = named ? 20 : small ? 11 : 0;
    const pad = width > 60 ? 4 : 1;
    const inner = { x: x + pad, y: y + (head || pad), width: width - 2 * pad, height: height - (head || pad) - pad };
    this.fill(node, inner);
    if (named) {
      pen.font = "11px ui-monospace, Menlo, Consolas, monospace";
      const full = width >= 96 ? `${percent(share(node, settings.fill), 1)} %` : "";
      const room = full ? pen.measureText(full).width + 8 : 0;
      pen.fillStyle = ink.text;
      pen.fillText(this.label(pen, node.name, width - 2 * pad - room - (node.taints.length ? 10 : 0)), x + pad + 2, y + 11);
      pen.fillStyle = ink.faint;
      if (full) pen.fillText(full, x + width - pad - pen.measureText(full).width - 2 - (node.taints.length ? 8 : 0), y + 11);
    }
    if (small) {
      pen.font = "9px ui-monospace, Menlo, Consolas, monospace";
      pen.fillStyle = ink.text;
      pen.fillText(ending(pen, this.own(node.name), width - 3), x + 2, y + 6);
    }
    if (node.cordoned) this.hatch(x, y, width, height);
    if (node.taints.length) {
      const size = width > 60 ? 9 : width > 20 ? 6 : 4;
      pen.fillStyle = ink.warn;
      pen.beginPath();
      pen.moveTo(x + width - size - 1, y + 1);
      pen.lineTo(x + width - 1, y + 1);
      pen.lineTo(x + width - 1, y + size + 1);
      pen.fill();
    }
    const bad = node.problems.length > 0;
    pen.strokeStyle = bad ? ink.bad : ink.line;
    pen.lineWidth = bad ? 2 : 1;
    const inset = bad ? 1 : 0.5;
    pen.beginPath();
    pen.roundRect(x + inset, y + inset, width - 2 * inset, height - 2 * inset, radius);
    pen.stroke();
  }

  fill(node, { x, y, width, height }) {
    const { pen } = this;
    const whole = node.allocatable[settings.fill] ?? 0;
    if (!node.pods.size || height < 2) return;
    const pods = [...node.pods].sort((a, b) => (b.requests[settings.fill] ?? 0) - (a.requests[settings.fill] ?? 0)
      || (a.workload < b.workload ? -1 : a.workload > b.workload ? 1 : a.key < b.key ? -1 : 1));
    const least = whole * 0.004 || 1;
    const level = Math.max(share(node, settings.fill), Math.min(1, pods.length * 0.004), 2 / height);
    const high = height * level;
    const seam = width > 120 ? 1.5 : width > 44 ? 1 : width > 20 ? 0.4 : 0;
    pen.font = "10px system-ui, sans-serif";
    tiles(pods.map((pod) => Math.max(pod.requests[settings.fill] ?? 0, least)), x, y + height - high, width, high,
      (index, left, top, wide, tall) => {
        const pod = pods[index];
        pen.fillStyle = this.colours.of(pod);
        pen.fillRect(left, top, Math.max(wide - seam, 0.5), Math.max(tall - seam, 0.5));
        if (wide > 46 && tall > 15) {
          pen.fillStyle = this.ink["on-tile"];
          pen.fillText(fitted(pen, pod.key.slice(pod.key.indexOf("/") + 1), wide - 10), left + 5, top + Math.min(tall / 2, 9));
        }
      });
  }

  // What tells the name of a node from those of the others on the map.
  own(name) {
    return name.slice(this.common.start, name.length - this.common.end);
  }

  // The name if it fits a width, or else what tells it from others.
  label(pen, name, width) {
    return pen.measureText(name).width <= width ? name : shortened(pen, this.own(name), width);
  }

  hatch(x, y, width, height) {
    const { pen } = this;
    pen.save();
    pen.beginPath();
    pen.rect(x, y, width, height);
    pen.clip();
    pen.strokeStyle = this.ink.hatch;
    pen.lineWidth = width > 40 ? 2 : 1;
    const step = width > 40 ? 9 : 4;
    pen.beginPath();
    for (let at = -height; at < width; at += step) {
      pen.moveTo(x + at, y + height);
      pen.lineTo(x + at + height, y);
    }
    pen.stroke();
    pen.restore();
  }

  show(ring, name) {
    const box = this.plan?.boxes[this.boxOf.get(name)];
    ring.hidden = !box;
    if (!box) return;
    ring.style.transform = `translate(${box.x}px, ${box.y}px)`;
    ring.style.width = `${box.width}px`;
    ring.style.height = `${box.height}px`;
  }

  over(event, chosen = false) {
    const edge = this.map.getBoundingClientRect();
    const x = event.clientX - edge.left;
    const y = event.clientY - edge.top;
    const index = this.plan.boxes.findIndex((box) => x >= box.x && x < box.x + box.width && y >= box.y && y < box.y + box.height);
    const box = this.plan.boxes[index];
    this.show(this.hover, box?.node.name);
    if (chosen && box) this.focus(index);
    else if (box) this.hover.title = describe(box.node);
    if (!this.picked) this.detail(box?.node);
  }

  key(event) {
    const now = this.boxOf.get(this.focused) ?? 0;
    const { boxes } = this.plan;
    const last = boxes.length - 1;
    const row = (way) => {
      const here = boxes[now];
      let best = null;
      boxes.forEach((box, index) => {
        const down = (box.y - here.y) * way;
        if (down <= 0) return;
        const far = down * 4 + Math.abs(box.x - here.x);
        if (!best || far < best.far) best = { index, far };
      });
      return best?.index ?? now;
    };
    const to = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: last }[event.key]
      ?? (event.key === "ArrowDown" ? row(1) : event.key === "ArrowUp" ? row(-1) : undefined);
    if (event.key === "Escape") {
      this.focused = this.picked = null;
      this.ring.hidden = true;
      this.map.blur();
      this.detail();
    } else if (event.key === "Enter") this.facts.querySelector("a")?.focus();
    else if (to !== undefined && boxes.length) {
      event.preventDefault();
      this.focus(Math.max(0, Math.min(last, to)));
    }
  }

  focus(index) {
    const box = this.plan.boxes[index];
    if (!box) return;
    this.focused = this.picked = box.node.name;
    this.show(this.ring, this.focused);
    const top = this.map.getBoundingClientRect().top + box.y;
    if (top < 60 || top + box.height > innerHeight) scrollBy(0, top - innerHeight / 2);
    this.live.textContent = describe(box.node);
    this.detail();
  }

  detail(hovered) {
    const node = this.model.nodes.get(this.picked) ?? hovered;
    this.node.hidden = !node?.exists;
    this.node.textContent = node?.name ?? "";
    this.buttons.show(node?.exists ? node : null);
    if (!node?.exists) {
      this.facts.replaceChildren(h("p", { class: "hint" }, "Point at a node, or walk the map with the arrow keys."), ...this.waiting.show());
      return;
    }
    const bars = Object.keys(node.allocatable).filter((name) => name in { cpu: 1, memory: 1, pods: 1 } || node.used[name]);
    const bar = (name) => {
      const part = h("i");
      part.style.width = `${share(node, name) * 100}%`;
      return h("div", { class: "use" }, h("span", {}, name),
        h("b", {}, `${amount(name, node.used[name] ?? 0)} of ${amount(name, node.allocatable[name])}`), h("div", { class: "bar" }, part));
    };
    const pods = [...node.pods].sort((a, b) => (a.key < b.key ? -1 : 1));
    this.facts.replaceChildren(
      h("ul", { class: "chips" }, node.cordoned ? h("li", { class: "warn" }, "cordoned") : null,
        node.problems.map((problem) => h("li", { class: "bad" }, problem)),
        node.taints.map((taint) => h("li", { class: "warn" }, taint))),
      ...bars.map(bar),
      h("h3", {}, plural(pods.length, "pod")),
      h("ul", { class: "pods" }, pods.slice(0, MOST_PODS).map((pod) => {
        const dot = h("i");
        dot.style.background = this.colours.of(pod);
        return h("li", {}, dot, h("a", { href: podLink(pod.key) }, pod.key), h("span", {}, ago(pod.created)));
      }), pods.length > MOST_PODS ? h("li", {}, `and ${count(pods.length - MOST_PODS)} more`) : null),
      h("h3", {}, "Labels"),
      h("dl", { class: "labels" }, Object.entries(node.labels).map(([key, value]) => [h("dt", {}, key), h("dd", {}, value)])));
  }

  rows() {
    const boxes = this.plan.boxes.slice(0, MOST_ROWS);
    const resources = ["cpu", "memory", "pods"];
    if (!resources.includes(settings.fill)) resources.push(settings.fill);
    const body = boxes.map(({ node }) => h("tr", {}, h("th", { scope: "row" }, node.name),
      h("td", {}, settings.group ? node.labels[settings.group] ?? "" : ""),
      resources.map((name) => h("td", { class: "number" }, `${percent(share(node, name), 1)} %`)),
      h("td", { class: "number" }, count(node.pods.size)),
      h("td", {}, [...(node.cordoned ? ["cordoned"] : []), ...node.problems, ...node.taints].join(", "))));
    const more = this.plan.boxes.length - boxes.length;
    this.table.replaceChildren(h("table", {}, h("caption", {}, more > 0 ? `The first ${count(MOST_ROWS)} of ${plural(this.plan.boxes.length, "node")}` : plural(boxes.length, "node")),
      h("thead", {}, h("tr", {}, ["node", settings.group === ZONE ? "zone" : settings.group || "group", ...resources.map((name) => `${name} used`), "running", "state"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, body)));
  }
}

// The numbers of characters with which all names begin and end, in whole words.
function shared(names) {
  const [first = ""] = names;
  let [start, end] = names.length > 1 ? [first.length, first.length] : [0, 0];
  for (const name of names) {
    while (!name.startsWith(first.slice(0, start))) start -= 1;
    while (!name.endsWith(first.slice(first.length - end))) end -= 1;
  }
  const isLetter = (at) => /[a-z0-9]/i.test(first[at]);
  while (start > 0 && isLetter(start - 1)) start -= 1;
  while (end > 0 && isLetter(first.length - end)) end -= 1;
  return { start, end };
}

function describe(node) {
  return [node.name, ...["cpu", "memory"].map((name) => `${name} ${percent(share(node, name), 1)} %`),
    plural(node.pods.size, "pod"), ...(node.cordoned ? ["cordoned"] : []), ...node.problems, ...node.taints].join(", ");
}
