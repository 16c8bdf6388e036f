// The buttons that change a node, where the page is served with them: in `berth demo`; and the links
// to what-ifs about it.

import { h } from "./dom.js";
import { offers, post } from "./offers.js";
import { linkTo, sentence } from "./steps.js";

const VERBS = [["cordon", "Cordon"], ["uncordon", "Uncordon"], ["drain", "Drain"], ["delete", "Delete"]];
const ASKED = [["drain", "drained"], ["cordon", "cordoned"], ["remove", "removed"]];
const QUESTIONS = {
  drain: (name) => `Drain ${name}? Its pods are evicted; those without a controller do not come back.`,
  delete: (name) => `Delete ${name}? Its pods are deleted with it.`,
};

export class Buttons {
  constructor() {
    this.said = h("p", { class: "hint", role: "status" });
    this.buttons = Object.fromEntries(VERBS.map(([verb, name]) => [verb, h("button", { type: "button", onclick: () => this.act(verb) }, name)]));
    this.group = h("div", { role: "group", "aria-label": "Change the node", hidden: true }, Object.values(this.buttons));
    this.links = h("p", { class: "links", hidden: true });
    this.element = h("div", { class: "acts" }, this.group, this.links, this.said);
    offers().then((offered) => { this.offered = offered; this.show(this.node); });
  }

  show(node) {
    this.node = node;
    const name = node?.name ?? "";
    if (name && name !== this.name) this.said.textContent = "";
    this.group.hidden = !node || !this.offered?.acts;
    this.links.hidden = !node || !this.offered?.asks;
    if (!node) { this.name = name; return; }
    if (name !== this.name) {
      this.links.replaceChildren("What if it is ", ...ASKED.flatMap(([verb, word], index) =>
        [index ? ", " : "", h("a", { href: linkTo([sentence(verb, name)]) }, word)]), "?");
    }
    this.name = name;
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
      text = await (await post(`nodes/${encodeURIComponent(name)}/${verb}`)).text();
    } catch { /* said below */ }
    if (!this.name || this.name === name) this.said.textContent = text;
  }
}
