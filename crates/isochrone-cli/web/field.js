// Steps on the cells of a map: bands, contours, and what they say in numbers.

/** A round number near `size`: 1, 2, 2.5 or 5 times a power of ten. */
export function rounded(size) {
  const power = 10 ** Math.floor(Math.log10(size));
  const share = size / power;
  return (share < 1.5 ? 1 : share < 2.25 ? 2 : share < 3.5 ? 2.5 : share < 7.5 ? 5 : 10) * power;
}

export function quantile(values, share) {
  return quantiles(values, [share])[0];
}

function quantiles(values, shares) {
  const sorted = Float32Array.from(values).sort();
  return shares.map((share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? NaN);
}

/** The finite values among `fields`. */
export function finite(...fields) {
  const found = new Float32Array(fields.reduce((sum, field) => sum + field.length, 0));
  let count = 0;
  for (const field of fields) {
    for (let at = 0; at < field.length; at++) if (Number.isFinite(field[at])) found[count++] = field[at];
  }
  return found.subarray(0, count);
}

/** Levels of about nine bands; the last one holds all beyond. Those of before where they still fit. */
export function levelsOf(values, before) {
  // Some thousands of values tell as much, and are sorted at every move.
  const apart = Math.ceil(values.length / 3000);
  const [half, nearly] = quantiles(values.filter((_, at) => at % apart === 0), [0.5, 0.98]);
  const most = Math.max(Math.min(nearly, 2.5 * half), 1e-6);
  const fits = before && most / before.step > 5 && most / before.step < 13;
  const step = fits ? before.step : rounded(most / 9);
  const count = Math.max(1, Math.min(16, Math.ceil(most / step)));
  return { step, count, most: step * count };
}

/** A field over all cells of a map's rectangle from the values of those near the data. */
export function spread(map, values) {
  const field = new Float32Array(map.columns * map.rows).fill(NaN);
  for (let at = 0; at < map.cells.length; at++) field[map.cells[at]] = values[at];
  return field;
}

/** The field with the cells around the known ones filled in, so that edges can be interpolated. */
function widened(map, field) {
  const { columns, rows } = map;
  const wide = field.slice();
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      const at = row * columns + column;
      if (!Number.isNaN(field[at])) continue;
      let sum = 0;
      let count = 0;
      for (let y = Math.max(0, row - 1); y <= Math.min(rows - 1, row + 1); y++) {
        for (let x = Math.max(0, column - 1); x <= Math.min(columns - 1, column + 1); x++) {
          const value = field[y * columns + x];
          if (Number.isNaN(value)) continue;
          sum += value;
          count++;
        }
      }
      if (count) wide[at] = sum / count;
    }
  }
  return wide;
}

/** Paints the bands of a field into `image`; places far from the data stay clear. */
export function paint(map, field, image, { levels, colours, beyond, limit }) {
  const { columns, rows } = map;
  const wide = widened(map, field);
  const { width, height, data } = image;
  const pixels = new Uint32Array(data.buffer);
  const { left, share, nearest } = places(width, columns);
  const mixed = new Float64Array(columns + 1);
  for (let y = 0; y < height; y++) {
    const place = (1 - (y + 0.5) / height) * rows - 0.5;
    const low = Math.max(0, Math.min(Math.max(rows - 2, 0), Math.floor(place)));
    const high = Math.min(low + 1, rows - 1);
    const up = Math.max(0, Math.min(1, place - low));
    const near = (up < 0.5 ? low : high) * columns;
    for (let column = 0; column < columns; column++) {
      mixed[column] = (wide[low * columns + column] * (1 - up) + wide[high * columns + column] * up) / levels.step;
    }
    for (let x = 0, at = y * width; x < width; x++, at++) {
      const known = field[near + nearest[x]];
      if (known !== known) {
        pixels[at] = 0;
        continue;
      }
      const from = mixed[left[x]];
      const value = from + (mixed[left[x] + 1] - from) * share[x];
      const band = Math.max(0, Math.min(levels.count - 1, value | 0));
      pixels[at] = value * levels.step <= limit ? colours[band] : beyond[band];
    }
  }
}

/** Where pixels lie among columns: the one to the left, how far behind it, and the nearest. */
function places(width, columns) {
  const [left, share, nearest] = [new Int32Array(width), new Float64Array(width), new Int32Array(width)];
  for (let x = 0; x < width; x++) {
    const place = ((x + 0.5) / width) * columns - 0.5;
    left[x] = Math.max(0, Math.min(columns - 2, Math.floor(place)));
    share[x] = Math.max(0, Math.min(1, place - left[x]));
    nearest[x] = share[x] < 0.5 ? left[x] : left[x] + 1;
  }
  return { left, share, nearest };
}

