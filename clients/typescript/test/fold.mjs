// Folds sequences of events: a line of standard input is a list of events, and the line of output
// that belongs to it has the state behind them, and of which events it was the same as before.
import { createInterface } from 'node:readline';

import { empty, reduce } from '../lib/index.js';

/** frozen makes a state that can't be written to, so that a reducer that does fails. */
function frozen(value) {
  if (value && typeof value === 'object' && !Object.isFrozen(value)) Object.values(Object.freeze(value)).forEach(frozen);
  return value;
}

for await (const line of createInterface({ input: process.stdin })) {
  let state = frozen(empty);
  const same = frozen(JSON.parse(line)).map((event) => {
    const before = state;
    state = frozen(reduce(state, event));
    return state === before;
  });
  process.stdout.write(JSON.stringify({ state, same }) + '\n');
}
