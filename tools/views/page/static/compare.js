// The nodes before and after a what-if, side by side: as full as they are, with what they gain as
// tiles and what they lose hatched.

import { Colours } from "./colours.js";
import { fitted, h, plural, shortened, variable } from "./dom.js";
import { arrange, tiles } from "./layout.js";
import { percent } from "./model.js";

const ZONE = "topology.kubernetes.io/zone";
const FILLS = [["cpu", "cpu"], ["memory", "memory"], ["pods", "pods"]];
const natural = new Intl.Collator("en", { numeric: true }).compare;
const MOST_DRAWN = 300; // nodes; of more, only those that change are drawn at first
let fill = "cpu";

export class Compare {
  constructor(model) {
    this.model = model;
    this.colours = new Colours(model);
    this.select = h("select", { onchange: () => { fill = this.select.value; this.paint(); } },
      FILLS.map(([value, name]) => h("option", { value, selected: value === fill }, name)));
    this.which = h("select", { onchange: () => { this.all = this.which.value === "all"; this.paint(); } },
      [["all", "all"], ["changed", "that change"]].map(([value, name]) => h("option", { value }, name)));
    this.sides = ["before", "after"].map((side) => {
      const canvas = h("canvas", { "aria-hidden": "true" });
      canvas.addEventListener("pointermove", (event) => this.over(event, canvas));
      const text = h("figcaption", {});
      return { side, canvas, text, element: h("figure", {}, h("h3", {}, side === "before" ? "Before" : "After"), canvas, text) };
    });
    this.legend = h("ul", { class: "legend", "aria-label": "Colours" });
    this.element = h("div", { class: "compare" },
      h("div", { class: "tools" }, h("label", {}, h("span", {}, "Fill"), this.select), h("label", {}, h("span", {}, "Nodes"), this.which)),
      h("div", { class: "pair" }, this.sides.map(({ element }) => element)), this.legend);
  }

  show(result) {
    const gained = new Map();
    this.workloads = new Map();
    for (const { pod, workload, node, step } of result.placed) {
      if (!step) continue;
      if (!gained.has(node)) gained.set(node, []);
      gained.get(node).push({ pod, workload });
      this.workloads.set(workload, (this.workloads.get(workload) ?? 0) + 1);
    }
    this.nodes = result.nodes.map(({ node, before, after }) => ({
      name: node, before, after, gained: gained.get(node) ?? [],
      changed: JSON.stringify(before) !== JSON.stringify(after) || gained.has(node),
    }));
    this.all = this.nodes.length <= MOST_DRAWN || !this.nodes.some((node) => node.changed);
    this.which.value = this.all ? "all" : "changed";
    this.paint();
  }

  // What share of its filling resource a node gives away, on one side.
  level(node, side) {
    const of = node[side];
    if (!of) return 0;
    if (fill !== "pods") return Math.min(1, of[fill] / 100);
    const room = this.model.nodes.get(node.name)?.allocatable.pods ?? 110;
    return Math.min(1, of.pods / Math.max(room, 1));
  }

  groups() {
    const groups = new Map();
    for (const node of this.nodes) {
      if (!this.all && !node.changed) continue;
      const name = node.before ? this.model.nodes.get(node.name)?.labels[ZONE] ?? "no zone" : "new nodes";
      if (!groups.has(name)) groups.set(name, { name, nodes: [] });
      groups.get(name).nodes.push(node);
    }
    return [...groups.values()].sort((a, b) => (a.name === "new nodes") - (b.name === "new nodes") || natural(a.name, b.name));
  }

  paint() {
    if (!this.nodes) return;
    const [{ element }] = this.sides;
    this.width = element.clientWidth;
    if (!this.width) return;
    const groups = this.groups();
    for (const group of groups) group.nodes.sort((a, b) => natural(a.name, b.name));
    this.plan = arrange(groups, Math.max(this.width, 100), Math.max(Math.min(innerHeight * 0.6, this.width), 220));
    this.ink = Object.fromEntries(["box", "line", "text", "faint", "accent", "used", "hatch", "on-tile"].map((name) => [name, variable(`--${name}`)]));
    this.colours.read();
    for (const side of this.sides) this.side(side);
    const changed = this.nodes.filter((node) => node.changed).length;
    this.sides[1].text.textContent = `${changed ? `${plural(changed, "node")} ${changed === 1 ? "changes" : "change"}` : "No node changes"}${this.all ? "" : ", and only they are drawn"}.`;
    this.sides[0].text.textContent = `${plural(this.nodes.filter((node) => node.before).length, "node")}.`;
    const swatch = (colour, text) => {
      const mark = h("i", { hidden: !colour });
      mark.style.background = colour ?? "none";
      return h("li", {}, mark, text);
    };
    this.legend.replaceChildren(...this.colours.workloads(this.workloads).map(([colour, text]) => swatch(colour, text)),
      swatch(this.ink.used, "requested"), h("li", {}, h("i", { class: "mark cordon" }), "freed"));
  }

