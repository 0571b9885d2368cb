// The graph of callers and Services. A worker thread lays out the graph and paints it into an image that is larger than
// the view. Panning and zooming only copy this image, until the worker sends a sharper image.

import { ask } from './app.js';
import { h, panel, serviceLink, setText } from './dom.js';
import { isDenied, ms, percent, rate } from './format.js';

const NODE = { width: 168, height: 24 };
/** The image has this margin on each side, as a share of the view. */
const MARGIN = 0.25;
const READ_EVERY_MS = 4000;
const SCALES = [0.05, 3];

export function graph(main) {
  const canvas = h('canvas', { id: 'canvas', tabindex: 0, role: 'img', 'aria-label': 'Graph of callers and Services. The table of each Service lists its callers.' });
  const note = h('p', { class: 'sub', role: 'status' }, 'Reading the proxies.');
  const search = h('input', { type: 'search', placeholder: 'Find a Service  /', 'aria-label': 'Find a Service', oninput: () => find(search.value) });
  const box = panel('Who calls whom', 'left to right; a thick line has many calls, a red line fails, a yellow line fails sometimes or is denied', canvas);
  box.querySelector('.head').append(h('span', { class: 'right' }, h('button', { type: 'button', onclick: () => { fit(); repaint(); } }, 'Fit'), ' ', search));
  main.append(h('h1', {}, 'Graph'), note, box);
  const pen = canvas.getContext('2d');
  const worker = new Worker('/graph-worker.js', { type: 'module' });
  const leaving = new AbortController();
  const view = { x: 0, y: 0, scale: 1 };
  let data = null;
  let places = [];
  let image = null;
  let hovered = -1;
  let turn = 0;
  let isPainting = false;
  let mustPaint = false;
  let frame = 0;
  let timer = 0;
  let hasFitted = false;

  const ratio = () => Math.min(devicePixelRatio, 2);
  const colours = () => {
    const style = getComputedStyle(document.documentElement);
    const of = (name) => style.getPropertyValue(`--${name}`).trim();
    return { line: of('line'), text: of('text'), soft: of('soft'), panel: of('panel'), good: of('good'), warn: of('warn'), bad: of('bad'), edge: of('accent') };
  };

  function fit() {
    if (places.length === 0) return;
    const [xs, ys] = [places.map((place) => place.x), places.map((place) => place.y)];
    const [left, top, right, bottom] = [Math.min(...xs), Math.min(...ys) - 20, Math.max(...xs) + NODE.width, Math.max(...ys) + 20];
    view.scale = Math.min(1.4, Math.max(SCALES[0], Math.min(canvas.clientWidth / (right - left + 60), canvas.clientHeight / (bottom - top + 30))));
    view.x = (left + right) / 2 - canvas.clientWidth / view.scale / 2;
    view.y = (top + bottom) / 2 - canvas.clientHeight / view.scale / 2;
  }

  function repaint() {
    draw();
    if (isPainting) { mustPaint = true; return; }
    isPainting = true;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    worker.postMessage({ paint: { x: view.x - (MARGIN * width) / view.scale, y: view.y - (MARGIN * height) / view.scale, scale: view.scale, width: width * (1 + 2 * MARGIN), height: height * (1 + 2 * MARGIN), ratio: ratio(), colours: colours(), turn: ++turn } });
  }

  worker.onmessage = ({ data: message }) => {
    if (message.places) {
      places = message.places;
      if (message.isNew && !hasFitted) { fit(); hasFitted = true; }
      repaint();
    }
    if (message.painted) {
      image?.bitmap.close();
      image = message.painted;
      isPainting = false;
      draw();
      if (mustPaint) { mustPaint = false; repaint(); }
    }
  };

  /** Draws once in the next frame, however often it is called before. */
  function draw() {
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      const [width, height] = [Math.round(canvas.clientWidth * ratio()), Math.round(canvas.clientHeight * ratio())];
      if (canvas.width !== width || canvas.height !== height) { canvas.width = width; canvas.height = height; }
      pen.setTransform(1, 0, 0, 1, 0, 0);
      pen.clearRect(0, 0, width, height);
      pen.setTransform(ratio(), 0, 0, ratio(), 0, 0);
      if (image) pen.drawImage(image.bitmap, (image.x - view.x) * view.scale, (image.y - view.y) * view.scale, (image.width / image.scale) * view.scale, (image.height / image.scale) * view.scale);
      if (hovered >= 0) highlight();
    });
  }

  /** Highlights the node under the pointer, and its edges. */
  function highlight() {
    const own = data.nodes[hovered]?.id;
    const at = new Map(data.nodes.map((node, index) => [node.id, places[index]]));
    const { edge, bad, warn, text } = colours();
    const spot = (place, dx) => [(place.x + dx - view.x) * view.scale, (place.y - view.y) * view.scale];
    pen.lineWidth = 2;
    for (const line of data.edges.filter((line) => line.from === own || line.to === own)) {
      pen.strokeStyle = line.success_rate !== null && line.success_rate < 0.95 ? bad : isDenied(line) ? warn : edge;
      pen.beginPath();
      pen.moveTo(...spot(at.get(line.from), NODE.width));
      pen.lineTo(...spot(at.get(line.to), 0));
      pen.stroke();
    }
    const [x, y] = spot(places[hovered], 0);
    pen.strokeStyle = text;
    pen.strokeRect(x - 2, y - (NODE.height / 2 + 2) * view.scale, NODE.width * view.scale + 4, (NODE.height + 4) * view.scale);
  }

  function nodeAt(event) {
    const [x, y] = [event.offsetX / view.scale + view.x, event.offsetY / view.scale + view.y];
    return places.findIndex((place) => x >= place.x && x <= place.x + NODE.width && Math.abs(y - place.y) <= NODE.height / 2);
  }

  function hover(node) {
    if (node === hovered) return;
    hovered = node;
    canvas.style.cursor = node < 0 ? 'grab' : 'pointer';
    const row = data?.nodes[node]?.row;
    setText(note, row ? `${row.id}: ${rate(row.calls_per_second)} calls/s, success ${percent(row.success_rate)}, denied ${rate(row.denied_per_second)}/s, p99 ${ms(row.p99_ms)}` : summary());
    draw();
  }

  const summary = () => (data ? `${data.nodes.length} callers and Services, ${data.edges.length} pairs with calls now. Drag to move, use the wheel to zoom, click to open.` : '');

  function find(text) {
    const node = data?.nodes.findIndex((known) => known.id.toLowerCase().includes(text.toLowerCase())) ?? -1;
    if (!text || node < 0) return hover(-1);
    view.scale = Math.max(view.scale, 0.8);
    view.x = places[node].x + NODE.width / 2 - canvas.clientWidth / view.scale / 2;
    view.y = places[node].y - canvas.clientHeight / view.scale / 2;
    hover(node);
    repaint();
  }

  /** Repaints when the view has stopped moving, or at once if the view leaves the image. */
  function moved() {
    draw();
    clearTimeout(timer);
    const isOutside = image && (view.x < image.x || view.y < image.y || view.x + canvas.clientWidth / view.scale > image.x + image.width / image.scale || view.y + canvas.clientHeight / view.scale > image.y + image.height / image.scale);
    if (isOutside) repaint();
    else timer = setTimeout(repaint, 120);
  }

  function zoom(factor, x = canvas.clientWidth / 2, y = canvas.clientHeight / 2) {
    const scale = Math.min(SCALES[1], Math.max(SCALES[0], view.scale * factor));
    view.x += x / view.scale - x / scale;
    view.y += y / view.scale - y / scale;
    view.scale = scale;
    moved();
  }

  const fingers = new Map();
  let travelled = 0;
  canvas.addEventListener('pointerdown', (event) => { fingers.set(event.pointerId, event); travelled = 0; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener('pointermove', (event) => {
    const before = fingers.get(event.pointerId);
    if (!before) return hover(nodeAt(event));
    const others = [...fingers.values()].filter((other) => other.pointerId !== event.pointerId);
    const [dx, dy] = [event.clientX - before.clientX, event.clientY - before.clientY];
    travelled += Math.abs(dx) + Math.abs(dy);
    if (others.length) {
      const far = (finger) => Math.hypot(finger.clientX - others[0].clientX, finger.clientY - others[0].clientY);
      zoom(far(event) / Math.max(far(before), 1), event.offsetX, event.offsetY);
    } else {
      view.x -= dx / view.scale;
      view.y -= dy / view.scale;
      moved();
    }
    fingers.set(event.pointerId, event);
  });
  for (const name of ['pointerup', 'pointercancel']) canvas.addEventListener(name, (event) => fingers.delete(event.pointerId));
  canvas.addEventListener('click', (event) => { const node = nodeAt(event); if (node >= 0 && travelled < 6) location.hash = serviceLink(data.nodes[node].id); });
  canvas.addEventListener('wheel', (event) => { event.preventDefault(); zoom(Math.exp(-event.deltaY / 400), event.offsetX, event.offsetY); }, { passive: false });
  canvas.addEventListener('keydown', (event) => {
    const step = 60 / view.scale;
    const steps = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] };
    if (steps[event.key]) { event.preventDefault(); view.x += steps[event.key][0]; view.y += steps[event.key][1]; moved(); }
    if (event.key === '+') zoom(1.25);
    if (event.key === '-') zoom(0.8);
    if (event.key === 'Enter' && hovered >= 0) location.hash = serviceLink(data.nodes[hovered].id);
  });
  const resized = new ResizeObserver(() => { if (places.length) moved(); });
  resized.observe(canvas);
  const scheme = matchMedia('(prefers-color-scheme: dark)');
  scheme.addEventListener('change', repaint, { signal: leaving.signal });

  async function read() {
    try {
      data = await ask('/api/graph', leaving.signal);
      if (hovered < 0) setText(note, summary());
      worker.postMessage({ graph: data });
    } catch (error) {
      if (error.name !== 'AbortError') setText(note, error.message);
    }
  }
  read();
  const reading = setInterval(() => { if (!document.hidden && fingers.size === 0) read(); }, READ_EVERY_MS);
  return { leave() { leaving.abort(); clearInterval(reading); clearTimeout(timer); resized.disconnect(); worker.terminate(); image?.bitmap.close(); canvas.width = 0; } };
}
