// A table whose rows stay in place while their figures change. Column: { head, about, value(row), text(row), class(row),
// title(row) }. `about` explains the column, and `title` a cell.

import { h, setText } from './dom.js';

/** A table that the user can sort by a column. Until then, `worst` compares the rows. */
export class Table {
  constructor({ columns, key, open, worst, empty, label }) {
    Object.assign(this, { columns, key, open, worst, emptyText: empty });
    this.rows = new Map();
    this.sorted = null;
    this.heads = columns.map((column, index) => h('th', { scope: 'col', class: this.classOf(column) },
      column.value ? h('button', { type: 'button', title: column.about ?? `Sort by ${column.head}`, onclick: () => this.sortBy(index) }, column.head)
        : h('span', {}, column.head)));
    this.body = h('tbody');
    this.none = h('p', { class: 'empty', hidden: true });
    this.box = h('div', { class: 'scroll' }, h('table', { 'aria-label': label }, h('thead', {}, h('tr', {}, ...this.heads)), this.body));
    this.element = h('div', {}, this.box, this.none);
  }

  classOf(column) {
    return [column.number ? 'num' : '', column.optional ? 'optional' : '', column.kind ?? ''].join(' ').trim() || undefined;
  }

  sortBy(index) {
    const isSame = this.sorted?.index === index;
    this.sorted = { index, isReversed: isSame ? !this.sorted.isReversed : Boolean(this.columns[index].number) };
    this.heads.forEach((head, at) => {
      if (at === index) head.setAttribute('aria-sort', this.sorted.isReversed ? 'descending' : 'ascending');
      else head.removeAttribute('aria-sort');
    });
    this.update(this.data);
  }

  compare(a, b) {
    if (!this.sorted) return this.worst ? this.worst(a, b) : 0;
    const value = this.columns[this.sorted.index].value;
    const [left, right] = [value(a), value(b)];
    // Rows without a figure come last.
    if (left === null || left === undefined) return right === null || right === undefined ? 0 : 1;
    if (right === null || right === undefined) return -1;
    const order = typeof left === 'string' ? left.localeCompare(right) : left - right;
    return this.sorted.isReversed ? -order : order;
  }

  update(data) {
    this.data = data;
    const seen = new Set();
    const sorted = [...data].sort((a, b) => this.compare(a, b));
    sorted.forEach((row, place) => {
      const key = this.key(row);
      if (seen.has(key)) return;
      seen.add(key);
      const line = this.rows.get(key) ?? this.make(key);
      line.row = row;
      this.fill(line);
      if (this.body.children[place] !== line.element) this.body.insertBefore(line.element, this.body.children[place] ?? null);
    });
    for (const [key, line] of this.rows) {
      if (!seen.has(key)) { line.element.remove(); this.rows.delete(key); }
    }
    this.none.hidden = data.length > 0;
    this.box.hidden = data.length === 0;
    setText(this.none, this.emptyText ?? 'Nothing to show.');
  }

  make(key) {
    const cells = this.columns.map((column) => h('td', { class: this.classOf(column) }));
    const line = { cells, row: null };
    const open = () => this.open(line.row);
    line.element = this.open
      ? h('tr', { tabindex: 0, 'data-open': true, onclick: open, onkeydown: (event) => { if (event.key === 'Enter') open(); } }, ...cells)
      : h('tr', { tabindex: -1 }, ...cells);
    this.rows.set(key, line);
    return line;
  }

  fill({ cells, row }) {
    this.columns.forEach((column, index) => {
      const cell = cells[index];
      if (column.draw) return column.draw(row, cell);
      const text = column.text ? column.text(row) : String(column.value(row) ?? '–');
      setText(cell, text);
      const title = column.title?.(row) ?? '';
      if (cell.title !== title) cell.title = title;
      const name = [this.classOf(column), column.class?.(row)].filter(Boolean).join(' ');
      if (cell.className !== name) cell.className = name;
    });
  }
}
