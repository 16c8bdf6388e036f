// Makes elements. Text only ever becomes a text node, so no name or message can become markup.

export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(3).filter((child) => child !== null && child !== undefined)
    .map((child) => (child instanceof Node ? child : String(child))));
  return element;
}

export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

export function variable(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

const NUMBERS = new Intl.NumberFormat("en");
export const count = (number) => NUMBERS.format(number);
export const plural = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;

export function amount(resource, value) {
  if (resource === "cpu") return value % 1000 ? `${count(value)}m` : count(value / 1000);
  if (resource === "memory" || resource.includes("storage") || resource.startsWith("hugepages")) {
    for (const [unit, size] of [["Ti", 2 ** 40], ["Gi", 2 ** 30], ["Mi", 2 ** 20], ["Ki", 1024]]) {
      if (value >= size) return `${Number((value / size).toFixed(1))} ${unit}`;
    }
  }
  return count(value);
}

export function ago(seconds) {
  const age = Math.max(0, Date.now() / 1000 - seconds);
  if (age < 120) return `${Math.round(age)} s`;
  if (age < 7200) return `${Math.round(age / 60)} min`;
  if (age < 172800) return `${Math.round(age / 3600)} h`;
  return `${Math.round(age / 86400)} d`;
}

export const podLink = (key) => {
  const slash = key.indexOf("/");
  return `#/pod/${encodeURIComponent(key.slice(0, slash))}/${encodeURIComponent(key.slice(slash + 1))}`;
};

// The beginning of a text that fits a width of a canvas.
export function fitted(pen, text, width) {
  if (width < 8) return "";
  let wide = pen.measureText(text).width;
  if (wide <= width) return text;
  let length = Math.floor((text.length * width) / wide);
  while (length > 0 && (wide = pen.measureText(`${text.slice(0, length)}…`).width) > width) length -= 1;
  return length > 1 ? `${text.slice(0, length)}…` : "";
}

// The end of a text that fits a width of a canvas.
export function ending(pen, text, width) {
  let start = 0;
  while (start < text.length && pen.measureText(text.slice(start)).width > width) start += 1;
  return text.slice(start);
}

// A text that fits a width of a canvas: of a name it shows the beginning and the end, which tell it from others.
export function shortened(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  const letters = Math.floor(width / pen.measureText("m").width) - 1;
  if (letters < 3) return ending(pen, text, width);
  const last = Math.ceil(letters * 0.6);
  return `${text.slice(0, letters - last)}…${text.slice(-last)}`;
}

// The column "why", or else the last one, wraps its texts.
export function table(columns, rows, label) {
  const wrapped = columns.includes("why") ? columns.indexOf("why") : columns.length - 1;
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, h("table", {},
    h("thead", {}, h("tr", {}, columns.map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell, index) => h("td", { class: index === wrapped ? "why" : undefined }, cell)))))));
}
