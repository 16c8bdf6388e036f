// The story of a pod: conditions, events, recorded attempts, what would change its decision, and the
// verdict and scores of every node.

import { ago, count, h, plural, table } from "./dom.js";

const MOST_ROWS = 200;
const natural = new Intl.Collator("en", { numeric: true }).compare;

export class PodView {
  name = "pod";

  constructor(model, namespace, name) {
    this.model = model;
    this.key = `${namespace}/${name}`;
    this.title = this.key;
    this.path = `pods/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
    this.sort = "total";
    this.body = h("div", {}, h("p", { class: "hint" }, "Asking every plugin about every node."));
    this.again = h("button", { type: "button", onclick: () => this.load() }, "Decide again");
    this.element = h("section", { class: "pod" }, h("header", {}, h("h1", {}, this.key), this.again), this.body);
    this.load();
  }

  async load() {
    this.again.disabled = true;
    this.abort?.abort();
    this.abort = new AbortController();
    try {
      const answer = await fetch(this.path, { signal: this.abort.signal });
      if (answer.status === 404) this.say("There is no such pod.");
      else if (!answer.ok) this.say(`The story could not be read: ${answer.status}.`);
      else this.show(await answer.json());
    } catch (problem) {
      if (problem.name !== "AbortError") this.say("The story could not be read: no connection.");
    }
    this.again.disabled = false;
  }

  close() {
    this.abort?.abort();
  }

  // Shows the story again when the pod has changed.
  draw() {
    const pod = this.model.pods.get(this.key);
    const state = pod && JSON.stringify([pod.node, pod.phase, pod.message]);
    if (state && this.state && state !== this.state) this.load();
    if (state) this.state = state;
  }

  say(text) {
    this.body.replaceChildren(h("p", { class: "hint" }, text));
  }

  show(story) {
    const { decision } = story;
    this.again.textContent = story.events ? "Decide again" : "Load again";
    const fact = (name, value) => [h("dt", {}, name), h("dd", {}, value)];
    const when = (text) => (text ? h("time", { datetime: text, title: text }, `${ago(Date.parse(text) / 1000)} ago`) : "");
    const pending = story.conditions.find((c) => c.type === "PodScheduled" && c.status !== "True");
    this.kubernetes = pending?.message;
    const first = story.sentence ? `It ${story.sentence}.` : this.kubernetes;
    const below = first === this.kubernetes ? pending : null; // its message stands above
    this.body.replaceChildren(
      h("dl", { class: "facts" }, fact("node", story.node || "none"), fact("phase", story.phase),
        fact("priority", count(story.priority)), fact("scheduler", story.scheduler), fact("created", when(story.created))),
      first ? h("p", { class: "message" }, first) : "",
      h("div", { class: "pair" },
        h("section", {}, h("h2", {}, "Conditions"), table(["type", "status", "since", "message"],
          story.conditions.map((c) => [c.type, h("b", { class: c.status === "True" ? "good" : "warn" }, c.status), when(c.time), [c.reason, c === below ? "" : c.message].filter(Boolean).join(": ")]), "Conditions")),
        story.events && h("section", {}, h("h2", {}, "Events"), story.events.length ? table(["when", "reason", "message"],
          story.events.map((e) => [when(e.time), e.count > 1 ? `${e.reason} × ${count(e.count)}` : e.reason, e.message]), "Events") : h("p", { class: "hint" }, "No event."))),
      ...(story.changes ? [h("h2", {}, "What would change it"), changes(story)] : []),
      h("h2", {}, "Recorded attempts"), attempts(story.attempts),
      h("h2", {}, "If it were decided now"),
      ...(decision ? this.decided(decision, story) : [h("p", { class: "message" }, story.problem)]));
  }

  decided(decision, story) {
    if (decision.error !== undefined) return [h("p", { class: "message" }, decision.error)];
    const verdicts = Object.entries(decision.filter);
    const why = new Map();
    for (const [, verdict] of verdicts) {
      if (!verdict.plugin) continue;
      const text = `${verdict.plugin}: ${verdict.reasons.join("; ") || verdict.code}`;
      why.set(text, (why.get(text) ?? 0) + 1);
    }
    const fit = Object.keys(decision.total).length;
    const parts = [h("p", {}, fit
      ? `${plural(fit, "node")} of ${count(verdicts.length)} fit. ${decision.best.length > 1 ? `${count(decision.best.length)} tie for the best score; chance decides.` : `${decision.hosts[0]} has the best score.`}`
      : decision.message && decision.message !== this.kubernetes ? decision.message : (decision.hosts.length ? `It is nominated to ${decision.hosts[0]}, and fits there.` : "No node fits."))];
    if (decision.prefilter) parts.push(h("p", { class: "message" }, `${decision.prefilter.plugin}: ${decision.prefilter.reasons.join("; ")}`));
    if (decision.preemption) {
      parts.push(h("p", { class: "message" }, `Preemption would evict ${decision.preemption.victims.join(", ")} from ${decision.preemption.nominatedNode}.`));
    } else if (decision.preemptionMessage && !(decision.message ?? "").includes(decision.preemptionMessage)) parts.push(h("p", { class: "hint" }, decision.preemptionMessage));
    if (why.size) {
      parts.push(h("h3", {}, "Why nodes do not fit"), h("div", { class: "reasons" }, [...why].sort((a, b) => b[1] - a[1]).map(([text, number]) => {
        const bar = h("i");
        bar.style.width = `${(100 * number) / verdicts.length}%`;
        return h("div", { class: "use" }, h("span", {}, text), h("b", {}, plural(number, "node")), h("div", { class: "bar" }, bar));
      })));
    }
    if (verdicts.length) {
      this.matrix = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Nodes with scores" });
      this.scores(decision, story);
      parts.push(h("h3", {}, "Nodes"), this.matrix);
    }
    return parts;
  }

  scores(decision, story) {
    const plugins = Object.keys(decision.score);
    const value = (node, column) => (column === "total" ? decision.total[node] : decision.score[column]?.[node]) ?? -1;
    const names = Object.keys(decision.filter).sort((a, b) => this.sort === "node" ? natural(a, b)
      : value(b, this.sort) - value(a, this.sort) || natural(a, b));
    const highest = Object.fromEntries(["total", ...plugins].map((column) => [column, Math.max(1, ...names.slice(0, 5000).map((node) => value(node, column)))]));
    const head = (column) => h("th", { scope: "col", "aria-sort": this.sort === column ? (column === "node" ? "ascending" : "descending") : undefined },
      h("button", { type: "button", onclick: () => { this.sort = column; this.scores(decision, story); } }, column));
    const cell = (node, column) => {
      const number = value(node, column);
      if (number < 0) return h("td", {}, "");
      const element = h("td", { class: "number heat" }, count(number));
      element.style.setProperty("--heat", `${Math.round((55 * number) / highest[column])}%`);
      return element;
    };
    const columns = plugins.length ? ["total", ...plugins] : [];
    const best = new Set(decision.best);
    const verdict = (node) => {
      const { plugin, reasons, code } = decision.filter[node];
      return plugin ? `${plugin}: ${reasons.join("; ") || code}` : best.has(node) ? "best" : "fits";
    };
    this.matrix.replaceChildren(h("table", { class: "scores" },
      h("caption", {}, names.length > MOST_ROWS ? `The first ${count(MOST_ROWS)} of ${plural(names.length, "node")}; scores are weighed` : `${plural(names.length, "node")}; scores are weighed`),
      h("thead", {}, h("tr", {}, head("node"), h("th", { scope: "col" }, "verdict"), columns.map(head))),
      h("tbody", {}, names.slice(0, MOST_ROWS).map((node) => h("tr", { class: node === story.node ? "here" : undefined },
        h("th", { scope: "row" }, node === story.node ? `${node} (runs here)` : node),
        h("td", { class: "why" }, verdict(node)), columns.map((column) => cell(node, column)))))));
  }
}

const WHO = { wait: "nobody", owner: "the pod's owner", admin: "an admin" };

function changes(story) {
  const parts = story.changes.map((change) => [WHO[change.who] ?? change.who, change.sentence]);
  const list = parts.length ? table(["who can do it", "change"], parts, "What would change it")
    : h("p", { class: "hint" }, story.changesProblem || "Nothing, nor two things together, of the kinds that are tried.");
  return h("div", {}, list, parts.length && story.changesProblem ? h("p", { class: "hint" }, story.changesProblem) : "");
}

function attempts(recorded) {
  if (!recorded.length) return h("p", { class: "hint" }, "No attempt is recorded.");
  const why = (attempt) => [
    ...(attempt.result === "placed" ? [attempt.conclusion] : []),
    ...attempt.reasons.map((reason) => `${plural(reason.nodes, "node")}: ${reason.reasons.join("; ")} [${reason.plugin}]`),
    ...(attempt.nominated ? [`nominated to ${attempt.nominated}; evicts ${attempt.victims.join(", ") || "nobody"}`] : []),
    ...(attempt.best.length > 1 ? [attempt.best.map((best) => `${best.node} ${count(best.score)}`).join(", ")] : []),
    ...(attempt.reasons.length || !attempt.message ? [] : [attempt.message]),
  ].map((line) => h("p", {}, line));
  const time = (attempt) => {
    const date = new Date(attempt.at * 1000).toISOString();
    return h("time", { datetime: date, title: date }, `${ago(attempt.at)} ago`);
  };
  return table(["no.", "when", "result", "why", "woken by", "waited", "took"], recorded.map((attempt) => [
    attempt.number, time(attempt), h("b", { class: attempt.result === "placed" ? "good" : "warn" }, attempt.result), why(attempt),
    attempt.wokenBy, `${attempt.waited.toFixed(2)} s`, `${(attempt.seconds * 1000).toFixed(2)} ms`]), "Recorded attempts");
}
