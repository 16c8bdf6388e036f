// The pending pods beside the map, each with the sentence of its story. Until that has come, and if
// there is none, the message of Kubernetes stands there.

import { h, plural, podLink } from "./dom.js";

const MOST = 8;
const EVERY = 1000; // milliseconds between two stories, as each is a decision

export class PendingPods {
  constructor(model) {
    this.model = model;
    this.pods = [];
    this.texts = new Map(); // the elements, by key
    this.told = new Map(); // by key: the message when the story was asked for, and its sentence
  }

  close() {
    this.pods = [];
  }

  show() {
    this.pods = [...this.model.pending].slice(0, MOST);
    if (!this.pods.length) return [];
    this.texts = new Map(this.pods.map((pod) => [pod.key, h("p", {}, this.told.get(pod.key)?.sentence || pod.message)]));
    this.ask();
    return [h("h3", {}, `${plural(this.model.pending.size, "pod")} pending`),
      h("ul", { class: "pods" }, this.pods.map(({ key }) => h("li", {}, h("a", { href: podLink(key) }, key), this.texts.get(key))))];
  }

  // Asks for the story of the first pod that has none, or that waits for another reason by now.
  async ask() {
    const pod = this.pods.find(({ key, message }) => this.told.get(key)?.message !== message);
    if (!pod || this.asking) return;
    this.asking = true;
    const sentence = await sentenceOf(pod.key);
    const listed = new Set(this.pods.map(({ key }) => key));
    this.told = new Map([...this.told, [pod.key, { message: pod.message, sentence }]].filter(([key]) => listed.has(key)));
    if (sentence && listed.has(pod.key)) this.texts.get(pod.key).textContent = sentence;
    setTimeout(() => { this.asking = false; this.ask(); }, EVERY);
  }
}

async function sentenceOf(key) {
  const slash = key.indexOf("/");
  try {
    const answer = await fetch(`pods/${encodeURIComponent(key.slice(0, slash))}/${encodeURIComponent(key.slice(slash + 1))}`);
    const story = answer.ok ? await answer.json() : {};
    return story.sentence ? `It ${story.sentence}.` : "";
  } catch {
    return ""; // The feed says that the connection is lost.
  }
}
