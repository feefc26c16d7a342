// The interval quasimetric: each group of latent values is a set of intervals from the start's values to
// the goal's, and what counts is how much of the line they cover, in the mean over groups and at most.

/** The whole number that stands for the largest latent value when cells are first compared. A goal may
 * be four times as far out before a difference of two whole numbers leaves 31 bits. */
const WHOLE = 2 ** 27;

export class Intervals {
  constructor(latent, group, mix) {
    Object.assign(this, { latent, group, mix });
  }

  /** Tells `found` the distance of every cell to `place`, or from it. */
  each(cells, count, place, towards, found) {
    const { latent } = this;
    const most = largest(place.from);
    if (!(most * cells.unit <= 4 * WHOLE)) {
      cells.unit = WHOLE / largest([most, largest(cells.from), Number.MIN_VALUE]);
      cells.starts = cells.goals = null;
    }
    const { unit } = cells;
    // The cells are made ready once for all goals.
    if (towards) cells.starts ??= this.starts(cells.from, unit);
    else cells.goals ??= wholes(cells.from, unit);
    const starts = towards ? cells.starts : this.starts(place.from, unit);
    const goals = towards ? wholes(place.from, unit) : cells.goals;
    this.sweep(starts, towards ? latent : 0, goals, towards ? 0 : latent, count, (cell, value) => found(cell, value / unit));
  }

  /** The left ends of the intervals in rising order, group by group, and which value each one was. */
  starts(x, unit) {
    const { latent, group } = this;
    const left = wholes(x, unit);
    const order = new Uint16Array(x.length);
    for (let first = 0; first < x.length; first += group) {
      const row = first - (first % latent);
      for (let at = first; at < first + group; at++) {
        const value = left[at];
        let place = at;
        for (; place > first && left[place - 1] > value; place--) {
          left[place] = left[place - 1];
          order[place] = order[place - 1];
        }
        left[place] = value;
        order[place] = at - row;
      }
    }
    return { left, order };
  }

  /** One pass along every group, two of them at a time, as each step waits for the one before. Of two
   * whole numbers the larger is found without a branch, which a processor would guess wrong half of the
   * time. */
  sweep({ left, order }, startWidth, right, goalWidth, count, found) {
    const { latent, group, mix } = this;
    for (let cell = 0, i = 0, j = 0; cell < count; cell++, i += startWidth, j += goalWidth) {
      let sum = 0;
      let most = 0;
      for (let first = i; first < i + latent; first += 2 * group) {
        // The last of an odd number of groups has none beside it, and is swept twice.
        const beside = first + group < i + latent ? group : 0;
        let [length, reach] = [0, -4 * WHOLE];
        let [other, farther] = [0, -4 * WHOLE];
        for (let at = first; at < first + group; at++) {
          const gap = (left[at] - reach) | 0;
          const space = (left[at + beside] - farther) | 0;
          reach = (reach + (gap & ~(gap >> 31))) | 0;
          farther = (farther + (space & ~(space >> 31))) | 0;
          const more = (right[j + order[at]] - reach) | 0;
          const rest = (right[j + order[at + beside]] - farther) | 0;
          const covered = more & ~(more >> 31);
          const added = rest & ~(rest >> 31);
          length = (length + covered) | 0;
          other = (other + added) | 0;
          reach = (reach + covered) | 0;
          farther = (farther + added) | 0;
        }
        sum += beside ? length + other : length;
        if (length > most) most = length;
        if (other > most) most = other;
      }
      found(cell, (mix * sum * group) / latent + (1 - mix) * most);
    }
  }
}

/** The largest size of a value; not a number where one of them is none. */
function largest(values) {
  let most = 0;
  for (let at = 0; at < values.length; at++) {
    const size = Math.abs(values[at]);
    if (size > most) most = size;
    else if (Number.isNaN(size)) return NaN;
  }
  return most;
}

function wholes(values, unit) {
  const out = new Int32Array(values.length);
  for (let at = 0; at < values.length; at++) out[at] = Math.round(values[at] * unit);
  return out;
}
