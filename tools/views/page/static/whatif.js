// The view of what-ifs: steps, the weights of plugins, and where pods would land.

import { Compare } from "./compare.js";
import { count, h, podLink, table } from "./dom.js";
import { offers, post } from "./offers.js";
import { linkTo, sentence, title, wordsOf } from "./steps.js";

const MOST_ROWS = 200;
const MOST_NAMES = 500; // of nodes or pods to choose from
const DRAGGED = 250; // milliseconds after which a weight counts as set
// The fields for the words in capitals of a verb's form: the name, the label, and the names to choose from, or a number.
const FIELDS = {
  NODE: ["node", "Node", "nodes"], "KEY[=VALUE]:EFFECT[-]": ["taint", "Taint", "taints"], NUMBER: ["number", "Number", "", 1],
  "KIND/NAME": ["workload", "Workload", "workloads"], "[NAMESPACE/]POD": ["pod", "Pod", "pods"],
  "[NAMESPACE/]POD...": ["pod", "Pod", "pods"], FILE: ["manifests", "Manifests"],
};
const kept = { steps: [], result: null, problem: null };

export class WhatIfView {
  name = "whatif";
  title = "What if";

  constructor(model, steps) {
    this.model = model;
    if (steps.length) Object.assign(kept, { steps, result: null, problem: null });
    this.build();
    this.list();
    this.tell();
    if (steps.length) this.ask();
    offers().then((offered) => {
      this.offered = offered;
      this.verbs = Object.fromEntries((offered.verbs ?? []).map((of) => [of.form.split(" ")[0], { ...of, words: of.form.split(" ") }]));
      this.verb.append(...Object.entries(this.verbs).filter(([, { real }]) => real).map(([verb, of]) => h("option", { value: verb }, of.title)));
      this.verb.value = "drain";
      this.fields();
      this.weigh();
      this.list();
    });
  }

  build() {
    this.verbs = {};
    this.verb = h("select", { onchange: () => this.fields() });
    this.places = h("span", { class: "places" });
    this.adding = h("form", { class: "tools", "aria-label": "Add a step", onsubmit: (event) => { event.preventDefault(); this.add(); } },
      h("label", {}, h("span", {}, "Step"), this.verb), this.places, h("button", { type: "submit" }, "Add step"));
    this.steps = h("ol", { class: "steps", "aria-label": "Steps" });
    this.weights = h("div", { class: "weights" });
    this.weighing = h("details", { hidden: true }, h("summary", {}, "Weights of the score plugins"),
      h("p", { class: "hint" }, "Weights decide where pods land that are placed: pending ones, and those of the steps below."), this.weights);
    this.asks = h("button", { type: "button", class: "main", onclick: () => this.ask() }, "Ask");
    this.clears = h("button", { type: "button", onclick: () => this.clear() }, "Clear");
    this.reals = h("button", { type: "button", hidden: true, onclick: () => this.act() }, "Do it for real");
    this.said = h("p", { class: "hint", role: "status" });
    this.wrong = h("p", { class: "message bad", role: "alert", hidden: true });
    this.compare = new Compare(this.model);
    this.tables = h("div", {});
    this.answer = h("div", { hidden: true }, this.compare.element, this.tables);
    this.names = Object.fromEntries(["nodes", "pods", "workloads", "taints"].map((name) => [name, h("datalist", { id: `names-${name}` })]));
    this.names.taints.append(...["NoSchedule", "PreferNoSchedule", "NoExecute"].map((effect) => h("option", { value: `dedicated=team:${effect}` })));
    this.element = h("section", { class: "whatif" }, h("h1", {}, "What if"),
      h("p", { class: "hint" }, "Steps are tried on a copy of the cluster; nothing changes."),
      this.adding, this.weighing, this.steps, h("div", { class: "tools" }, this.asks, this.clears, this.reals),
      this.wrong, this.said, this.answer, Object.values(this.names));
  }

