// The buttons that change a node, where the page is served with them: in `berth demo`. A token that
// only pages of the same origin can read goes with each request.

import { h } from "./dom.js";

const VERBS = [["cordon", "Cordon"], ["uncordon", "Uncordon"], ["drain", "Drain"], ["delete", "Delete"]];
const QUESTIONS = {
  drain: (name) => `Drain ${name}? Its pods are evicted; those without a controller do not come back.`,
  delete: (name) => `Delete ${name}? Its pods are deleted with it.`,
};

export class Buttons {
  constructor() {
    this.said = h("p", { class: "hint", role: "status" });
    this.buttons = Object.fromEntries(VERBS.map(([verb, name]) => [verb, h("button", { type: "button", onclick: () => this.act(verb) }, name)]));
    this.group = h("div", { role: "group", "aria-label": "Change the node", hidden: true }, Object.values(this.buttons));
    this.element = h("div", { class: "acts" }, this.group, this.said);
    token().then((text) => { this.allowed = Boolean(text); }, () => {});
  }

  show(node) {
    const name = node?.name ?? "";
    if (name && name !== this.name) this.said.textContent = "";
    this.name = name;
    this.group.hidden = !node || !this.allowed;
    if (!node) return;
    const [now, next] = node.cordoned ? ["cordon", "uncordon"] : ["uncordon", "cordon"];
    const focused = document.activeElement === this.buttons[now];
    this.buttons[now].hidden = true;
    this.buttons[next].hidden = false;
    if (focused) this.buttons[next].focus();
  }

  async act(verb) {
    const { name } = this;
    if (QUESTIONS[verb] && !confirm(QUESTIONS[verb](name))) return;
    let text = "no connection";
    try {
      const answer = await fetch(`nodes/${encodeURIComponent(name)}/${verb}`, { method: "POST", headers: { "X-Berth-Token": await token() } });
      text = await answer.text();
    } catch { /* said below */ }
    if (!this.name || this.name === name) this.said.textContent = text;
  }
}

async function token() {
  const answer = await fetch("token");
  return answer.ok ? answer.text() : "";
}
