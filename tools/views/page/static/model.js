// The cluster as the browser knows it. The columns of rows are those of rows.py.

const EMPTY = { labels: {}, taints: [], cordoned: false, problems: [], allocatable: {} };

export class Model {
  constructor() {
    this.clear();
  }

  clear() {
    this.nodes = new Map();
    this.pods = new Map();
    this.pending = new Set();
    this.workloads = new Map(); // number of pods by name
    this.drawn = new Map(); // number of pods on the nodes, by workload
    this.placed = new Map(); // number of pods by the second in which they were scheduled
    this.latency = new Map(); // seconds that they waited in all, by the same second
    this.glance = null;
    this.changed = new Set(); // names of nodes to draw again
    this.arranged = true; // the set of nodes, or what they are grouped by, has changed
    this.version = 0;
  }

  apply(frame) {
    for (const row of frame.nodes ?? []) this.putNode(row);
    for (const row of frame.pods ?? []) this.putPod(row);
    for (const key of frame.gonePods ?? []) this.removePod(key);
    for (const name of frame.goneNodes ?? []) this.removeNode(name);
    this.version += 1;
  }

  putNode([name, labels, taints, cordoned, problems, allocatable]) {
    const node = this.node(name);
    if (!node.exists || JSON.stringify(node.labels) !== JSON.stringify(labels)) this.arranged = true;
    Object.assign(node, { labels, taints, cordoned, problems, allocatable, exists: true });
    this.changed.add(name);
  }

  removeNode(name) {
    const node = this.nodes.get(name);
    if (!node) return;
    node.exists = false;
    if (!node.pods.size) this.nodes.delete(name);
    this.arranged = true;
  }

  node(name) {
    let node = this.nodes.get(name);
    if (!node) {
      node = { name, ...EMPTY, pods: new Set(), used: {}, exists: false };
      this.nodes.set(name, node);
    }
    return node;
  }

  putPod([key, node, phase, workload, priority, created, scheduled, requests, message]) {
    this.removePod(key);
    const pod = { key, node, phase, workload, priority, created, scheduled, requests, message };
    this.pods.set(key, pod);
    this.workloads.set(workload, (this.workloads.get(workload) ?? 0) + 1);
    if (node) this.count(pod, 1);
    else if (phase === "Pending" || !phase) this.pending.add(pod);
    if (scheduled) {
      this.placed.set(scheduled, (this.placed.get(scheduled) ?? 0) + 1);
      const waited = Math.max(0, scheduled - created);
      this.latency.set(scheduled, (this.latency.get(scheduled) ?? 0) + waited);
    }
  }

  removePod(key) {
    const pod = this.pods.get(key);
    if (!pod) return;
    this.pods.delete(key);
    this.pending.delete(pod);
    const left = this.workloads.get(pod.workload) - 1;
    if (left) this.workloads.set(pod.workload, left);
    else this.workloads.delete(pod.workload);
    if (pod.node) this.count(pod, -1);
    if (pod.scheduled) {
      this.placed.set(pod.scheduled, this.placed.get(pod.scheduled) - 1);
      const waited = Math.max(0, pod.scheduled - pod.created);
      this.latency.set(pod.scheduled, this.latency.get(pod.scheduled) - waited);
    }
  }

  count(pod, sign) {
    const node = this.node(pod.node);
    if (Object.keys(pod.requests).length) {
      if (sign > 0) node.pods.add(pod);
      else node.pods.delete(pod);
      const left = (this.drawn.get(pod.workload) ?? 0) + sign;
      if (left) this.drawn.set(pod.workload, left);
      else this.drawn.delete(pod.workload);
    }
    for (const [resource, value] of Object.entries(pod.requests)) {
      node.used[resource] = (node.used[resource] ?? 0) + sign * value;
    }
    this.changed.add(pod.node);
  }

  existing() {
    return [...this.nodes.values()].filter((node) => node.exists);
  }

  resources() {
    const names = new Set(["cpu", "memory", "pods"]);
    for (const node of this.nodes.values()) for (const name in node.allocatable) names.add(name);
    return [...names];
  }

  // The labels that put nodes into few groups.
  labels() {
    const values = new Map();
    for (const node of this.nodes.values()) {
      for (const [key, value] of Object.entries(node.labels)) {
        if (!values.has(key)) values.set(key, new Set());
        values.get(key).add(value);
      }
    }
    return [...values].filter(([, set]) => set.size <= 60).map(([key]) => key).sort();
  }

  rate(seconds = 5) {
    const now = Math.floor(Date.now() / 1000);
    let sum = 0;
    for (let second = now - seconds; second < now; second += 1) sum += this.placed.get(second) ?? 0;
    return sum / seconds;
  }
}

// The share of a resource that is requested, in whole percent, rounded down as what-ifs do.
export const percent = (part, whole) => (whole ? Math.floor((100 * part) / whole + 1e-9) : 0);

export const share = (node, resource) => {
  const whole = node.allocatable[resource] ?? 0;
  return whole ? Math.min(1, (node.used[resource] ?? 0) / whole) : 0;
};
