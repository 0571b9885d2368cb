// Formats figures for users. A missing figure is shown as a dash.

const DASH = '–';

export function rate(value) {
  if (value === null || value === undefined) return DASH;
  if (value >= 1000) return Math.round(value).toLocaleString('en');
  return value === 0 ? '0' : value < 0.05 ? '<0.1' : value.toFixed(1);
}

export function percent(share) {
  if (share === null || share === undefined) return DASH;
  const value = share * 100;
  if (value === 100 || value === 0) return `${value} %`;
  // Show 99.996 % as 99.99 %, and 0.004 % as 0.01 %: rounding must not turn them into 100 % and 0 %.
  return `${Math.min(Math.max(value, 0.01), 99.99).toFixed(2)} %`;
}

export function ms(value) {
  if (value === null || value === undefined) return DASH;
  return value >= 10000 ? `${(value / 1000).toFixed(1)} s` : value >= 100 ? `${value.toFixed(0)} ms` : `${value.toFixed(1)} ms`;
}

export function seconds(milliseconds) {
  const value = milliseconds / 1000;
  if (value < 60) return `${value.toFixed(1)} s`;
  if (value < 3600) return `${Math.floor(value / 60)} min ${Math.floor(value % 60)} s`;
  return `${Math.floor(value / 3600)} h ${Math.floor((value % 3600) / 60)} min`;
}

/** Names the proxies and workers whose data an answer of `leno dashboard` lacks. */
export function missing({ proxies_omitted: omitted, proxies_silent: silent, silent_workers: workers }) {
  return [omitted ? `${omitted} proxies are not read` : '', silent ? `${silent} proxies did not answer in time` : '',
    workers ? `${workers} workers did not answer their proxies in time` : ''].filter(Boolean);
}

export function successClass(share) {
  if (share === null || share === undefined) return 'soft';
  return share < 0.95 ? 'bad' : share < 0.99 ? 'warn' : 'good';
}

/** A call that takes longer, in milliseconds, is slow: `SLOW_MS` of stat/methods.rs. */
export const SLOW_MS = 200;

/** The classes of levels of problems. */
export const LEVELS = { error: 'bad', warning: 'warn', good: 'good' };

/** Whether more than 5 % of the calls are denied. An answer that denies a call is no failure of the server. */
export function isDenied(row) {
  return row.denied_per_second > 0.05 * row.calls_per_second;
}

/** The colour of a share of successful calls. Denied calls did not do what the caller wanted, so they are never good. */
export function successOf(row) {
  const kind = successClass(row.success_rate);
  return kind === 'good' && isDenied(row) ? 'warn' : kind;
}

export function tlsClass(share) {
  if (share === null || share === undefined) return 'soft';
  return share > 0.999 ? 'good' : 'warn';
}

export function latencyClass(value) {
  return value > 1000 ? 'bad' : value > SLOW_MS ? 'warn' : '';
}
