// One map: the learned steps of a run over two state coordinates.

import { Distance, embeddedCells } from "./model.js";
import { chained, contours, errors, paint, smoothed, spread } from "./field.js";
import { bands, css, inks, pixels } from "./colour.js";
import { short, ticks } from "./charts.js";
import { arrow, disc, roomFor, star, stroke, trace, word } from "./shapes.js";

const EDGE = { left: 44, right: 10, top: 10, bottom: 32 };
const MOST_HEIGHT = 640;
/** What a page with two maps keeps of its height for what is above and below them. */
const KEPT = 300;
/** Pixels along the painted side at most; the canvas scales them up. */
const PAINTED = 640;
/** Exact steps that differ by more between neighbours have no contour between them. */
const JUMP = 10;

export class MapView {
  constructor(canvas, run) {
    this.canvas = canvas;
    this.run = run;
    this.ground = document.createElement("canvas");
    this.layer = document.createElement("canvas");
    this.bands = document.createElement("canvas");
    this.exact = null;
    this.path = null;
    this.walk = null;
    this.values = null;
  }

  /** Takes over a map and, where one was learned, the distance. */
  load(about, map, model, trajectories) {
    this.about = about;
    this.map = map;
    this.trajectories = trajectories;
    this.distance = about.distance ? new Distance(model) : null;
    this.cells = this.distance ? embeddedCells(map, this.distance) : null;
    this.values = new Float32Array(map.cells.length).fill(NaN);
    this.places = new Map(Array.from(map.cells, (cell, at) => [cell, at]));
    this.exact = this.path = this.walk = null;
    this.resize();
  }

  get size() {
    return this.about.state_size;
  }

  /** Fits the canvas to its column. */
  resize() {
    if (!this.map) return;
    const { horizontal, vertical } = this.map;
    const width = Math.max(240, Math.round(this.canvas.parentElement.clientWidth));
    const aspect = this.about.world ? (vertical[1] - vertical[0]) / (horizontal[1] - horizontal[0]) : this.map.rows > 1 ? 0.8 : 0.18;
    const inner = width - EDGE.left - EDGE.right;
    const two = this.canvas.closest("main").classList.contains("two");
    const most = two ? Math.max(320, Math.min(MOST_HEIGHT, innerHeight - KEPT)) : MOST_HEIGHT;
    const high = Math.max(60, Math.min(most, inner * aspect));
    const wide = this.about.world ? Math.min(inner, high / aspect) : inner;
    this.box = { x: EDGE.left + (inner - wide) / 2, y: EDGE.top, width: wide, height: high };
    this.width = width;
    this.height = high + EDGE.top + EDGE.bottom;
    const dots = window.devicePixelRatio || 1;
    for (const canvas of [this.canvas, this.ground, this.layer]) {
      canvas.width = Math.round(width * dots);
      canvas.height = Math.round(this.height * dots);
    }
    this.canvas.style.height = `${this.height}px`;
    const shrink = Math.min(1, PAINTED / Math.max(wide, high));
    this.bands.width = Math.max(2, Math.round(wide * shrink));
    this.bands.height = Math.max(2, Math.round(high * shrink));
    this.image = this.bands.getContext("2d").createImageData(this.bands.width, this.bands.height);
    this.drawLayers();
  }

  x(value) {
    const [low, high] = this.map.horizontal;
    return this.box.x + ((value - low) / (high - low)) * this.box.width;
  }

  y(value) {
    const [low, high] = this.map.vertical;
    return this.box.y + (1 - (value - low) / (high - low)) * this.box.height;
  }

  /** A state on the canvas. */
  spot(state) {
    const [across, up] = this.map.axes;
    return [this.x(state[across]), this.map.rows > 1 ? this.y(state[up]) : this.box.y + this.box.height / 2];
  }

