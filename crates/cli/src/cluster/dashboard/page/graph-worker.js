// Lays out and paints the graph in a separate thread, so that panning never waits for this work.

import { isDenied } from './format.js';
import { layout } from './layout.js';

// Paint all images on one canvas: browsers free the memory of unused canvases too late.
const canvas = new OffscreenCanvas(1, 1);
const pen = canvas.getContext('2d');
let scene = null;
let known = '';

const tone = (row, colours) => (row.success_rate === null ? colours.line : row.success_rate < 0.95 ? colours.bad : row.success_rate < 0.99 || isDenied(row) ? colours.warn : colours.edge);

onmessage = ({ data }) => {
  if (data.graph) place(data.graph);
  if (data.paint && scene) paint(data.paint);
};

function place({ nodes, edges }) {
  const index = new Map(nodes.map((node, at) => [node.id, at]));
  const pairs = edges.map((edge) => [index.get(edge.from), index.get(edge.to)]);
  const shape = JSON.stringify([nodes.map((node) => node.id), edges.map((edge) => `${edge.from} ${edge.to}`).sort()]);
  const places = shape === known ? scene.places : layout(nodes.length, pairs);
  const isNew = shape !== known;
  known = shape;
  scene = { nodes, edges, pairs, places };
  postMessage({ places, isNew });
}

function paint({ x, y, scale, width, height, ratio, colours, turn }) {
  // Set the size to clear the canvas; this also frees the memory of the previous image at once.
  [canvas.width, canvas.height] = [Math.ceil(width * ratio), Math.ceil(height * ratio)];
  pen.setTransform(scale * ratio, 0, 0, scale * ratio, -x * scale * ratio, -y * scale * ratio);
  const busiest = Math.max(...scene.edges.map((edge) => edge.calls_per_second), 1e-9);
  const [right, bottom] = [x + width / scale, y + height / scale];
  const isCrowded = scene.edges.length > 600;
  scene.pairs.forEach(([from, to], at) => {
    const [a, b] = [scene.places[from], scene.places[to]];
    if (Math.max(a.x, b.x) + 180 < x || Math.min(a.x, b.x) > right || Math.max(a.y, b.y) + 40 < y || Math.min(a.y, b.y) - 40 > bottom) return;
    const edge = scene.edges[at];
    pen.strokeStyle = tone(edge, colours);
    const isFault = (edge.success_rate !== null && edge.success_rate < 0.95) || isDenied(edge);
    pen.globalAlpha = isCrowded ? (isFault ? 0.45 : 0.13) : 0.75;
    const strength = Math.sqrt(edge.calls_per_second / busiest);
    // Divide by the scale, so that a line keeps its width in screen pixels at every zoom. Exception: unless the graph
    // is crowded, its lines get thinner below a scale of 0.35.
    pen.lineWidth = (isCrowded ? 0.4 + strength : 0.7 + 2.6 * strength) / Math.max(scale, isCrowded ? 0 : 0.35);
    pen.beginPath();
    pen.moveTo(a.x + 168, a.y);
    // Draw straight lines in a crowded graph: curves take three times as long to paint.
    if (isCrowded) pen.lineTo(b.x, b.y);
    else pen.bezierCurveTo(a.x + 210, a.y, b.x - 42, b.y, b.x, b.y);
    pen.stroke();
  });
  pen.globalAlpha = 1;
  pen.textBaseline = 'middle';
  pen.font = '12px system-ui, sans-serif';
  scene.nodes.forEach((node, at) => {
    const spot = scene.places[at];
    if (spot.x + 170 < x || spot.x > right || spot.y + 14 < y || spot.y - 14 > bottom) return;
    pen.fillStyle = colours.panel;
    pen.strokeStyle = node.is_service ? tone(node.row, { ...colours, edge: colours.good }) : colours.line;
    pen.lineWidth = 1.4;
    pen.beginPath();
    pen.roundRect(spot.x, spot.y - 12, 168, 24, 7);
    pen.fill();
    pen.stroke();
    if (scale < 0.3) return;
    pen.fillStyle = node.is_service ? colours.text : colours.soft;
    const label = node.id.length > 24 ? `${node.id.slice(0, 11)}…${node.id.slice(-12)}` : node.id;
    pen.fillText(label, spot.x + 9, spot.y + 0.5, 150);
  });
  const bitmap = canvas.transferToImageBitmap();
  postMessage({ painted: { bitmap, x, y, scale, width, height, turn } }, [bitmap]);
}
