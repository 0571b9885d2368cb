// The view of all proxies: whether they answer, their certificates, and their connection to the control plane.

import { ask, readings } from './app.js';
import { h, panel, serviceLink } from './dom.js';
import { LEVELS } from './format.js';
import { Table } from './table.js';

/** A column for the end of a validity. */
const ending = (head, field) => ({ head, value: (row) => row[field]?.end_s ?? null, text: (row) => row[field]?.text ?? '–', title: (row) => row[field]?.end ?? '',
  class: (row) => (row[field] ? LEVELS[row[field].level] : 'soft') });

const connection = (row) => (row.is_connected === null ? '–' : row.is_connected ? 'connected' : 'not connected');

/** `only` is the first text of the search. */
export function proxies(main, only = '') {
  const search = h('input', { type: 'search', placeholder: 'Search proxies  /', value: only, 'aria-label': 'Search proxies', oninput: () => show() });
  const note = h('p', { class: 'sub' }, 'Reading the proxies.');
  const table = new Table({ label: 'Proxies', key: (row) => [row.workload, row.proxy].join(' '), open: (row) => { location.hash = serviceLink(row.workload); }, empty: 'No proxy was found.',
    columns: [{ head: 'Proxy', kind: 'name', value: (row) => row.proxy, title: (row) => row.proxy }, { head: 'Workload', kind: 'name', optional: true, value: (row) => row.workload },
      { head: 'State', value: (row) => row.state, draw(row, cell) {
        if (cell.textContent !== row.state) cell.replaceChildren(h('span', { class: `tag ${row.state === 'silent' ? 'error' : row.state === 'answers' ? 'ready' : ''}` }, row.state));
      } },
      ending('Certificate', 'certificate'), { ...ending('Last trust anchor', 'anchor'), optional: true },
      { head: 'Control plane', optional: true, value: connection, class: (row) => (row.is_connected === false ? 'warn' : 'soft') },
      { head: 'Version', optional: true, kind: 'soft', value: (row) => row.version || '–' },
      { head: 'Problem', kind: 'wrap', value: (row) => row.why.join('; '), class: (row) => LEVELS[row.level] }] });
  main.append(h('h1', {}, 'Proxies'), note, panel('Proxies', 'the worst first; a proxy renews its certificate by itself', table.element));
  main.querySelector('.panel .head').append(h('span', { class: 'right' }, search));
  let all = null;

  function show() {
    if (!all) return;
    const wanted = search.value.toLowerCase();
    table.emptyText = wanted ? 'No proxy matches the search.' : 'No proxy was found.';
    table.update(all.proxies.filter((row) => `${row.proxy} ${row.workload} ${row.version}`.toLowerCase().includes(wanted)));
  }

  const reading = readings(note, async (signal) => {
    all = await ask('/api/proxies', signal);
    const count = (known) => all.proxies.filter(known).length;
    const unread = count((row) => row.state === 'new');
    note.textContent = [`${all.proxies.length} ${all.proxies.length === 1 ? 'proxy' : 'proxies'}`, `${count((row) => row.level !== 'good') || 'none'} with a problem`,
      unread ? `${unread} not read yet` : '', all.omitted ? `${all.omitted} more left out` : ''].filter(Boolean).join(', ');
    show();
  });
  reading.update();
  return reading;
}