  /** The values of both axes at a point of the canvas. */
  plane(x, y) {
    const { horizontal, vertical } = this.map;
    const share = (value, from, length) => Math.max(0, Math.min(1, (value - from) / length));
    return [
      horizontal[0] + share(x, this.box.x, this.box.width) * (horizontal[1] - horizontal[0]),
      vertical[0] + (1 - share(y, this.box.y, this.box.height)) * (vertical[1] - vertical[0]),
    ];
  }

  /** The cell of a point of the plane: its place among the known ones, whether it is one, and whether the map has the point. */
  cellAt([x, y]) {
    const { horizontal, vertical, columns, rows, cells } = this.map;
    const place = (value, [low, high], count) => Math.max(0, Math.min(count - 1, Math.floor(((value - low) / (high - low)) * count)));
    const [column, row] = [place(x, horizontal, columns), place(y, vertical, rows)];
    const known = this.places.get(row * columns + column);
    // States are rounded to 32 bits, and the ends with them.
    const within = (value, ends) => Math.fround(value) >= Math.fround(ends[0]) && Math.fround(value) <= Math.fround(ends[1]);
    const inside = within(x, horizontal) && within(y, vertical);
    if (known !== undefined) return { at: known, near: inside, inside };
    let [best, least] = [0, Infinity];
    for (let at = 0; at < cells.length; at++) {
      const gap = ((cells[at] % columns) - column) ** 2 + (Math.floor(cells[at] / columns) - row) ** 2;
      if (gap < least) [best, least] = [at, gap];
    }
    return { at: best, near: false, inside };
  }

  /** A whole state at a point of the plane; the other values are those of the nearest cell. */
  stateAt(point) {
    const { at } = this.cellAt(point);
    const state = Array.from(this.map.states.subarray(at * this.size, (at + 1) * this.size));
    const [across, up] = this.map.axes;
    state[across] = point[0];
    if (this.map.rows > 1) state[up] = point[1];
    return state.map(Math.fround);
  }

  /** Computes the steps of every cell to `place`, or from it. */
  measure(place, towards) {
    if (!this.distance) return;
    this.distance.fill(this.cells, this.map.cells.length, this.distance.embed(place), towards, this.values);
  }

  /** The steps of every cell the other way round. */
  reversed(place, towards) {
    const values = new Float32Array(this.values.length);
    this.distance.fill(this.cells, values.length, this.distance.embed(place), !towards, values);
    return values;
  }

  compareExact() {
    return this.exact ? errors(this.values, this.exact) : null;
  }

  /** What does not move with the goal: the ground below the bands, recorded trajectories above them. */
  drawLayers() {
    this.drawFar(this.cleared(this.ground));
    this.drawRecorded(this.cleared(this.layer));
  }

  /** The pen of an empty canvas, in the page's pixels. */
  cleared(canvas) {
    const pen = canvas.getContext("2d");
    const dots = window.devicePixelRatio || 1;
    pen.setTransform(dots, 0, 0, dots, 0, 0);
    pen.clearRect(0, 0, this.width, this.height);
    return pen;
  }

  drawRecorded(pen) {
    const ink = inks();
    this.clip(pen, () => {
      pen.strokeStyle = ink.data;
      pen.fillStyle = ink.data;
      pen.lineWidth = 0.8;
      let from = 0;
      for (const length of this.trajectories.lengths) {
        this.drawTrajectory(pen, from, length);
        from += length;
      }
    });
  }

  drawWalls(pen, ink) {
    const [across, up] = this.map.axes;
    if (across !== 0 || up !== 1) return;
    pen.fillStyle = ink.wall;
    for (const [x0, y0, x1, y1] of this.about.walls) {
      pen.fillRect(this.x(x0), this.y(y1), this.x(x1) - this.x(x0) + 0.5, this.y(y0) - this.y(y1) + 0.5);
    }
  }

