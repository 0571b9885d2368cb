// Lays out the nodes of a graph in layers from left to right: callers before the Services that they call. The same
// graph always gets the same layout.

const COLUMN = 250;
const ROW = 34;
/** Maximum number of nodes in a column. A layer with more nodes has several columns side by side. */
const COLUMN_MAX = 44;
const SWEEPS = 4;

/** Returns { x, y } for each node. `edges` are pairs of indices. */
export function layout(count, edges) {
  const out = Array.from({ length: count }, () => []);
  const into = Array.from({ length: count }, () => []);
  for (const [from, to] of edges) {
    if (from !== to) { out[from].push(to); into[to].push(from); }
  }
  const layer = layers(count, out, into);
  const columns = [];
  layer.forEach((at, node) => (columns[at] ??= []).push(node));
  const place = new Float64Array(count);
  const number = (column) => column.forEach((node, index) => { place[node] = index / Math.max(column.length, 1); });
  columns.forEach(number);
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const near = sweep % 2 === 0 ? into : out;
    for (const column of sweep % 2 === 0 ? columns : [...columns].reverse()) {
      const mean = new Map(column.map((node) => [node, near[node].length ? near[node].reduce((sum, other) => sum + place[other], 0) / near[node].length : place[node]]));
      column.sort((a, b) => mean.get(a) - mean.get(b) || a - b);
      number(column);
    }
  }
  const places = new Array(count);
  let x = 0;
  for (const column of columns) {
    const parts = Math.ceil(column.length / COLUMN_MAX);
    const height = Math.ceil(column.length / parts);
    column.forEach((node, index) => {
      const part = Math.floor(index / height);
      const rows = Math.min(height, column.length - part * height);
      places[node] = { x: x + part * COLUMN, y: ((index % height) - (rows - 1) / 2) * ROW };
    });
    x += parts * COLUMN;
  }
  return places;
}

/** The layer of each node: one more than the highest layer of its callers. Edges that close a cycle are ignored. */
function layers(count, out, into) {
  const state = new Uint8Array(count);
  const order = [];
  const back = new Set();
  const roots = [...Array(count).keys()].sort((a, b) => (into[a].length > 0) - (into[b].length > 0) || a - b);
  for (const root of roots) {
    if (state[root]) continue;
    const stack = [[root, 0]];
    state[root] = 1;
    while (stack.length) {
      const top = stack[stack.length - 1];
      const next = out[top[0]][top[1]++];
      if (next === undefined) { state[top[0]] = 2; order.push(top[0]); stack.pop(); }
      else if (state[next] === 1) back.add(top[0] * count + next);
      else if (!state[next]) { state[next] = 1; stack.push([next, 0]); }
    }
  }
  const layer = new Array(count).fill(0);
  for (const node of order.reverse()) {
    for (const next of out[node]) if (!back.has(node * count + next)) layer[next] = Math.max(layer[next], layer[node] + 1);
  }
  return layer;
}