/** Where a field crosses each of `levels`, as segments in cells: x, y, x, y one after the other. */
export function contours(map, field, levels) {
  const { columns, rows } = map;
  const found = levels.map(() => []);
  for (let row = 0; row + 1 < rows; row++) {
    for (let column = 0; column + 1 < columns; column++) {
      const at = row * columns + column;
      const [a, b, c, d] = [field[at], field[at + 1], field[at + columns + 1], field[at + columns]];
      if (Number.isNaN(a + b + c + d)) continue;
      const low = Math.min(a, b, c, d);
      const high = Math.max(a, b, c, d);
      for (let place = 0; place < levels.length; place++) {
        const level = levels[place];
        if (low <= level && level < high) cross(found[place], column, row, a - level, b - level, c - level, d - level);
      }
    }
  }
  return found;
}

/** Adds the segments within a square whose corners are, from the lower left on, above zero or not. */
function cross(segments, column, row, a, b, c, d) {
  const bottom = column + a / (a - b);
  const right = row + b / (b - c);
  const top = column + d / (d - c);
  const left = row + a / (a - d);
  switch ((a > 0) | ((b > 0) << 1) | ((c > 0) << 2) | ((d > 0) << 3)) {
    case 1: case 14: segments.push(column, left, bottom, row); break;
    case 2: case 13: segments.push(bottom, row, column + 1, right); break;
    case 3: case 12: segments.push(column, left, column + 1, right); break;
    case 4: case 11: segments.push(column + 1, right, top, row + 1); break;
    case 6: case 9: segments.push(bottom, row, top, row + 1); break;
    case 7: case 8: segments.push(column, left, top, row + 1); break;
    case 5: segments.push(column, left, top, row + 1, bottom, row, column + 1, right); break;
    default: segments.push(column, left, bottom, row, column + 1, right, top, row + 1);
  }
}

/** Segments joined end to end into lines, each a list of points. */
export function chained(segments) {
  const key = (at) => `${segments[at].toFixed(3)} ${segments[at + 1].toFixed(3)}`;
  const ends = new Map();
  for (let at = 0; at < segments.length; at += 2) ends.set(key(at), [...(ends.get(key(at)) ?? []), at]);
  const used = new Set();
  const lines = [];
  const walk = (from) => {
    const line = [];
    let at = from;
    while (at !== undefined) {
      const piece = at - (at % 4);
      used.add(piece);
      const other = at === piece ? piece + 2 : piece;
      line.push([segments[other], segments[other + 1]]);
      at = ends.get(key(other)).find((end) => !used.has(end - (end % 4)));
    }
    return line;
  };
  for (let at = 0; at < segments.length; at += 4) {
    if (used.has(at)) continue;
    const forth = walk(at);
    const back = ends.get(key(at)).find((end) => !used.has(end - (end % 4)));
    lines.push([...(back === undefined ? [] : walk(back).reverse()), [segments[at], segments[at + 1]], ...forth]);
  }
  return lines;
}

/** A field averaged over neighbours, without a value where they jump by more than `jump`. */
export function smoothed(map, field, jump) {
  const { columns, rows } = map;
  const out = new Float32Array(field.length).fill(NaN);
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      if (Number.isNaN(field[row * columns + column])) continue;
      let [sum, weight, low, high] = [0, 0, Infinity, -Infinity];
      for (let up = -3; up <= 3; up++) {
        for (let across = -3; across <= 3; across++) {
          const [x, y] = [column + across, row + up];
          if (x < 0 || y < 0 || x >= columns || y >= rows) continue;
          const value = field[y * columns + x];
          if (!Number.isFinite(value)) continue;
          const share = Math.max(0, 1 - Math.hypot(across, up) / 4);
          sum += share * value;
          weight += share;
          low = Math.min(low, value);
          high = Math.max(high, value);
        }
      }
      if (weight > 0 && high - low <= jump) out[row * columns + column] = sum / weight;
    }
  }
  return out;
}

/** How far learned steps are from exact ones, over the cells that both know. */
export function errors(learned, exact) {
  const [apart, relative] = [[], []];
  let unreachable = 0;
  for (let at = 0; at < exact.length; at++) {
    if (!Number.isFinite(exact[at])) unreachable++;
    else if (Number.isFinite(learned[at])) {
      apart.push(Math.abs(learned[at] - exact[at]));
      if (exact[at] >= 1) relative.push(Math.abs(learned[at] - exact[at]) / exact[at]);
    }
  }
  return { cells: apart.length, unreachable, apart: quantile(apart, 0.5), relative: quantile(relative, 0.5) };
}
