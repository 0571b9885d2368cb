// Handles the keyboard shortcuts for lists, views, search and help.

import { h } from './dom.js';

const KEYS = [['/', 'search'], ['j k ↓ ↑', 'next, previous row'], ['Enter', 'open the row'], ['Esc', 'back'], ['1 to 6', 'Services, Graph, Streams, Tap, Proxies, Problems'], ['?', 'this help']];

function move(step) {
  const rows = [...document.querySelectorAll('tbody tr[tabindex], .problems a.more')];
  if (rows.length === 0) return;
  const place = rows.indexOf(document.activeElement);
  const next = place < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.min(Math.max(place + step, 0), rows.length - 1);
  rows[next].focus();
  rows[next].scrollIntoView({ block: 'nearest' });
}

/** Starts to listen. `paths` are the views of the keys 1 to 6. */
export function listen(paths) {
  const dialog = document.getElementById('help');
  const close = h('button', { type: 'button', onclick: () => dialog.close() }, 'Close');
  const list = KEYS.flatMap(([key, meaning]) => [h('dt', {}, h('kbd', {}, key)), h('dd', {}, meaning)]);
  dialog.append(h('h2', { id: 'help-title' }, 'Keys'), h('dl', { class: 'keys' }, ...list), close);
  document.getElementById('help-button').addEventListener('click', () => dialog.showModal());
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || dialog.open) return;
    const isTyping = event.target.matches('input, select, textarea');
    if (isTyping) {
      if (event.key === 'Escape') event.target.blur();
      return;
    }
    const actions = { j: () => move(1), ArrowDown: () => move(1), k: () => move(-1), ArrowUp: () => move(-1),
      '/': () => document.querySelector('input[type=search]')?.focus(), '?': () => dialog.showModal(),
      Escape: () => { if (location.hash.length > 2) history.length > 1 ? history.back() : (location.hash = '#/'); } };
    const path = paths[Number(event.key) - 1];
    const action = actions[event.key] ?? (path === undefined ? null : () => { location.hash = `#/${path}`; });
    if (!action || (event.target.id === 'canvas' && event.key.startsWith('Arrow'))) return;
    event.preventDefault();
    action();
  });
}
