// The colours of pods, with their legend.

import { count, variable } from "./dom.js";

const MOST_NAMED = 10; // in the legend
const AGES = [[60, "under 1 min"], [600, "under 10 min"], [3600, "under 1 h"], [86400, "under 1 day"], [Infinity, "older"]];
const SHADES = [0.85, 0.6, 0.4]; // saturations

export class Colours {
  constructor(model) {
    this.model = model;
    this.by = "workload";
    this.read();
  }

  // Reads the palette of the page, light or dark.
  read() {
    this.named = new Map();
    this.luminance = Number(variable("--tile-luminance"));
    this.ramp = Array.from({ length: 5 }, (_, index) => variable(`--ramp-${index}`));
  }

  of(pod) {
    if (this.by === "priority") return this.ramp[this.level(pod.priority)];
    if (this.by === "age") {
      const age = Date.now() / 1000 - pod.created;
      return this.ramp[4 - AGES.findIndex(([most]) => age < most)];
    }
    return this.ofWorkload(pod.workload);
  }

  // The colour of a workload depends on its name alone: it is the same in each view and at each load.
  ofWorkload(name) {
    let colour = this.named.get(name);
    if (colour === undefined) {
      colour = colourOf(name, this.luminance);
      this.named.set(name, colour);
    }
    return colour;
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
    return this.workloads(this.model.drawn);
  }

  // The colours of the largest of these workloads, whose numbers of pods are given, and how many there are besides.
  workloads(numbers) {
    const largest = [];
    for (const entry of numbers) {
      if (largest.length === MOST_NAMED && !isBefore(entry, largest.at(-1))) continue;
      largest.push(entry);
      largest.sort((a, b) => (isBefore(a, b) ? -1 : 1));
      largest.length = Math.min(largest.length, MOST_NAMED);
    }
    const rest = numbers.size - largest.length;
    const named = largest.map(([name, number]) => [this.ofWorkload(name), `${name} · ${count(number)}`]);
    return rest > 0 ? [...named, [null, `and ${count(rest)} more`]] : named;
  }
}

const isBefore = (a, b) => a[1] > b[1] || (a[1] === b[1] && a[0] < b[0]);

// A colour by a name. All have the same luminance, so that the text on a tile can be read.
function colourOf(name, luminance) {
  let hash = 2166136261;
  for (let index = 0; index < name.length; index += 1) hash = Math.imul(hash ^ name.charCodeAt(index), 16777619) >>> 0;
  hash = Math.imul(hash ^ (hash >>> 16), 2246822507);
  hash = Math.imul(hash ^ (hash >>> 13), 3266489909);
  hash = (hash ^ (hash >>> 16)) >>> 0;
  const hue = hash % 360;
  const saturation = SHADES[(hash >>> 12) % SHADES.length];
  let [low, high] = [0, 1];
  for (let step = 0; step < 12; step += 1) {
    const middle = (low + high) / 2;
    if (luminanceOf(hue, saturation, middle) < luminance) low = middle;
    else high = middle;
  }
  return `hsl(${hue} ${Math.round(saturation * 100)}% ${(low * 100).toFixed(1)}%)`;
}

function luminanceOf(hue, saturation, lightness) {
  const channel = (offset) => {
    const at = (offset + hue / 30) % 12;
    const value = lightness - saturation * Math.min(lightness, 1 - lightness) * Math.max(-1, Math.min(at - 3, 9 - at, 1));
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  };
  return 0.2126 * channel(0) + 0.7152 * channel(8) + 0.0722 * channel(4);
}