  // The fields of the verb that is chosen.
  fields(values = {}) {
    this.inputs = {};
    const { words = [], labels } = this.verbs[this.verb.value] ?? {};
    this.places.replaceChildren(...words.filter((word) => FIELDS[word]).map((word) => {
      const [name, label, names, number] = FIELDS[word];
      const input = name === "manifests"
        ? h("textarea", { rows: 8, cols: 60, required: true, spellcheck: "false", placeholder: "apiVersion: v1\nkind: Pod\n…" })
        : h("input", number ? { type: "number", min: 0, value: number, required: true }
          : { list: names ? `names-${names}` : null, required: true, autocomplete: "off",
            placeholder: { taints: "key=value:NoSchedule", workloads: "deployment/web", pods: "namespace/name" }[names] ?? "" });
      if (values[name] !== undefined) input.value = values[name];
      input.addEventListener("focus", () => this.choose(names));
      this.inputs[name] = input;
      return h("label", { class: name }, h("span", {}, labels[word] ?? label), input);
    }));
  }

  choose(names) {
    const { model } = this;
    const lists = {
      nodes: () => model.existing().map(({ name }) => name),
      pods: () => [...model.pods.keys()],
      workloads: () => [...model.workloads.keys()].map((key) => `deployment/${key}`),
    };
    if (!lists[names]) return;
    this.names[names].replaceChildren(...lists[names]().slice(0, MOST_NAMES).map((value) => h("option", { value })));
  }

  add() {
    const verb = this.verb.value;
    const values = Object.fromEntries(Object.entries(this.inputs).map(([name, input]) => [name, input.value]));
    const step = verb === "apply" ? { manifests: values.manifests }
      : sentence(...this.verbs[verb].words.map((word) => (FIELDS[word] ? values[FIELDS[word][0]] : word)));
    kept.steps.push(step);
    for (const input of Object.values(this.inputs)) if (input.type !== "number") input.value = "";
    this.changed();
    Object.values(this.inputs)[0].focus();
  }

  clear() {
    Object.assign(kept, { steps: [], result: null, problem: null });
    this.changed();
    this.weigh();
    this.tell();
  }

  changed() {
    kept.problem = null;
    this.wrong.hidden = true;
    history.replaceState(null, "", linkTo(kept.steps));
    this.list();
  }

  list() {
    const wrong = Number(/^steps\[(\d+)\]/.exec(kept.problem?.field ?? "")?.[1] ?? -1);
    this.steps.replaceChildren(...kept.steps.map((step, index) => h("li", { class: index === wrong ? "bad" : undefined },
      h("span", {}, title(step)),
      step.manifests === undefined ? null : h("button", { type: "button", "aria-label": `Edit step ${index + 1}`, onclick: () => this.edit(index) }, "Edit"),
      h("button", { type: "button", "aria-label": `Remove step ${index + 1}`, onclick: () => this.drop(index) }, "×"))));
    this.steps.hidden = !kept.steps.length;
    this.reals.hidden = !this.offered?.does || !kept.steps.length;
    this.reals.disabled = kept.steps.some((step) => this.verbs[wordsOf(step)[0]]?.real === false);
    this.reals.title = this.reals.disabled ? "Weights, priorities and configurations are only tried." : "";
  }

  drop(index) {
    kept.steps.splice(index, 1);
    this.changed();
    this.weigh();
    (this.steps.querySelector("button") ?? this.asks).focus();
  }

  edit(index) {
    const [{ manifests }] = kept.steps.splice(index, 1);
    this.verb.value = "apply";
    this.fields({ manifests });
    this.changed();
    this.inputs.manifests.focus();
  }

