// A learned distance, read from the arrays of a model file: embeds states and compares them.
// The layout is that of a model file; examples/model.py reads it in the same way.

import { Intervals } from "./iqe.js";

/** Little-endian bytes from base64. */
function bytesOf(text) {
  // Many times faster, where a browser has it.
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let at = 0; at < raw.length; at++) bytes[at] = raw.charCodeAt(at);
  return bytes;
}

export function floatsOf(text) {
  return new Float32Array(bytesOf(text).buffer);
}

export function wholesOf(text) {
  return new Uint32Array(bytesOf(text).buffer);
}

const ACTIVATIONS = {
  identity: (z) => z,
  relu: (z) => Math.max(z, 0),
  gelu: (z) => 0.5 * z * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (z + 0.044715 * z ** 3))),
  swish: (z) => z / (1 + Math.exp(-z)),
};

/** A flat array, taken from front to back. */
class Numbers {
  constructor(flat) {
    this.flat = flat;
    this.at = 0;
  }

  take(count) {
    this.at += count;
    return this.flat.subarray(this.at - count, this.at);
  }

  network(shape, inputs, outputs) {
    const widths = [inputs, ...shape.hidden, outputs];
    const layers = [];
    for (let at = 0; at + 1 < widths.length; at++) {
      const [rows, columns] = [widths[at], widths[at + 1]];
      const hidden = at + 2 < widths.length;
      const layer = { rows, columns, hidden, weight: this.take(rows * columns), bias: this.take(columns) };
      if (hidden && shape.norm === "layer") layer.norm = [this.take(columns), this.take(columns)];
      layers.push(layer);
    }
    const activate = ACTIVATIONS[shape.activation];
    return (...parts) => {
      let x = joined(parts);
      for (const layer of layers) x = applied(layer, activate, x);
      return x;
    };
  }
}

