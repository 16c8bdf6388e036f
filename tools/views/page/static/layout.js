// Where the boxes of nodes are: pure geometry, without drawing.

// The widths of boxes to try, each a twelfth smaller than the one before it.
const WIDTHS = Array.from({ length: 41 }, (_, step) => Math.round(320 * (11 / 12) ** step));
const HEAD = 24; // the heading of a group
const GUTTER = 16; // between groups

// Puts groups of nodes into a width, with the largest boxes that fit the height; the smallest
// boxes, or those of the least width and height, may be higher than it. Returns { boxes, heads, height }.
export function arrange(groups, width, height, least = { width: 0, height: 0 }) {
  const most = Math.max(1, Math.min(groups.length, 8, Math.floor(width / 150)));
  let best = null;
  let lowest = null;
  for (const size of WIDTHS) {
    for (let columns = most; columns >= 1; columns -= 1) {
      const plan = planned(groups, width, size, columns);
      if (plan === null || plan.cell < least.width || plan.high < least.height) continue;
      if (plan.height <= height) {
        if (!best || plan.cell > best.cell) best = plan;
      } else if (!lowest || plan.height < lowest.height) lowest = plan;
    }
    if (best) break;
  }
  best ??= lowest ?? planned(groups, width, WIDTHS.at(-1), 1);
  return placed(groups, best);
}

function planned(groups, width, size, columns) {
  const gap = size > 60 ? 8 : size > 24 ? 4 : 2;
  const column = (width - GUTTER * (columns - 1)) / columns;
  if (column < size) return null;
  const largest = Math.max(1, ...groups.map((group) => group.nodes.length));
  const across = Math.max(1, Math.min(largest, Math.floor((column + gap) / (size + gap))));
  const cell = Math.min((column - gap * (across - 1)) / across, size * 1.5);
  const high = Math.round(cell * (cell < 30 ? 0.8 : 0.66));
  let total = 0;
  for (let first = 0; first < groups.length; first += columns) {
    const row = groups.slice(first, first + columns);
    const rows = Math.max(...row.map((group) => Math.ceil(group.nodes.length / across)));
    total += HEAD + rows * (high + gap) + GUTTER;
  }
  return { columns, column, across, cell, high, gap, height: total };
}

function placed(groups, { columns, column, across, cell, high, gap, height }) {
  const boxes = [];
  const heads = [];
  let top = 0;
  for (let first = 0; first < groups.length; first += columns) {
    let rows = 0;
    groups.slice(first, first + columns).forEach((group, index) => {
      const left = index * (column + GUTTER);
      heads.push({ x: left, y: top, width: column, group });
      group.nodes.forEach((node, number) => {
        const x = left + (number % across) * (cell + gap);
        const y = top + HEAD + Math.floor(number / across) * (high + gap);
        boxes.push({ node, x, y, width: cell, height: high });
      });
      rows = Math.max(rows, Math.ceil(group.nodes.length / across));
    });
    top += HEAD + rows * (high + gap) + GUTTER;
  }
  return { boxes, heads, across, height: Math.max(top, 1) };
}

// Divides a rectangle among weights, in tiles as square as they can be (squarified treemap).
export function tiles(weights, x, y, width, height, put) {
  let total = weights.reduce((sum, weight) => sum + weight, 0);
  let start = 0;
  while (start < weights.length && width > 0.2 && height > 0.2 && total > 0) {
    const short = Math.min(width, height);
    const scale = (width * height) / total;
    let sum = 0;
    let worst = Infinity;
    let end = start;
    while (end < weights.length) {
      const more = sum + weights[end];
      const side = (more * scale) / short;
      const now = Math.max(side / ((weights[end] * scale) / side), (weights[start] * scale) / side / side);
      if (now > worst && end > start) break;
      worst = now;
      sum = more;
      end += 1;
    }
    const side = (sum * scale) / short;
    let at = 0;
    for (let index = start; index < end; index += 1) {
      const along = (weights[index] / sum) * short;
      if (width <= height) put(index, x + at, y + height - side, along, side);
      else put(index, x, y + height - at - along, side, along);
      at += along;
    }
    if (width <= height) height -= side;
    else { x += side; width -= side; }
    total -= sum;
    start = end;
  }
}
