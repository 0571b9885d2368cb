// The view of the live tap: shows each call when the call ends. The tap stops when the user leaves the view.

import { h, panel, setText } from './dom.js';
import { latencyClass, ms } from './format.js';

/** Maximum number of lines on the page; older lines are removed. */
const LINES_MAX = 300;
const GRPC = ['OK', 'CANCELLED', 'UNKNOWN', 'INVALID_ARGUMENT', 'DEADLINE_EXCEEDED', 'NOT_FOUND', 'ALREADY_EXISTS', 'PERMISSION_DENIED', 'RESOURCE_EXHAUSTED', 'FAILED_PRECONDITION', 'ABORTED', 'OUT_OF_RANGE', 'UNIMPLEMENTED', 'INTERNAL', 'UNAVAILABLE', 'DATA_LOSS', 'UNAUTHENTICATED'];

/** The columns of the table: heading and class. */
const HEADS = [['Time'], ['Method'], ['Status'], ['Took', 'num'], ['Proxy', 'optional'], ['Peer', 'optional'], ['More', 'optional']];

/** The row of a call, or of a notice about calls that are missing at this place. */
function line(call) {
  if (call.notice !== undefined) return h('tr', {}, h('td', { class: 'bad', colspan: HEADS.length }, call.notice));
  const status = call.grpc_status !== undefined ? GRPC[call.grpc_status] ?? `grpc-status ${call.grpc_status}` : call.status ?? 'no answer';
  const isFault = call.grpc_status !== undefined ? call.grpc_status !== 0 : call.status === undefined || call.status >= 400;
  const method = call.grpc_status !== undefined && call.path ? call.path.replace(/^\//, '') : `${call.method ?? call.protocol ?? ''} ${call.path ?? ''}`;
  const id = (text) => text?.split('/ns/')[1]?.replace('/sa/', '/');
  const peer = call.direction === 'inbound' ? `from ${id(call.client_id) ?? call.client}` : `to ${id(call.server_id) ?? call.server ?? 'nowhere'}`;
  return h('tr', {}, h('td', { class: 'mono soft' }, (call.time ?? '').slice(11, 23)), h('td', { class: 'name', title: method }, method),
    h('td', { class: isFault ? 'bad' : 'good' }, String(status)), h('td', { class: `num ${latencyClass(call.duration_ms)}` }, ms(call.duration_ms)),
    h('td', { class: 'optional', title: call.workload }, `${call.pod ?? call.workload} ${call.direction === 'inbound' ? 'in' : 'out'}`), h('td', { class: 'optional' }, peer),
    h('td', { class: 'optional soft' }, [call.retries ? `${call.retries} retries` : '', call.route ?? '', call.proxy_error ? `proxy error ${call.proxy_error}` : ''].filter(Boolean).join(', ')));
}

export function tap(main) {
  const field = (label, name, placeholder) => h('label', {}, label, h('input', { name, placeholder, size: 16, autocomplete: 'off' }));
  const start = h('button', { class: 'primary', type: 'submit' }, 'Start');
  const form = h('form', { class: 'filters', onsubmit: (event) => { event.preventDefault(); source ? stop('Stopped.') : begin(); } },
    field('Service', 'service', 'shop/cart'), field('Method', 'method', 'shop.v1.Cart/Add'), field('Status', 'status', 'UNAVAILABLE,503'), field('Slower than', 'slower_than', '200ms or p99'), field('Peer', 'peer', 'shop/web'),
    h('label', {}, 'Direction', h('select', { name: 'direction' }, h('option', { value: '' }, 'both'), h('option', { value: 'inbound' }, 'inbound'), h('option', { value: 'outbound' }, 'outbound'))),
    h('label', { class: 'check' }, h('input', { type: 'checkbox', name: 'failed', value: '1' }), 'only failed'), start);
  const note = h('p', { class: 'sub', role: 'status' }, 'Not started. A call appears when it ends.');
  const body = h('tbody');
  const head = h('tr', {}, ...HEADS.map(([text, kind]) => h('th', { scope: 'col', class: kind }, h('span', {}, text))));
  main.append(h('h1', {}, 'Tap'), note, panel('Calls', '', form, h('div', { class: 'scroll' }, h('table', { 'aria-label': 'Calls' }, h('thead', {}, head), body))));
  let source = null;
  let waiting = [];
  let isFrameRequested = false;
  let dropped = 0;
  let watched = '';

  function begin() {
    const query = new URLSearchParams([...new FormData(form)].filter(([, value]) => value !== ''));
    source = new EventSource(`/api/tap?${query}`);
    setText(start, 'Stop');
    setText(note, 'Starting.');
    body.replaceChildren();
    dropped = 0;
    source.onmessage = (event) => take(JSON.parse(event.data));
    source.onerror = () => stop('The tap ended. Check the fields: a status is written as UNAVAILABLE or 503, a time as 200ms. At most 2 taps run.');
  }

  function take(event) {
    if (event.over !== undefined) { stop(`${missing()}The tap ended: ${event.over}.`); return; }
    if (event.watching !== undefined) { watched = `Watching ${event.watching} of ${event.of} proxies`; setText(note, `${watched}.`); return; }
    if (event.dropped !== undefined) dropped += event.dropped;
    else waiting.push(event);
    // Keep at most as many calls as the page shows: while the browser's tab is hidden, no frame draws and removes them.
    if (waiting.length > LINES_MAX) waiting.shift();
    // Request only one frame at a time: it draws everything that has arrived until then.
    if (!isFrameRequested) requestAnimationFrame(draw);
    isFrameRequested = true;
  }

  function draw() {
    isFrameRequested = false;
    body.prepend(...waiting.map(line).reverse());
    waiting = [];
    while (body.children.length > LINES_MAX) body.lastElementChild.remove();
    if (source && dropped) setText(note, `${watched}; ${missing()}Narrow the selection.`);
  }

  function missing() {
    return dropped ? `${dropped} further calls were not shown. ` : '';
  }

  function stop(why) {
    source?.close();
    source = null;
    setText(start, 'Start');
    setText(note, why);
  }
  return { leave: () => source?.close() };
}
