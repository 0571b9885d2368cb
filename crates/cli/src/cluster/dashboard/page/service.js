// The view of one Service: charts of the last hour, methods, endpoints, routes, policies, callers and denials.

import { ask, readings } from './app.js';
import { h, panel, serviceLink, setText, showMissing } from './dom.js';
import { curve, isCurve } from './chart.js';
import { Table } from './table.js';
import { denied, encrypted, figures, methodAbout } from './overview.js';
import { LEVELS, isDenied, missing, ms, percent, rate, seconds, successOf } from './format.js';

/** Time between two readings of the policies, in milliseconds: they seldom change. */
const POLICIES_EVERY = 10_000;
const last = (values) => values.findLast((value) => value !== null) ?? null;

/** Shows a part of the page, and moves the focus there. */
function jump(element) {
  element.tabIndex = -1;
  element.scrollIntoView({ block: 'start' });
  element.focus({ preventScroll: true });
}

function chart(title, series, now, options) {
  if (!isCurve(series)) return h('figure', { class: 'chart' }, h('figcaption', {}, h('span', {}, title)), h('p', { class: 'soft' }, 'A curve begins after 20 s with calls.'));
  return h('figure', { class: 'chart' }, h('figcaption', {}, h('span', {}, title), h('span', {}, now)),
    curve(series, { width: 360, height: 96, lines: 2, label: `${title} in the last hour`, ...options }),
    h('figcaption', {}, h('span', {}, options.from), h('span', {}, 'now')));
}

