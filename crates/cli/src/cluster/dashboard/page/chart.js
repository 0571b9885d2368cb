// Draws charts of a series. A `null` in the series is a gap in the line.

import { s } from './dom.js';

/** Whether a series has enough points for a curve. */
export const isCurve = (values) => values.filter((value) => value !== null).length > 1;

/** The points of a curve as segments without gaps. */
function segments(values, width, height, top) {
  const step = width / Math.max(values.length - 1, 1);
  const all = [];
  let open = null;
  values.forEach((value, index) => {
    if (value === null) { open = null; return; }
    if (!open) { open = []; all.push(open); }
    open.push([index * step, height - 2 - (Math.min(value, top) / top) * (height - 5)]);
  });
  return all;
}

/** Draws the series into an SVG of this size. */
export function curve(values, { width, height, top, label, lines = 0 }) {
  const highest = top ?? Math.max(...values.filter((value) => value !== null), 1e-9) * 1.1;
  const svg = s('svg', { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': label });
  for (let line = 1; line <= lines; line += 1) {
    const y = (height / (lines + 1)) * line;
    svg.append(s('line', { class: 'grid', x1: 0, x2: width, y1: y, y2: y }));
  }
  for (const points of segments(values, width, height, highest)) {
    // Draw a single point as a short line.
    if (points.length === 1) points.push([Math.min(points[0][0] + 3, width), points[0][1]]);
    const line = points.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join('L');
    const [first, last] = [points[0][0].toFixed(1), points[points.length - 1][0].toFixed(1)];
    svg.append(s('path', { class: 'area', d: `M${first} ${height}L${line}L${last} ${height}Z` }));
    svg.append(s('path', { class: 'curve', d: `M${line}` }));
  }
  return svg;
}
