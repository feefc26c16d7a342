// Steps on the cells of a map: bands, contours, and what they say in numbers.

/** A round number near `size`: 1, 2, 2.5 or 5 times a power of ten. */
export function rounded(size) {
  const power = 10 ** Math.floor(Math.log10(size));
  const share = size / power;
  return (share < 1.5 ? 1 : share < 2.25 ? 2 : share < 3.5 ? 2.5 : share < 7.5 ? 5 : 10) * power;
}

export function quantile(values, share) {
  const sorted = Float64Array.from(values).sort();
  return sorted.length ? sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] : NaN;
}

/** The finite values among `fields`. */
export function finite(...fields) {
  return fields.flatMap((field) => Array.from(field).filter(Number.isFinite));
}

/** Levels of about nine bands; the last one holds all beyond. Those of before where they still fit. */
export function levelsOf(values, before) {
  const most = Math.max(Math.min(quantile(values, 0.98), 2.5 * quantile(values, 0.5)), 1e-6);
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
  const wide = Float32Array.from(field);
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      const at = row * columns + column;
      if (!Number.isNaN(field[at])) continue;
      let [sum, count] = [0, 0];
      for (let up = -1; up <= 1; up++) {
        for (let across = -1; across <= 1; across++) {
          const [x, y] = [column + across, row + up];
          if (x < 0 || y < 0 || x >= columns || y >= rows) continue;
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
  const left = new Int32Array(width);
  const share = new Float32Array(width);
  for (let x = 0; x < width; x++) {
    const place = ((x + 0.5) / width) * columns - 0.5;
    left[x] = Math.max(0, Math.min(columns - 2, Math.floor(place)));
    share[x] = Math.max(0, Math.min(1, place - left[x]));
  }
  for (let y = 0; y < height; y++) {
    const place = (1 - (y + 0.5) / height) * rows - 0.5;
    const low = Math.max(0, Math.min(Math.max(rows - 2, 0), Math.floor(place)));
    const high = Math.min(low + 1, rows - 1);
    const up = Math.max(0, Math.min(1, place - low));
    const near = (up < 0.5 ? low : high) * columns;
    for (let x = 0; x < width; x++) {
      const column = left[x];
      const across = share[x];
      const at = y * width + x;
      if (Number.isNaN(field[near + (across < 0.5 ? column : column + 1)])) {
        pixels[at] = 0;
        continue;
      }
      const a = wide[low * columns + column];
      const b = wide[low * columns + column + 1];
      const c = wide[high * columns + column];
      const d = wide[high * columns + column + 1];
      const value = (a + (b - a) * across) * (1 - up) + (c + (d - c) * across) * up;
      const band = Math.max(0, Math.min(levels.count - 1, Math.floor(value / levels.step)));
      pixels[at] = value <= limit ? colours[band] : beyond[band];
    }
  }
}

/** Where a field crosses `level`, as segments in cells: x, y, x, y one after the other. */
export function contour(map, field, level) {
  const { columns, rows } = map;
  const segments = [];
  for (let row = 0; row + 1 < rows; row++) {
    for (let column = 0; column + 1 < columns; column++) {
      const at = row * columns + column;
      const [a, b] = [field[at] - level, field[at + 1] - level];
      const [c, d] = [field[at + columns + 1] - level, field[at + columns] - level];
      const mask = (a > 0) | ((b > 0) << 1) | ((c > 0) << 2) | ((d > 0) << 3);
      if (mask === 0 || mask === 15 || Number.isNaN(a + b + c + d)) continue;
      const bottom = [column + a / (a - b), row];
      const right = [column + 1, row + b / (b - c)];
      const top = [column + d / (d - c), row + 1];
      const side = [column, row + a / (a - d)];
      const add = (one, other) => segments.push(one[0], one[1], other[0], other[1]);
      switch (mask) {
        case 1: case 14: add(side, bottom); break;
        case 2: case 13: add(bottom, right); break;
        case 3: case 12: add(side, right); break;
        case 4: case 11: add(right, top); break;
        case 6: case 9: add(bottom, top); break;
        case 7: case 8: add(side, top); break;
        case 5: add(side, top); add(bottom, right); break;
        default: add(side, bottom); add(right, top);
      }
    }
  }
  return segments;
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
