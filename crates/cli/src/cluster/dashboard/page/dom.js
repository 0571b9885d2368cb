// Creates DOM elements. Texts become text nodes, never markup: they come from proxies, which may have received them
// from untrusted peers.

const SVG = 'http://www.w3.org/2000/svg';

/** Makes an element: h('td', { class: 'num' }, 'text', child). */
export function h(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  return fill(element, attributes, children);
}

/** Makes an element of SVG. */
export function s(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? '' : String(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** A box with a heading. */
export function panel(title, about, ...children) {
  return h('section', { class: 'panel', 'aria-label': title },
    h('div', { class: 'head' }, h('h2', {}, title), about ? h('p', { class: 'sub' }, about) : null), ...children);
}

export function serviceLink(id) {
  return `#/service/${encodeURIComponent(id)}`;
}

/** Replaces the text only if it changed, so that screen readers do not repeat it. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Shows below a table which data the table lacks. */
export function showMissing(element, ...texts) {
  setText(element, texts.filter(Boolean).join('; '));
  element.hidden = element.textContent === '';
}
