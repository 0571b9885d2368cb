// The frame of the page: requests snapshots, and shows the view that the URL names.

import { h, setText } from './dom.js';
import { overview, problems } from './overview.js';
import { service } from './service.js';
import { graph } from './graph.js';
import { streams } from './streams.js';
import { tap } from './tap.js';
import { proxies } from './proxies.js';
import { listen } from './keys.js';

const VIEWS = [['', 'Services', overview], ['graph', 'Graph', graph], ['streams', 'Streams', streams], ['tap', 'Tap', tap], ['proxies', 'Proxies', proxies], ['problems', 'Problems', problems]];
const main = document.getElementById('main');
const state = document.getElementById('state');
const tabs = VIEWS.map(([path, title]) => h('a', { href: `#/${path}`, 'data-path': path }, title));
const faults = h('span', { class: 'count error', hidden: true, title: 'errors and warnings' });
const notes = h('span', { class: 'count', hidden: true, title: 'notes' });
tabs.at(-1).append(faults, notes);
document.getElementById('nav').append(...tabs);

let snapshot = null;
let view = null;
let timer = 0;

/** Requests JSON from `leno dashboard`. Returns null if there is nothing new. */
export async function ask(path, signal) {
  const answer = await fetch(path, { signal, headers: { accept: 'application/json' } });
  if (answer.status === 204) return null;
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer.json();
}

/** Reads for a view, one reading at a time, until the user leaves the view. `note` shows why a reading failed. */
export function readings(note, read) {
  const leaving = new AbortController();
  let isReading = false;
  async function update() {
    if (isReading) return;
    isReading = true;
    try {
      await read(leaving.signal);
    } catch (error) {
      if (error.name !== 'AbortError') note.textContent = error.message;
    } finally {
      isReading = false;
    }
  }
  return { update, leave: () => leaving.abort(), signal: leaving.signal };
}

function show() {
  const [path, argument] = location.hash.replace(/^#\//, '').split('/').map(decodeURIComponent);
  view?.leave?.();
  main.replaceChildren();
  const known = VIEWS.find(([name]) => name === (path ?? ''));
  for (const tab of tabs) {
    if (tab.dataset.path === (path === 'service' ? '' : known?.[0] ?? '')) { tab.setAttribute('aria-current', 'page'); tab.scrollIntoView({ block: 'nearest', inline: 'nearest' }); }
    else tab.removeAttribute('aria-current');
  }
  view = path === 'service' ? service(main, argument) : (known?.[2] ?? overview)(main, argument);
  document.title = `${path === 'service' ? argument : known?.[1] ?? 'Services'} – Leno`;
  if (snapshot) view.update?.(snapshot);
  scrollTo(0, 0);
}

async function poll() {
  clearTimeout(timer);
  // A hidden page sends no requests.
  if (document.hidden) return;
  let pause = 2;
  try {
    const next = await ask(`/api/mesh?since=${snapshot?.version ?? 0}`);
    if (next) {
      snapshot = next;
      pause = next.version < 10 ? 0.6 : next.every_s;
      view.update?.(snapshot);
      const worst = snapshot.problems.filter((problem) => problem.severity !== 'note').length;
      for (const [badge, number] of [[faults, worst], [notes, snapshot.problems.length - worst]]) {
        badge.hidden = number === 0;
        setText(badge, String(number));
      }
      const silent = snapshot.silent ? `, ${snapshot.silent} silent` : '';
      const reading = snapshot.counted + snapshot.silent < snapshot.proxies ? 'counting calls of ' : '';
      setText(state, `${reading}${snapshot.proxies} ${snapshot.proxies === 1 ? 'proxy' : 'proxies'}${silent}`);
    }
    state.className = '';
  } catch (error) {
    state.className = 'error';
    setText(state, error instanceof TypeError ? 'leno dashboard has ended' : error.message);
  }
  timer = setTimeout(poll, pause * 1000);
}

listen(VIEWS.map(([path]) => path));
addEventListener('hashchange', show);
document.addEventListener('visibilitychange', poll);
show();
poll();
