// The view of the calls that are open now. The dashboard reads them from the proxies only while this view is shown.

import { ask, readings } from './app.js';
import { h, panel } from './dom.js';
import { Table } from './table.js';
import { missing, rate, seconds } from './format.js';

export function streams(main) {
  const search = h('input', { type: 'search', placeholder: 'Search calls  /', 'aria-label': 'Search calls', oninput: () => show() });
  const note = h('p', { class: 'sub' }, 'Reading the proxies.');
  const table = new Table({ label: 'Open calls', key: (row) => [row.namespace, row.name, row.worker, row.id, row.client].join(' '), empty: 'No call has been open for longer than 0.5 s.',
    columns: [{ head: 'Method', kind: 'name', value: (row) => row.method, title: (row) => row.method }, { head: 'Proxy', optional: true, value: (row) => `${row.namespace ? `${row.namespace}/` : ''}${row.name} ${row.direction === 'inbound' ? 'in' : 'out'}` },
      { head: 'To', optional: true, value: (row) => row.target ?? '–' }, { head: 'Endpoint', kind: 'mono', optional: true, value: (row) => row.endpoint ?? '–' }, { head: 'State', value: (row) => row.progress },
      { head: 'Age', number: true, value: (row) => row.age_ms, text: (row) => seconds(row.age_ms) }, { head: 'Messages/s', number: true, value: (row) => row.messages_per_second, text: (row) => rate(row.messages_per_second) },
      { head: 'Messages', number: true, optional: true, value: (row) => row.request_messages + row.response_messages, text: (row) => `${row.request_messages} + ${row.response_messages}` },
      { head: 'Stalled by', value: (row) => row.stalled_by ?? '', class: (row) => (row.stalled_by ? 'bad' : '') }] });
  main.append(h('h1', {}, 'Open calls and streams'), note, panel('Open calls', 'the oldest first', table.element));
  main.querySelector('.panel .head').append(h('span', { class: 'right' }, search));
  let all = null;

  function show() {
    if (!all) return;
    const wanted = search.value.toLowerCase();
    table.update(all.calls.filter((row) => [row.method, row.target, row.name, row.endpoint].some((text) => text?.toLowerCase().includes(wanted))));
  }

  const reading = readings(note, async (signal) => {
    all = await ask('/api/calls', signal);
    const lacks = [all.omitted ? `${all.omitted} younger calls are left out` : '', ...missing(all)].filter(Boolean).map((text) => `; ${text}`).join('');
    note.textContent = `${all.calls.length} calls open for longer than 0.5 s, in ${all.proxies} proxies${lacks}. Stalled by: the side that takes no content although content waits for it.`;
    show();
  });
  reading.update();
  return reading;
}
