// Two views: the overview with problems, all Services and the slowest methods; and the list of all problems.

import { h, panel, serviceLink, setText, showMissing } from './dom.js';
import { curve, isCurve } from './chart.js';
import { Table } from './table.js';
import { SLOW_MS, isDenied, latencyClass, ms, percent, rate, successOf, tlsClass } from './format.js';

/** Maximum number of problems in the overview. */
const SHOWN = 5;
/** The kinds of problems whose details the view of the proxies shows. */
const OF_PROXIES = new Set(['certificate', 'silent proxy', 'control plane']);

export const figures = [
  { head: 'Calls/s', number: true, value: (row) => row.calls_per_second, text: (row) => rate(row.calls_per_second) },
  { head: 'Success', number: true, value: (row) => row.success_rate, text: (row) => percent(row.success_rate), class: successOf },
  { head: 'p50', number: true, optional: true, value: (row) => row.p50_ms, text: (row) => ms(row.p50_ms) },
  { head: 'p99', number: true, value: (row) => row.p99_ms, text: (row) => ms(row.p99_ms), class: (row) => latencyClass(row.p99_ms), title: latencyAbout },
];
export const denied = { head: 'Denied/s', number: true, optional: true, value: (row) => row.denied_per_second, text: (row) => rate(row.denied_per_second), class: (row) => (isDenied(row) ? 'bad' : 'soft'),
  about: 'Calls that policies denied. For a Service without a proxy: answers 401, 403, UNAUTHENTICATED and PERMISSION_DENIED' };
export const encrypted = { head: 'Mutual TLS', number: true, optional: true, value: (row) => row.tls_share, text: (row) => percent(row.tls_share), class: (row) => tlsClass(row.tls_share) };

/** What the buckets of a method's latencies say exactly. */
function latencyAbout(row) {
  if (!row.p99_between_ms) return '';
  const [low, high] = row.p99_between_ms;
  return `${high === null ? `above ${ms(low)}` : `between ${ms(low)} and ${ms(high)}`}; ${percent(row.slow_rate)} of the calls take longer than ${SLOW_MS} ms`;
}

/** The worst first: lowest success, then denied calls, then the slowest. Rows without calls come last. */
function worst(a, b) {
  const fault = (row) => (row.success_rate === null ? 2 : row.success_rate < 0.99 ? row.success_rate : isDenied(row) ? 0.99 : 1);
  return fault(a) - fault(b) || (b.p99_ms ?? -1) - (a.p99_ms ?? -1) || (a.id < b.id ? -1 : 1);
}

function item(problem) {
  const isOfProxies = OF_PROXIES.has(problem.kind);
  // Link to a single proxy only if the problem is that this proxy is silent. A problem of an authority or of the
  // control plane concerns more proxies than the one that it names.
  const only = problem.kind === 'silent proxy' ? `/${encodeURIComponent(problem.service)}` : '';
  const href = isOfProxies ? `#/proxies${only}` : problem.service ? serviceLink(problem.service) : null;
  const about = isOfProxies ? 'the proxies' : problem.service;
  return h('li', {}, h('span', { class: `tag ${problem.severity}` }, problem.kind), h('span', { class: 'what' }, problem.what),
    href ? h('a', { class: 'more', href, 'aria-label': `Open ${about}` }, 'Open') : h('span'),
    h('span', { class: 'fix' }, problem.fix));
}

/** A list of problems. Its elements are replaced only if the problems change. */
function list() {
  const element = h('ul', { class: 'problems' });
  let shown = '';
  return { element, update(found) {
    const text = JSON.stringify(found);
    if (text === shown) return;
    shown = text;
    const place = [...element.querySelectorAll('a')].indexOf(document.activeElement);
    element.replaceChildren(...found.map(item));
    if (place >= 0) element.querySelectorAll('a')[place]?.focus();
  } };
}