  // A slider and a number for each score plugin. A weight that is not the present one is a step.
  weigh() {
    const weights = this.offered?.weights ?? {};
    const profiles = Object.entries(weights);
    this.weighing.hidden = !profiles.length;
    const set = new Map(kept.steps.map(wordsOf).filter(([verb]) => verb === "weight").map(([, name, number]) => [name, number]));
    this.weights.replaceChildren(...profiles.map(([profile, plugins]) => h("fieldset", {}, h("legend", {}, profile),
      Object.entries(plugins).map(([plugin, weight]) => {
        const name = profiles.length > 1 ? `${profile}/${plugin}` : plugin;
        const value = set.get(name) ?? weight;
        const number = h("input", { type: "number", min: 0, max: 100, value, "aria-label": `Weight of ${plugin}` });
        const slider = h("input", { type: "range", min: 0, max: Math.max(20, value), value, "aria-label": `Weight of ${plugin}, slider` });
        const to = (input, other) => () => {
          if (input.value === "") return;
          other.value = input.value;
          this.weight(name, input.value, weight);
        };
        slider.addEventListener("input", to(slider, number));
        number.addEventListener("input", to(number, slider));
        return h("div", { class: "weight" }, h("span", {}, plugin), slider, number);
      }))));
    if (set.size) this.weighing.open = true;
  }

  weight(name, value, present) {
    const index = kept.steps.findIndex((step) => { const [verb, of] = wordsOf(step); return verb === "weight" && of === name; });
    if (index >= 0) kept.steps.splice(index, 1);
    if (Number(value) !== present) kept.steps.unshift(sentence("weight", name, String(Math.trunc(Number(value)))));
    this.changed();
    clearTimeout(this.dragged);
    if (kept.result) this.dragged = setTimeout(() => this.ask(), DRAGGED);
  }

  async ask() {
    const answer = await this.send("whatif", "Placing the pods of a copy of the cluster.");
    if (!answer) return;
    Object.assign(kept, answer);
    this.list();
    this.tell();
  }

  // Sends the steps. Returns the result, or the problem; nothing if something else was asked since.
  async send(path, said = "") {
    this.abort?.abort();
    const abort = (this.abort = new AbortController());
    this.said.textContent = said;
    this.wrong.hidden = true;
    this.element.setAttribute("aria-busy", "true");
    let problem = { field: "", problem: "no connection" };
    let result = null;
    try {
      const answer = await post(path, JSON.stringify({ steps: kept.steps }));
      const text = await answer.text();
      try {
        if (answer.ok) result = JSON.parse(text);
        else problem = JSON.parse(text);
      } catch {
        problem = { field: "", problem: text || String(answer.status) };
      }
    } catch { /* said below */ }
    if (abort.signal.aborted) return null;
    this.element.removeAttribute("aria-busy");
    return { result, problem: result ? null : problem };
  }

  async act() {
    if (!confirm(`Do this to the cluster for real: ${kept.steps.map(title).join("; ")}?`)) return;
    const answer = await this.send("steps");
    if (!answer) return;
    const { result, problem } = answer;
    if (problem) Object.assign(kept, { problem });
    this.list();
    this.tell();
    if (result) this.said.textContent = result.join(" ");
  }

  close() {
    this.abort?.abort();
    clearTimeout(this.dragged);
  }

  tell() {
    const { result, problem } = kept;
    this.wrong.hidden = !problem;
    this.answer.hidden = !result;
    if (problem) {
      const number = /^steps\[(\d+)\]/.exec(problem.field);
      const where = number ? `Step ${Number(number[1]) + 1}: ` : problem.field ? `${problem.field}: ` : "";
      this.wrong.textContent = where + problem.problem;
      this.said.textContent = "";
    } else if (!result) this.said.textContent = "";
    if (!result) return;
    this.said.textContent = conclusion(result);
    this.compare.show(result);
    this.tables.replaceChildren(...sections(result));
  }

  draw() {
    const { model, compare } = this;
    if (kept.result && (model.arranged || compare.width !== compare.sides[0].element.clientWidth)) compare.paint();
    model.arranged = false;
  }
}

const conclusion = ({ conclusion: said }) => `${said[0].toUpperCase()}${said.slice(1)}.`;