export function service(main, id) {
  const go = (other) => { location.hash = serviceLink(other); };
  const tiles = h('div', { class: 'tiles' });
  const charts = h('div', { class: 'charts' });
  const methods = new Table({ label: 'Methods', key: (row) => [row.namespace, row.name, row.direction, row.at, row.method].join(' '), empty: 'No method has been called since the proxies started.',
    columns: [{ head: 'Method', kind: 'name', value: (row) => row.method, title: methodAbout },
      { head: 'Counted by', optional: true, value: (row) => (row.direction === 'inbound' ? 'own proxies' : row.namespace ? `${row.namespace}/${row.name}` : row.name) }, ...figures,
      { head: 'Expired', number: true, optional: true, value: (row) => row.expired_rate, text: (row) => percent(row.expired_rate) },
      { head: 'Objective', optional: true, value: (row) => row.shown_objective?.text },
      { head: 'Burn', number: true, value: (row) => row.shown_objective?.burn_rate, text: (row) => row.shown_objective?.burn ?? '–', class: (row) => LEVELS[row.shown_objective?.level] ?? 'soft', title: (row) => row.shown_objective?.parts ?? 'no objective' }] });
  const endpoints = new Table({ label: 'Endpoints', key: (row) => [row.seen_by, row.proxy, row.worker, row.cluster, row.address].join(' '), empty: 'No proxy has called a Service of this name. A workload may have another name than its Service.',
    columns: [{ head: 'Endpoint', kind: 'mono', value: (row) => row.address }, { head: 'Pod', kind: 'mono', optional: true, value: (row) => row.pod ?? '–' },
      { head: 'State', value: (row) => row.state, draw(row, cell) { if (cell.textContent !== row.state) cell.replaceChildren(h('span', { class: `tag ${row.state}` }, row.state)); } },
      { head: 'Share', number: true, value: (row) => row.share, text: (row) => percent(row.share) },
      { head: 'In flight', number: true, optional: true, value: (row) => row.in_flight },
      { head: 'Latency', number: true, optional: true, value: (row) => row.latency_estimate_ms, text: (row) => ms(row.latency_estimate_ms) },
      { head: 'Why', kind: 'wrap soft', value: (row) => [row.reason, row.is_silent && 'it has not answered a PING', row.last_connect_error].filter(Boolean).join('; ') },
      { head: 'Seen by', optional: true, value: (row) => `${row.seen_by}, worker ${row.worker}` }] });
  const callers = new Table({ label: 'Callers', key: (row) => row.from, open: (row) => go(row.from), empty: 'No caller now.',
    columns: [{ head: 'Caller', kind: 'name', value: (row) => row.from }, ...figures, denied, encrypted] });
  const calls = new Table({ label: 'Called Services', key: (row) => row.to, open: (row) => go(row.to), empty: 'It calls no Service now.',
    columns: [{ head: 'Calls', kind: 'name', value: (row) => row.to }, ...figures, denied, encrypted] });
  const routes = new Table({ label: 'Routes', key: (row) => [row.namespace, row.name, row.service, row.route].join(' '), empty: 'No call has matched a route.',
    columns: [{ head: 'Route', kind: 'name', value: (row) => (row.route === '-' ? 'no route, a policy' : row.route) }, { head: 'Called by', optional: true, value: (row) => (row.namespace ? `${row.namespace}/${row.name}` : row.name) }, figures[0],
      figures[1], { head: 'Retries/s', number: true, value: (row) => row.retries_per_second, text: (row) => rate(row.retries_per_second) },
      { head: 'Hedges/s', number: true, optional: true, value: (row) => row.hedges_per_second, text: (row) => rate(row.hedges_per_second) },
      { head: 'Backends', kind: 'wrap', value: (row) => Object.entries(row.backends).map(([name, calls]) => `${name} ${percent(row.calls_per_second ? calls / row.calls_per_second : null)}`).join(', ') }] });
  const denials = new Table({ label: 'Denied calls', key: (row) => [row.workload, row.port, row.caller, row.policy].join(' '), empty: 'Policies have denied no call.',
    columns: [{ head: 'Caller', kind: 'name', value: (row) => row.caller }, { head: 'At', value: (row) => `${row.workload}:${row.port}` }, { head: 'Policy', kind: 'wrap', value: (row) => row.policy },
      { head: 'Denied', number: true, value: (row) => row.total, class: (row) => (row.is_recent ? 'bad' : '') },
      { head: 'Last', number: true, value: (row) => row.last_s, text: (row) => (row.last_s === null ? 'before the start' : `${seconds(row.last_s * 1000)} ago`) }] });
  const mode = { head: 'Mode', value: (row) => row.mode, class: (row) => (row.mode === 'Enforce' ? '' : 'warn') };
  const allowed = new Table({ label: 'Allowed callers', key: (row) => [row.policy, row.selects, row.allows, row.mode].join(' '),
    columns: [{ head: 'Policy', kind: 'name', value: (row) => row.policy }, { head: 'For', kind: 'wrap', value: (row) => row.selects }, { head: 'Allows', kind: 'wrap', value: (row) => row.allows }, mode] });
  const parts = new Table({ label: 'Traffic policies', key: (row) => [row.at, row.calls, row.route, row.part, row.value, row.mode, row.set_by].join(' '),
    columns: [{ head: 'Calls', kind: 'wrap', value: (row) => `${row.calls} at ${row.at}` }, { head: 'Part', kind: 'name', value: (row) => row.part }, { head: 'Value', kind: 'wrap', value: (row) => row.value }, mode,
      { head: 'Set by', kind: 'wrap', value: (row) => row.set_by }, { head: 'Route', kind: 'wrap', optional: true, value: (row) => row.route }, { head: 'Callers in', optional: true, value: (row) => row.namespaces.join(', ') || '–' }] });
  const note = h('p', { class: 'sub' }, 'Reading the proxies.');
  const nothing = () => h('p', { class: 'empty', hidden: true });
  const [methodsMissing, endpointsMissing, partsMissing, routesMissing] = [nothing(), nothing(), nothing(), nothing()];
  const parties = h('div', { class: 'columns' }, panel('Callers', '', callers.element), panel('Calls to other Services', '', calls.element));
  const panels = [['Methods', panel('Methods', '', methods.element, methodsMissing)], ['Endpoints', panel('Endpoints', 'as the balancer of each calling proxy sees them', endpoints.element, endpointsMissing)], ['Callers', parties],
    ['Denied calls', panel('Denied calls', 'of callers that were connected in the last 10 minutes', denials.element)],
    ['Allowed callers', panel('Allowed callers', 'by the AuthorizationPolicies that its own proxies know', allowed.element)],
    ['Timeouts and retries', panel('Timeouts, retries and hedges', 'as the proxies of its callers have them; a call follows the first rule that it matches', parts.element, partsMissing)],
    ['Routes', panel('Routes', '', routes.element, routesMissing)]];
  const jumps = new Map(panels.map(([title, element]) => [title, h('button', { type: 'button', onclick: () => jump(element) }, title)]));
  main.append(h('a', { class: 'crumb', href: '#/' }, '← Services'), h('h1', {}, id ?? ''), note, tiles, h('nav', { class: 'jumps', 'aria-label': 'Parts of this page' }, ...jumps.values()), charts, ...panels.map(([, element]) => element));
  let policiesAt = -Infinity;

  async function readPolicies() {
    if (performance.now() - policiesAt < POLICIES_EVERY) return;
    policiesAt = performance.now();
    const why = ({ asked, answered }, none, silent, unknown) => (answered ? none : asked ? silent : unknown);
    let found = { authorization: [], traffic: [], own: { asked: 1, answered: 0 }, callers: { asked: 1, answered: 0 } };
    try {
      found = await ask(`/api/policies?id=${encodeURIComponent(id)}`, reading.signal);
    } catch (error) {
      if (error.name === 'AbortError') return;
    }
    allowed.emptyText = why(found.own, 'No AuthorizationPolicy: the default inbound policy decides.', 'Its own proxies did not answer.', 'It has no proxy of its own.');
    parts.emptyText = why(found.callers, 'No timeouts, retries or hedges.', 'The proxies of its callers did not answer.', 'No caller has a proxy.');
    allowed.update(found.authorization);
    parts.update(found.traffic);
    showMissing(partsMissing, found.namespaces_omitted ? `callers in ${found.namespaces_omitted} further namespaces are not read` : '');
  }

  const reading = readings(note, async (signal) => {
    const wanted = encodeURIComponent(id);
    const [detail, seen] = await Promise.all([ask(`/api/service?id=${wanted}`, signal), ask(`/api/endpoints?id=${wanted}`, signal)]);
    show(detail, seen);
  });

  function update() {
    readPolicies();
    reading.update();
  }

  function show(detail, seen) {
    const { row, history } = detail;
    const tile = (text, about, kind = '') => h('div', { class: 'tile' }, h('b', { class: kind }, text), h('span', {}, about));
    const silent = detail.proxies.filter((proxy) => proxy.silent).length;
    note.textContent = `${detail.proxies.length || 'No'} ${detail.proxies.length < 2 ? 'proxy' : 'proxies'} of its own${silent ? `, ${silent} silent` : ''}. Figures: means over about 10 s${row ? `, counted by ${row.counted_by === 'workload' ? 'its own proxies' : 'its callers'}` : ''}.`;
    if (row) tiles.replaceChildren(tile(rate(row.calls_per_second), 'calls/s'), tile(percent(row.success_rate), 'success', successOf(row)), tile(ms(row.p50_ms), 'p50'), tile(ms(row.p99_ms), 'p99'), tile(percent(row.tls_share), 'mutual TLS'),
      tile(rate(row.denied_per_second), 'denied/s', isDenied(row) ? 'bad' : ''));
    const minutes = (history.rate.length * history.step_s) / 60;
    const from = minutes >= 59 ? '1 h ago' : minutes < 1 ? `${minutes * 60} s ago` : `${Math.round(minutes)} min ago`;
    charts.replaceChildren(chart('Calls/s', history.rate, rate(last(history.rate)), { from }), chart('Success', history.success, percent(last(history.success)), { top: 1.02, from }), chart('p99', history.p99_ms, ms(last(history.p99_ms)), { from }));
    methods.update(detail.methods);
    showMissing(methodsMissing, detail.methods_omitted ? `${detail.methods_omitted} methods with fewer calls are left out` : '');
    callers.update(detail.callers);
    calls.update(detail.calls);
    routes.update(detail.routes);
    showMissing(routesMissing, detail.routes_omitted ? `${detail.routes_omitted} routes are left out` : '');
    denials.update(detail.denials);
    setText(jumps.get('Denied calls'), detail.denials.length ? `Denied calls (${detail.denials.length})` : 'Denied calls');
    jumps.get('Denied calls').className = detail.denials.some((row) => row.is_recent) ? 'bad' : '';
    endpoints.update(seen.endpoints);
    showMissing(endpointsMissing, seen.omitted ? `${seen.omitted} endpoints are left out` : '', ...missing(seen));
  }
  update();
  return { update, leave: reading.leave };
}
