// The colours of pods, with their legend.

import { count, variable } from "./dom.js";

const HUES = 10;
const AGES = [[60, "under 1 min"], [600, "under 10 min"], [3600, "under 1 h"], [86400, "under 1 day"], [Infinity, "older"]];

export class Colours {
  constructor(model) {
    this.model = model;
    this.by = "workload";
    this.ranks = new Map();
    this.read();
  }

  // Reads the palette of the page, light or dark.
  read() {
    this.hues = Array.from({ length: HUES }, (_, index) => variable(`--hue-${index}`));
    this.ramp = Array.from({ length: 5 }, (_, index) => variable(`--ramp-${index}`));
    this.other = variable("--hue-other");
  }

  // Gives the largest workloads their colours; who has one keeps it. True if one changed.
  rank() {
    const { workloads } = this.model;
    for (const name of this.ranks.keys()) if (!workloads.has(name)) this.ranks.delete(name);
    if (this.ranks.size >= HUES || this.ranks.size === workloads.size) return false;
    const largest = [...workloads].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
    const free = new Set(this.hues.keys());
    for (const hue of this.ranks.values()) free.delete(hue);
    let changed = false;
    for (const [name] of largest) {
      if (!free.size) break;
      if (this.ranks.has(name)) continue;
      const [hue] = free;
      free.delete(hue);
      this.ranks.set(name, hue);
      changed = true;
    }
    return changed;
  }

  of(pod) {
    if (this.by === "priority") return this.ramp[this.level(pod.priority)];
    if (this.by === "age") {
      const age = Date.now() / 1000 - pod.created;
      return this.ramp[4 - AGES.findIndex(([most]) => age < most)];
    }
    const rank = this.ranks.get(pod.workload);
    return rank === undefined ? this.other : this.hues[rank];
  }

  level(priority) {
    if (priority < 0) return 0;
    if (priority === 0) return 1;
    if (priority < 100000) return 2;
    return priority < 2000000000 ? 3 : 4;
  }

  legend() {
    if (this.by === "age") return AGES.map(([, text], index) => [this.ramp[4 - index], text]);
    if (this.by === "priority") {
      return ["below 0", "0", "under 100,000", "100,000 and above", "system"].map((text, index) => [this.ramp[index], text]);
    }
    const { workloads } = this.model;
    const named = [...this.ranks].map(([name, hue]) => [this.hues[hue], `${name} · ${count(workloads.get(name) ?? 0)}`]);
    const rest = workloads.size - this.ranks.size;
    return rest > 0 ? [...named, [this.other, `${count(rest)} others`]] : named;
  }
}