  side({ side, canvas }) {
    const { plan, ink } = this;
    const ratio = Math.min(devicePixelRatio || 1, 16000 / plan.height);
    canvas.width = Math.round(this.width * ratio);
    canvas.height = Math.round(plan.height * ratio);
    canvas.style.height = `${plan.height}px`;
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.textBaseline = "middle";
    for (const { x, y, width, group } of plan.heads) {
      pen.font = "600 12px system-ui, sans-serif";
      pen.fillStyle = ink.text;
      pen.fillText(fitted(pen, group.name, width), x, y + 10);
    }
    for (const box of plan.boxes) this.box(pen, box, side);
  }

  box(pen, { node, x, y, width, height }, side) {
    const { ink } = this;
    const radius = width > 60 ? 5 : 2;
    pen.beginPath();
    pen.roundRect(x + 0.5, y + 0.5, width - 1, height - 1, radius);
    const present = node[side] !== null;
    const named = width >= 56 && height >= 36;
    const head = named ? 20 : 0;
    if (!present) {
      pen.strokeStyle = ink.line;
      pen.lineWidth = 1;
      pen.setLineDash([3, 3]);
      pen.stroke();
      pen.setLineDash([]);
    } else {
      pen.fillStyle = ink.box;
      pen.fill();
      this.filling(pen, node, side, { x: x + 1, y: y + 1 + head, width: width - 2, height: height - 2 - head });
      pen.strokeStyle = node.changed ? ink.accent : ink.line;
      pen.lineWidth = node.changed && width > 12 ? 2 : 1;
      pen.beginPath();
      pen.roundRect(x + 0.5, y + 0.5, width - 1, height - 1, radius);
      pen.stroke();
    }
    if (!named) return;
    const full = present ? `${percent(this.level(node, side), 1)} %` : side === "after" ? "removed" : "";
    pen.font = "11px ui-monospace, Menlo, Consolas, monospace";
    const room = width < 96 ? 0 : pen.measureText(full).width + 8;
    pen.fillStyle = present ? ink.text : ink.faint;
    pen.fillText(shortened(pen, node.name, width - 12 - room), x + 6, y + 11);
    if (room) pen.fillText(full, x + width - pen.measureText(full).width - 6, y + 11);
  }

  filling(pen, node, side, { x, y, width, height }) {
    const { ink } = this;
    const before = this.level(node, "before") * height;
    const after = this.level(node, "after") * height;
    const kept = side === "before" ? before : Math.min(before, after);
    pen.fillStyle = ink.used;
    pen.fillRect(x, y + height - kept, width, kept);
    if (side === "before") return;
    if (before > after) hatch(pen, ink.hatch, x, y + height - before, width, before - after);
    const { gained } = node;
    if (!gained.length) return;
    const high = Math.min(Math.max(after - before, width > 20 ? 14 : 3), height);
    const top = Math.max(y, y + height - kept - high);
    const seam = width > 44 ? 1 : 0;
    tiles(gained.map(() => 1), x, top, width, high, (index, left, at, wide, tall) => {
      const { pod, workload } = gained[index];
      pen.fillStyle = this.colours.ofWorkload(workload);
      pen.fillRect(left, at, Math.max(wide - seam, 0.5), Math.max(tall - seam, 0.5));
      if (wide > 46 && tall > 13) {
        pen.font = "10px system-ui, sans-serif";
        pen.fillStyle = ink["on-tile"];
        pen.fillText(fitted(pen, pod.slice(pod.indexOf("/") + 1), wide - 10), left + 5, at + tall / 2);
      }
    });
  }

  over(event, canvas) {
    const edge = canvas.getBoundingClientRect();
    const x = event.clientX - edge.left;
    const y = event.clientY - edge.top;
    const box = this.plan?.boxes.find((each) => x >= each.x && x < each.x + each.width && y >= each.y && y < each.y + each.height);
    canvas.title = box ? describe(box.node) : "";
  }
}

const full = (of) => (of ? `cpu ${of.cpu} %, memory ${of.memory} %, ${plural(of.pods, "pod")}` : "none");

export const describe = (node) => [`${node.name}: ${full(node.before)}`,
  ...(node.changed ? [`after: ${full(node.after)}`] : []), ...node.gained.slice(0, 12).map(({ pod }) => `+ ${pod}`)].join("\n");

function hatch(pen, colour, x, y, width, height) {
  pen.save();
  pen.beginPath();
  pen.rect(x, y, width, height);
  pen.clip();
  pen.strokeStyle = colour;
  pen.lineWidth = 1;
  pen.beginPath();
  for (let at = -height; at < width; at += 5) {
    pen.moveTo(x + at, y + height);
    pen.lineTo(x + at + height, y);
  }
  pen.stroke();
  pen.restore();
}
