// The steps of a what-if: sentences such as "drain node-1", and contents such as pasted manifests.

const PLAIN = /^[\w@%+=:,./-]+$/;

// The sentence of words, each quoted as a shell would, because names come from users.
export function sentence(...words) {
  return words.map((word) => (PLAIN.test(word) ? word : `'${String(word).replaceAll("'", `'"'"'`)}'`)).join(" ");
}

// The words of a sentence that was made here.
export function wordsOf(step) {
  if (typeof step !== "string") return [];
  const words = [];
  for (const [, bare, single, double] of step.matchAll(/([^\s'"]+)|'([^']*)'|"([^"]*)"|\s+/g)) {
    const part = bare ?? single ?? double;
    if (part === undefined) words.push("");
    else if (words.length) words[words.length - 1] += part;
    else words.push(part);
  }
  return words;
}

export const title = (step) => {
  if (typeof step === "string") return step;
  const lines = (step.manifests ?? "").trim().split("\n").length;
  return `apply manifests, ${lines} line${lines === 1 ? "" : "s"}`;
};

// The address of a what-if: a part for each step.
export const linkTo = (steps) => ["#/whatif", ...steps.map((step) =>
  encodeURIComponent(typeof step === "string" ? step : JSON.stringify(step)))].join("/");

export function stepsOf(parts) {
  return parts.filter(Boolean).map((part) => {
    let text = part;
    try {
      text = decodeURIComponent(part);
    } catch { /* as it is */ }
    if (!text.startsWith("{")) return text;
    try {
      const step = JSON.parse(text);
      return typeof step.manifests === "string" ? { manifests: step.manifests } : text;
    } catch {
      return text;
    }
  });
}