  drawTrajectory(pen, from, length) {
    const { points } = this.trajectories;
    const spot = (at) => this.spot(this.lifted(points[2 * at], points[2 * at + 1]));
    pen.beginPath();
    for (let at = from; at < from + length; at++) {
      const [x, y] = spot(at);
      if (at === from) pen.moveTo(x, y);
      else pen.lineTo(x, y);
    }
    pen.stroke();
    if (length > 2) {
      const middle = from + Math.floor(length / 2);
      arrow(pen, spot(middle - 1), spot(middle), 4);
    }
  }

  /** A state with two values on the axes of the map. */
  lifted(across, up) {
    const state = [];
    state[this.map.axes[1]] = up;
    state[this.map.axes[0]] = across;
    return state;
  }

  clip(pen, draw) {
    pen.save();
    pen.beginPath();
    pen.rect(this.box.x, this.box.y, this.box.width, this.box.height);
    pen.clip();
    draw();
    pen.restore();
  }

  /** Draws everything; `look` has levels, limit, goal, start and what is shown. */
  draw(look) {
    if (!this.map) return;
    const pen = this.cleared(this.canvas);
    pen.drawImage(this.ground, 0, 0, this.width, this.height);
    if (this.distance && look.place) this.drawBands(pen, look);
    if (look.trajectories) pen.drawImage(this.layer, 0, 0, this.width, this.height);
    this.overlay(pen, look);
  }

  drawFar(pen) {
    const ink = inks();
    const { x, y, width, height } = this.box;
    // Without a distance there is nothing to guess.
    pen.fillStyle = this.distance ? ink.far : css(ink.paper);
    pen.fillRect(x, y, width, height);
    if (!this.distance) return;
    this.clip(pen, () => {
      pen.strokeStyle = ink.hatch;
      pen.lineWidth = 1;
      pen.beginPath();
      for (let at = -height; at < width; at += 9) {
        pen.moveTo(x + at, y + height);
        pen.lineTo(x + at + height, y);
      }
      pen.stroke();
    });
  }

  drawBands(pen, { levels, limit }) {
    const ink = inks();
    const colours = bands(levels.count);
    this.field = spread(this.map, this.values);
    const beyond = pixels(colours, ink.paper, 0.82);
    paint(this.map, this.field, this.image, { levels, limit, colours: pixels(colours, ink.paper), beyond });
    const paper = this.bands.getContext("2d");
    paper.putImageData(this.image, 0, 0);
    const { x, y, width, height } = this.box;
    pen.imageSmoothingEnabled = true;
    pen.drawImage(this.bands, x, y, width, height);
  }

  /** Lines of a field at each of `levels`, on the canvas: x, y, x, y one after the other. */
  lines(field, levels) {
    const { columns, rows } = this.map;
    const { x, y, width, height } = this.box;
    const found = contours(this.map, field, levels);
    for (const segments of found) {
      for (let at = 0; at < segments.length; at += 2) {
        segments[at] = x + ((segments[at] + 0.5) / columns) * width;
        segments[at + 1] = y + (1 - (segments[at + 1] + 0.5) / rows) * height;
      }
    }
    return found;
  }

  /** Everything that is made of lines and words; `pen` draws on a canvas or writes SVG. */
  overlay(pen, look) {
    const ink = inks();
    this.clip(pen, () => {
      this.drawWalls(pen, ink);
      const lines = this.distance && look.place ? this.drawContours(pen, look, ink) : [];
      if (this.exact && look.exact) this.drawExact(pen, look, ink);
      if (this.path && this.path.length > 1) this.drawPath(pen, ink);
      if (this.walk) this.drawWalk(pen, ink);
      if (look.labels) this.drawLabels(pen, lines, look, ink);
    });
    this.drawAxes(pen, ink, look.names);
    if (look.start) disc(pen, this.spot(look.start), ink);
    if (look.goal) star(pen, this.spot(look.goal), ink);
  }