export function overview(main) {
  const found = list();
  const title = h('p', { class: 'sub' });
  const all = h('a', { class: 'right', href: '#/problems' }, 'All problems');
  const section = h('section', { class: 'panel', 'aria-label': 'Problems' }, h('div', { class: 'head' }, h('h2', {}, 'Problems'), title, all), found.element);
  const search = h('input', { type: 'search', placeholder: 'Search Services  /', 'aria-label': 'Search Services', oninput: () => show() });
  let snapshot = null;
  const spark = { head: '10 min', optional: true, kind: 'spark', draw(row, cell) {
    const rates = snapshot.rates[row.id];
    const isShown = rates && isCurve(rates);
    const text = isShown ? rates.join() : '';
    if (cell.dataset.drawn === text) return;
    cell.dataset.drawn = text;
    cell.replaceChildren(isShown ? curve(rates, { width: 96, height: 22, label: `Calls of ${row.id} in the last 10 minutes` }) : '');
  } };
  const table = new Table({ label: 'Services', key: (row) => row.id, worst, open: (row) => { location.hash = serviceLink(row.id); }, empty: 'No Service has had a call since the proxies started.',
    columns: [{ head: 'Service', kind: 'name', value: (row) => row.id, title: (row) => `${row.id}, counted by ${row.counted_by === 'workload' ? 'its own proxies' : 'the proxies of its callers'}` }, spark, ...figures, denied, encrypted] });
  const methods = new Table({ label: 'Slowest methods', key: (row) => [row.namespace, row.name, row.direction, row.at, row.method].join(' '), empty: 'No method has had an answer yet.',
    open: (row) => { location.hash = serviceLink(target(row)); },
    columns: [{ head: 'Method', kind: 'name', value: (row) => row.method, title: methodAbout }, { head: 'Service', optional: true, value: target }, ...figures] });
  const omitted = h('p', { class: 'empty', hidden: true });
  const services = panel('Services', 'the worst first; means over about 10 s', table.element, omitted);
  services.querySelector('.head').append(h('span', { class: 'right' }, search));
  main.append(h('h1', {}, 'Services'), h('p', { class: 'sub' }, 'Every call that the proxies count.'), section, services, panel('Slowest methods', 'by p99', methods.element));

  function show() {
    if (!snapshot) return;
    const wanted = search.value.toLowerCase();
    const none = snapshot.proxies === 0 ? 'No proxy was found. Start leno dashboard with -n NAMESPACE, or with -A for all namespaces.' : 'No Service has had a call since the proxies started.';
    table.emptyText = wanted ? 'No Service matches the search.' : none;
    table.update(snapshot.services.filter((row) => row.id.toLowerCase().includes(wanted)));
    showMissing(omitted, snapshot.omitted ? `${snapshot.omitted} Services and callers with fewer calls are left out` : '');
    methods.update(snapshot.slowest);
    const { problems: all } = snapshot;
    setText(title, all.length === 0 ? 'none found' : all.length > SHOWN ? `the ${SHOWN} worst of ${all.length}` : `${all.length} found`);
    found.update(all.slice(0, SHOWN));
  }
  return { update(next) { snapshot = next; show(); } };
}

/** The whole name of a method, or what the name `other` means. */
export function methodAbout(row) {
  return row.method === 'other' ? 'Methods without a series of their own: beyond the limit, or none of their calls has reached a method of the Service' : row.method;
}

/** The Service to whose page a row of a method leads. */
export function target(row) {
  const own = row.namespace ? `${row.namespace}/${row.name}` : row.name;
  if (row.direction === 'inbound') return own;
  const [name, namespace] = row.at.split(':')[0].split(/\.(.*)/);
  return namespace ? `${namespace}/${name}` : name;
}

export function problems(main) {
  const found = list();
  const none = h('p', { class: 'empty' }, 'No problem was found.');
  main.append(h('h1', {}, 'Problems'), h('p', { class: 'sub' }, 'Failing, slow and denied calls, missed objectives, certificates, configuration, and proxies that do not answer. The worst first.'),
    h('section', { class: 'panel', 'aria-label': 'Problems' }, found.element, none));
  return { update(snapshot) { found.update(snapshot.problems); none.hidden = snapshot.problems.length > 0; } };
}