const link = (key) => h("a", { href: podLink(key) }, key);
const when = (step) => (step ? title(kept.steps[step - 1] ?? "") : "before all steps");
const arrow = (old, now) => (old === now ? String(now) : `${old} → ${now}`);

function sections(result) {
  const node = new Map(result.placed.map((placed) => [placed.pod, placed.node]));
  const replacements = new Set(result.evicted.map(({ replacement }) => replacement));
  const moved = result.evicted.map((of) => [link(of.pod), of.node,
    of.replacement ? node.get(of.replacement) ?? h("b", { class: "warn" }, "pending") : h("b", { class: "warn" }, "gone"), of.replacement || "nothing", of.reason]);
  const placed = result.placed.filter(({ pod }) => !replacements.has(pod)).map((of) => [of.pod, of.workload, of.node, when(of.step),
    of.waitsFor?.length ? `waits in Permit of ${of.waitsFor.join(", ")}`
      : of.untried?.length ? `not tried: ${of.untried.join(", ")}` : ""]);
  const pending = (title, before) => {
    const groups = result.pending.filter((of) => of.before === before);
    const rows = groups.map((of) => [of.workload, of.pods.length > 1 ? `${of.pods[0]} and ${count(of.pods.length - 1)} more` : of.pods[0], of.reason]);
    return section(title, ["workload", "pods", "why"], rows, groups.reduce((sum, { pods }) => sum + pods.length, 0));
  };
  const nodes = result.nodes.filter((of) => JSON.stringify(of.before) !== JSON.stringify(of.after)).map(({ node: name, before, after }) =>
    (before && after ? [name, ...["cpu", "memory", "pods"].map((of) => arrow(before[of], after[of])), ""]
      : after ? [name, after.cpu, after.memory, after.pods, "new"] : [name, before.cpu, before.memory, before.pods, h("b", { class: "warn" }, "removed")]));
  return [
    ...section("Lost", ["pod", "from", "why", "in step"], result.lost.map((of) => [of.pod, of.node, of.reason, when(of.step)])),
    ...pending("Stay pending", false),
    ...section("Workloads that get no pods", ["workload", "why", "in step"], result.refused.map((of) => [of.workload, of.reason, when(of.step)])),
    ...section("Moved or evicted", ["pod", "from", "to", "replaced by", "why"], moved),
    ...section("Deleted", ["pod", "workload", "from", "in step"], result.deleted.map((of) => [of.pod, of.workload, of.node || "pending", when(of.step)])),
    ...section("Placed", ["pod", "workload", "node", "in step", "note"], placed),
    ...section("A drain still waits for", ["pod", "on", "disruption budget"], result.kept.map((of) => [link(of.pod), of.node, of.budgets.join(", ")])),
    ...section("Evictions refused (429)", ["pod", "on", "disruption budget", "in step"],
      (result.refusedEvictions ?? []).map((of) => [link(of.pod), of.node, of.budgets.join(", "), when(of.step)])),
    ...section("Came to a node after its drain began", ["pod", "on"], result.returned.map((of) => [link(of.pod), of.node])),
    ...section("Left to other schedulers", ["scheduler", "pods"], result.leftAlone.map((of) => [of.scheduler, of.pods.join(", ")])),
    ...pending("Pending before", true),
    ...section("Workloads without pods, of which one was tried", ["workload", "asks for", "pod", "node"],
      result.withoutPods.map((of) => [of.workload, of.asks, of.pod, of.node || h("b", { class: "warn" }, "pending")])),
    ...section("Nodes that change", ["node", "cpu %", "memory %", "pods", "note"], nodes),
  ];
}

function section(name, columns, rows, number = rows.length) {
  if (!rows.length) return [];
  const more = rows.length - MOST_ROWS;
  return [h("h2", {}, more > 0 ? `${name}: the first ${count(MOST_ROWS)} of ${count(number)}` : `${name}: ${count(number)}`),
    table(columns, rows.slice(0, MOST_ROWS), name)];
}