  /** Draws the lines between bands and returns them. */
  drawContours(pen, { levels, limit }, ink) {
    const values = inner(levels);
    const lines = this.lines(this.field, limit < levels.most ? [...values, limit] : values);
    pen.strokeStyle = ink.line;
    pen.lineWidth = 0.8;
    stroke(pen, lines.slice(0, values.length));
    if (limit < levels.most) {
      pen.strokeStyle = ink.ink;
      pen.lineWidth = 2.4;
      stroke(pen, lines.slice(-1));
    }
    return lines.slice(0, values.length);
  }

  /** Labels lines in steps, away from the goal, the start and each other. */
  drawLabels(pen, lines, { levels, limit, goal, start }, ink) {
    const taken = [goal, start].filter(Boolean).map((state) => this.spot(state));
    for (const [at, segments] of lines.entries()) {
      const level = (at + 1) * levels.step;
      const place = level <= limit ? roomFor(segments, taken, this.box) : null;
      if (!place) continue;
      taken.push(place);
      word(pen, short(level), place, ink);
    }
  }

  drawExact(pen, { levels }, ink) {
    if (this.smooth?.of !== this.exact) {
      this.smooth = { of: this.exact, field: smoothed(this.map, spread(this.map, this.exact), JUMP) };
    }
    const lines = this.lines(this.smooth.field, inner(levels)).flatMap(chained);
    for (const [colour, width, dash] of [[ink.halo, 3.5, []], [ink.exact, 2, [6, 4]]]) {
      pen.strokeStyle = colour;
      pen.lineWidth = width;
      pen.setLineDash(dash);
      lines.forEach((line) => trace(pen, line));
    }
    pen.setLineDash([]);
  }

  drawPath(pen, ink) {
    const spots = this.path.map((state) => this.spot(state));
    for (const [colour, width] of [[ink.halo, 5], [ink.path, 2.4]]) {
      pen.strokeStyle = colour;
      pen.lineWidth = width;
      trace(pen, spots);
    }
    pen.fillStyle = ink.path;
    let way = 30;
    for (let at = 1; at < spots.length; at++) {
      way += Math.hypot(spots[at][0] - spots[at - 1][0], spots[at][1] - spots[at - 1][1]);
      if (way < 34) continue;
      arrow(pen, spots[at - 1], spots[at], 7);
      way = 0;
    }
  }

  drawWalk(pen, ink) {
    const spots = this.walk.states.slice(0, this.walk.shown + 1).map((state) => this.spot(state));
    for (const [colour, width] of [[ink.halo, 4.5], [ink.ink, 1.8]]) {
      pen.strokeStyle = colour;
      pen.lineWidth = width;
      trace(pen, spots);
    }
    const [x, y] = spots[spots.length - 1];
    for (const [colour, radius] of [[ink.halo, 8], [ink.ink, 6]]) {
      pen.fillStyle = colour;
      pen.beginPath();
      pen.arc(x, y, radius, 0, 7);
      pen.fill();
    }
  }

  drawAxes(pen, ink, names) {
    const { x, y, width, height } = this.box;
    pen.strokeStyle = ink.soft;
    pen.lineWidth = 1;
    stroke(pen, [[x, y, x, y + height, x, y + height, x + width, y + height]]);
    pen.fillStyle = ink.soft;
    pen.font = "11px system-ui, sans-serif";
    pen.textAlign = "center";
    for (const at of ticks(...this.map.horizontal, width / 70)) pen.fillText(short(at), this.x(at), y + height + 14);
    pen.fillText(names[0], x + width / 2, y + height + 28);
    if (this.map.rows === 1) return;
    pen.textAlign = "right";
    for (const at of ticks(...this.map.vertical, height / 50)) pen.fillText(short(at), x - 5, this.y(at) + 4);
    pen.save();
    pen.translate(x - 34, y + height / 2);
    pen.rotate(-Math.PI / 2);
    pen.textAlign = "center";
    pen.fillText(names[1], 0, 0);
    pen.restore();
  }
}

/** The levels between bands. */
function inner({ count, step }) {
  return Array.from({ length: count - 1 }, (_, at) => (at + 1) * step);
}