function joined(parts) {
  const all = new Float64Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

function applied({ rows, columns, weight, bias, hidden, norm }, activate, x) {
  const out = Float64Array.from(bias);
  for (let row = 0; row < rows; row++) {
    const value = x[row];
    if (value === 0) continue;
    const first = row * columns;
    for (let column = 0; column < columns; column++) out[column] += value * weight[first + column];
  }
  if (hidden) for (let column = 0; column < columns; column++) out[column] = activate(out[column]);
  if (norm) {
    let [mean, variance] = [0, 0];
    for (const value of out) mean += value / columns;
    for (const value of out) variance += (value - mean) ** 2 / columns;
    const scale = 1 / Math.sqrt(variance + 1e-6);
    for (let column = 0; column < columns; column++) {
      out[column] = (out[column] - mean) * scale * norm[0][column] + norm[1][column];
    }
  }
  return out;
}

/** A head that compares latent rows pair by pair, by a function of two rows, each an array and where its
 * row begins. */
class Pairwise {
  constructor(compare) {
    this.compare = compare;
  }

  /** Tells `found` the distance of every cell to `place`, or from it. */
  each({ from, to, fromWidth, toWidth }, count, place, towards, found) {
    const { compare } = this;
    for (let cell = 0; cell < count; cell++) {
      found(cell, towards ? compare(from, cell * fromWidth, place.to, 0) : compare(place.from, 0, to, cell * toWidth));
    }
  }
}

function headOf(numbers, shape) {
  if (shape.kind === "iqe") {
    const mix = 1 / (1 + Math.exp(-numbers.take(1)[0]));
    return new Intervals(shape.latent, shape.group, mix);
  }
  return new Pairwise(comparison(numbers, shape));
}

/** How the head `shape` compares two latent rows. */
function comparison(numbers, shape) {
  const latent = shape.latent;
  switch (shape.kind) {
    case "max":
      return (x, i, y, j) => {
        let largest = 0;
        for (let m = 0; m < latent; m++) largest = Math.max(largest, x[i + m] - y[j + m]);
        return largest;
      };
    case "mrn": {
      const half = latent / shape.components / 2;
      return (x, i, y, j) => {
        let total = 0;
        for (let first = 0; first < latent; first += 2 * half) {
          let largest = 0;
          let squares = 0;
          for (let m = first; m < first + half; m++) {
            const gap = x[i + m] - y[j + m];
            if (gap > largest) largest = gap;
            const other = x[i + m + half] - y[j + m + half];
            squares += other * other;
          }
          total += largest + Math.sqrt(squares);
        }
        return total / shape.components;
      };
    }
    case "pqe": {
      const { group } = shape;
      const alpha = Array.from(numbers.take(latent / group), (raw) => Math.log1p(Math.exp(-Math.abs(raw))) + Math.max(raw, 0));
      return (x, i, y, j) => {
        let total = 0;
        for (let at = 0; at < alpha.length; at++) {
          let sum = 0;
          for (let m = at * group; m < (at + 1) * group; m++) sum += Math.max(x[i + m] - y[j + m], 0);
          total += alpha[at] * -Math.expm1(-sum / group);
        }
        return total;
      };
    }
    case "wide-norm": {
      const { components, size } = shape;
      const weight = numbers.take(components * size * 2 * latent).map((raw) => raw * raw);
      return (x, i, y, j) => {
        let total = 0;
        for (let component = 0; component < components; component++) {
          let squares = 0;
          for (let row = component * size; row < (component + 1) * size; row++) {
            const first = row * 2 * latent;
            let image = 0;
            for (let m = 0; m < latent; m++) {
              const gap = x[i + m] - y[j + m];
              image += gap > 0 ? gap * weight[first + m] : -gap * weight[first + latent + m];
            }
            squares += image * image;
          }
          total += Math.sqrt(squares);
        }
        return total / components;
      };
    }
    case "deep-norm": {
      const { layers, units } = shape;
      const inner = numbers.take((layers - 1) * units * units).map((raw) => raw * raw);
      const outer = numbers.take(layers * units * latent);
      return (x, i, y, j) => {
        let unit = new Float64Array(units);
        for (let layer = 0; layer < layers; layer++) {
          const next = new Float64Array(units);
          for (let row = 0; row < units; row++) {
            let sum = 0;
            const from = (layer * units + row) * latent;
            for (let m = 0; m < latent; m++) sum += (x[i + m] - y[j + m]) * outer[from + m];
            const within = ((layer - 1) * units + row) * units;
            if (layer > 0) for (let m = 0; m < units; m++) sum += unit[m] * inner[within + m];
            next[row] = Math.max(sum, 0);
          }
          unit = next;
        }
        return unit.reduce((sum, value) => sum + value, 0) / units;
      };
    }
    default:
      throw new Error(`unknown head ${shape.kind}`);
  }
}

function toSphere(x) {
  let squares = 0;
  for (const value of x) squares += value * value;
  const scale = squares > 0 ? Math.sqrt(x.length / squares) : Math.sqrt(x.length);
  return x.map((value) => value * scale);
}

/** The least share of a value that stands for a goal out of reach: the epsilon of f32. */
const EPSILON = 2 ** -23;

/** A learned distance between states, in steps. */
export class Distance {
  constructor({ shape, distance, stored_actions, directions }) {
    this.shape = shape;
    this.directions = floatsOf(directions);
    this.rate = 1 / Math.log(1 / shape.discount);
    const actions = floatsOf(stored_actions);
    const size = shape.action_size;
    this.actions = [];
    for (let at = 0; at < actions.length; at += size) this.actions.push(actions.subarray(at, at + size));
    if (this.actions.length === 0) this.actions.push(new Float32Array(0));
    this.width = this.seen(new Float32Array(shape.state_size)).length;
    this.places = this.goalPlaces();
    this.build(new Numbers(floatsOf(distance)), shape.distance);
  }

  /** What networks see of a state. */
  seen(state) {
    const { shift, scale, features = { kind: "none" } } = this.shape.normalization;
    const scaled = Array.from(shift, (low, at) => (state[at] - low) * scale[at]);
    if (features.kind === "ramps") {
      const { from, to, count, width } = features;
      const centre = (at) => (count > 1 ? from + ((to - from) * at) / (count - 1) : from);
      return Float64Array.from({ length: state.length * count }, (_, at) =>
        Math.tanh((state[Math.floor(at / count)] - centre(at % count)) / width));
    }
    if (features.kind === "fourier") {
      const axes = features.axes;
      for (let at = 0; at < features.count; at++) {
        const phase = axes.reduce((sum, axis, m) => sum + state[axis] * this.directions[at * axes.length + m], 0);
        scaled.push(Math.cos(phase), Math.sin(phase));
      }
    }
    return Float64Array.from(scaled);
  }

  /** The positions, within what networks see of a state, that those with an input for the goal are shown. */
  goalPlaces() {
    const { policy_goal: axes = [], critic_goal, features = { kind: "none" } } = this.shape.normalization;
    const all = Array.from({ length: this.width }, (_, at) => at);
    if (critic_goal !== "policy" || axes.length === 0) return all;
    const size = this.shape.state_size;
    const listed = (axis) => axes.includes(axis);
    if (features.kind === "ramps") return all.filter((at) => listed(Math.floor(at / features.count)));
    return all.filter((at) => (at < size ? listed(at) : features.axes.every(listed)));
  }

  /** What networks with an input for the goal are shown of it. */
  shown(goal) {
    return this.places.length === this.width ? goal : Float64Array.from(this.places, (at) => goal[at]);
  }

  build(numbers, shape) {
    if (shape.form === "several") {
      const members = Array.from({ length: shape.members }, () => {
        this.build(numbers, shape.of);
        return this.copies;
      });
      this.copies = members.flat();
      return;
    }
    const [net, width, action] = [shape.network, this.width, this.shape.action_size];
    this.largest = shape.form === "paired";
    this.computed = shape.form === "valued";
    if (shape.form === "encoded") {
      const encode = numbers.network(net, width + (shape.with_action ? action : 0), shape.head.latent);
      const head = headOf(numbers, shape.head);
      this.copies = this.actions.map((stored) => ({
        from: (seen) => (shape.with_action ? encode(seen, stored) : encode(seen)),
        head,
        factor: 1 / shape.temperature,
      }));
    } else if (shape.form === "paired") {
      this.copies = Array.from({ length: shape.critics }, () => {
        if (shape.with_action) numbers.network(net, width + action, shape.head.latent);
        const from = numbers.network(net, width, shape.head.latent);
        const head = headOf(numbers, shape.head);
        return { from, head, factor: 1 / shape.scale };
      });
    } else if (shape.form === "stepped") {
      const { projector, dynamics } = shape;
      const latent = projector ? projector.latent : shape.head.latent;
      const encode = numbers.network(net, width, latent);
      const project = projector ? numbers.network(projector.network, latent, shape.head.latent) : (z) => z;
      const head = headOf(numbers, shape.head);
      if (dynamics) numbers.network(dynamics, latent + action, latent);
      this.copies = [{ from: (seen) => project(encode(seen)), head, factor: shape.nats }];
    } else if (shape.form === "scored") {
      this.scored(numbers, shape);
    } else {
      this.valued(numbers, shape);
    }
  }

  /** f(g, a, g) − f(s, a, g), f an inner product: a goal carries its own score behind its row. */
  scored(numbers, shape) {
    const { latent, temperature, with_action } = shape;
    const start = numbers.network(shape.network, this.width + (with_action ? this.shape.action_size : 0), latent);
    const goal = numbers.network(shape.network, this.places.length, latent);
    const score = (x, i, y, j) => {
      let sum = 0;
      for (let m = 0; m < latent; m++) sum += x[i + m] * y[j + m];
      return sum / temperature;
    };
    this.copies = this.actions.map((stored) => {
      const from = (seen) => (with_action ? start(seen, stored) : start(seen));
      const to = (seen) => {
        const row = goal(this.shown(seen));
        return Float64Array.from([...row, score(from(seen), 0, row, 0)]);
      };
      return { from, to, head: new Pairwise((x, i, y, j) => y[j + latent] - score(x, i, y, j)), factor: 1 };
    });
  }

  /** Networks over start and goal together: a row is what networks see of a state. */
  valued(numbers, shape) {
    const [net, width, action] = [shape.network, this.width, this.shape.action_size];
    const shown = this.places.length;
    const goal = shape.representation ?? shown;
    const represent = shape.representation ? numbers.network(net, width + shown, goal) : null;
    const several = (count, inputs) => Array.from({ length: count }, () => numbers.network(net, inputs, 1));
    const states = several(shape.state_values, width + goal);
    const actions = several(shape.action_values, width + action + goal);
    const value = (s, a, whole) => {
      const g = this.shown(whole);
      const seen = represent ? toSphere(represent(s, g)) : g;
      if (states.length) return states.reduce((sum, critic) => sum + critic(s, seen)[0], 0) / states.length;
      return Math.min(...actions.map((critic) => critic(s, a, seen)[0]));
    };
    const nats = (s, a, g) => {
      if (shape.reading === "logit") return value(g, a, g) - value(s, a, g);
      const rate = 1 - shape.reading.steps.discount;
      return -Math.log(Math.max(1 + rate * Math.min(value(s, a, g), 0), EPSILON));
    };
    const stored = states.length ? [new Float32Array(0)] : this.actions;
    this.copies = stored.map((a) => ({
      from: (seen) => seen,
      head: new Pairwise((x, i, y, j) => nats(x.subarray(i, i + width), a, y.subarray(j, j + width))),
      factor: 1,
    }));
  }

  /** A state as every copy of the distance sees it, as a start and as a goal. */
  embed(state) {
    const seen = this.seen(state);
    return this.copies.map((copy) => {
      const from = copy.from(seen);
      return { from, to: copy.to ? copy.to(seen) : from, fromWidth: 0, toWidth: 0 };
    });
  }

  /** The steps from one state to another. */
  steps(from, to) {
    return this.between(this.embed(from), this.embed(to));
  }

  /** The steps from one embedded state to another. */
  between(from, to) {
    const out = new Float64Array(1);
    this.fill(from, 1, to, true, out);
    return out[0];
  }

  /** Writes the steps of every cell: to the embedded place or, turned round, from it. */
  fill(cells, count, place, towards, out) {
    out.fill(this.largest ? -Infinity : 0);
    for (let at = 0; at < this.copies.length; at++) {
      const { head, factor } = this.copies[at];
      const share = (factor * this.rate) / (this.largest ? 1 : this.copies.length);
      const add = (cell, value) => (out[cell] += share * value);
      const raise = (cell, value) => (out[cell] = Math.max(out[cell], share * value));
      head.each(cells[at], count, place[at], towards, this.largest ? raise : add);
    }
  }
}

/** The cells of a map as rows of every copy of `distance`. */
export function embeddedCells(map, distance) {
  if (!distance.computed) {
    return map.copies.map((copy) => {
      const from = floatsOf(copy.from.numbers);
      const side = copy.to ?? copy.from;
      const to = copy.to ? floatsOf(copy.to.numbers) : from;
      return { from, to, fromWidth: copy.from.width, toWidth: side.width };
    });
  }
  const [size, width] = [distance.shape.state_size, distance.width];
  const rows = new Float64Array((map.states.length / size) * width);
  for (let row = 0; row * size < map.states.length; row++) {
    rows.set(distance.seen(map.states.subarray(row * size, (row + 1) * size)), row * width);
  }
  return distance.copies.map(() => ({ from: rows, to: rows, fromWidth: width, toWidth: width }));
}
