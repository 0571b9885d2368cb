// All proxies: whether they answer, their certificates, and their connection to the control plane.

import { ask } from './app.js';
import { h, panel, serviceLink } from './dom.js';
import { Table } from './table.js';

const LEVELS = { error: 'bad', warning: 'warn', good: '' };

/** A column for the end of a validity. */
function ending(head, field, about) {
  return { head, value: (row) => row[field]?.end_s ?? null, text: (row) => row[field]?.text ?? '–', class: (row) => LEVELS[row[field]?.level] ?? 'soft',
    title: (row) => [row[field]?.end, about(row)].filter(Boolean).join('; ') };
}

const byAuthority = (row) => (row.ends_with_authority ? 'the authority that issued it ends then; renew the authority' : '');
const connection = (row) => (row.is_connected === null ? '–' : row.is_connected ? 'connected' : 'not connected');

export function proxies(main) {
  const search = h('input', { type: 'search', placeholder: 'Search proxies  /', 'aria-label': 'Search proxies', oninput: () => show() });
  const note = h('p', { class: 'sub' }, 'Reading the proxies.');
  const table = new Table({ label: 'Proxies', key: (row) => [row.workload, row.proxy].join(' '), open: (row) => { location.hash = serviceLink(row.workload); }, empty: 'No proxy was found.',
    columns: [{ head: 'Proxy', kind: 'name', value: (row) => row.proxy, title: (row) => row.proxy }, { head: 'Workload', kind: 'name', optional: true, value: (row) => row.workload },
      { head: 'State', value: (row) => row.state, draw(row, cell) {
        if (cell.textContent !== row.state) cell.replaceChildren(h('span', { class: `tag ${row.state === 'silent' ? 'error' : row.state === 'answers' ? 'ready' : ''}` }, row.state));
        cell.title = row.silent ?? '';
      } },
      ending('Certificate', 'certificate', byAuthority), { ...ending('Last trust anchor', 'anchor', () => ''), optional: true },
      { head: 'Control plane', optional: true, value: connection, class: (row) => (row.is_connected === false ? 'warn' : 'soft') },
      { head: 'Mistakes', number: true, optional: true, value: (row) => row.mistakes, class: (row) => (row.mistakes ? 'bad' : 'soft'), about: 'Mistakes in the configuration files that the proxy reads' },
      { head: 'Version', optional: true, kind: 'soft', value: (row) => row.version || '–' }] });
  main.append(h('h1', {}, 'Proxies'), note, panel('Proxies', 'the worst first; a proxy renews its certificate by itself', table.element));
  main.querySelector('.panel .head').append(h('span', { class: 'right' }, search));
  const leaving = new AbortController();
  let all = null;

  function show() {
    if (!all) return;
    const wanted = search.value.toLowerCase();
    table.emptyText = wanted ? 'No proxy matches the search.' : 'No proxy was found.';
    table.update(all.proxies.filter((row) => `${row.proxy} ${row.workload} ${row.version}`.toLowerCase().includes(wanted)));
  }

  async function read() {
    try {
      all = await ask('/api/proxies', leaving.signal);
      const worse = all.proxies.filter((row) => row.level !== 'good').length;
      const more = all.omitted ? `; ${all.omitted} more are left out` : '';
      note.textContent = `${all.proxies.length} proxies, ${worse || 'none'} with a problem${more}.`;
      show();
    } catch (error) {
      if (error.name !== 'AbortError') note.textContent = error.message;
    }
  }
  read();
  return { update: read, leave: () => leaving.abort() };
}
