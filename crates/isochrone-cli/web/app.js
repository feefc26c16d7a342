// The page: what is chosen, what is asked, what is said.

import { css, bands, inks } from "./colour.js";
import { finite, levelsOf, quantile } from "./field.js";
import { ask, curvesOf, isOffline, mapOf, modelOf, runs, trajectoriesOf } from "./source.js";
import { readAddress, writtenAddress } from "./address.js";
import { drawCalibration, drawCurves, short } from "./charts.js";
import { SvgPen } from "./svg.js";
import { MapView } from "./map.js";

const POLLED = 2000;
const element = (name) => document.getElementById(name);

/** What is chosen. T is null where all is shown. */
const view = { goal: null, start: null, axes: null, t: null, direction: "to", path: "graph", ...readAddress() };
const page = { abouts: [], maps: [], levels: null, placing: "goal", curves: [], turn: 0 };

const steps = (value) => (Number.isFinite(value) ? `${value.toFixed(1)} steps` : "no way known");
const towards = () => view.direction === "to";

// Text.

function say(place, ...paragraphs) {
  const node = typeof place === "string" ? element(place) : place;
  node.replaceChildren(...paragraphs.filter(Boolean).map((text) => {
    if (text instanceof Node) return text;
    const paragraph = document.createElement("p");
    paragraph.textContent = text;
    return paragraph;
  }));
}

function paragraph(text, kind) {
  const node = document.createElement("p");
  node.className = kind;
  node.textContent = text;
  return node;
}

const complaint = (error) => paragraph(error.message, "error");

function titled(map, ...rest) {
  if (page.maps.length < 2) return rest;
  const title = document.createElement("h3");
  title.textContent = map.about.title;
  return [title, ...rest];
}

function axisNames() {
  const name = (axis) => (page.abouts[0].world && axis < 2 ? "xy"[axis] : `state[${axis}]`);
  return view.axes.map(name);
}

// Drawing.

function look() {
  return {
    levels: page.levels,
    limit: view.t ?? Infinity,
    place: view.goal,
    goal: view.goal,
    start: view.start,
    trajectories: element("show-data").checked,
    labels: element("show-labels").checked,
    exact: element("show-exact").checked && towards(),
    names: axisNames(),
  };
}

let queued = false;

/** Draws before the next frame, once. */
function redraw(measured = true) {
  page.stale ||= measured;
  if (queued) return;
  queued = true;
  requestAnimationFrame(() => {
    queued = false;
    drawNow();
  });
}

function drawNow() {
  const since = performance.now();
  const known = page.maps.filter((map) => map.distance);
  if (view.goal && page.stale && known.length) {
    known.forEach((map) => map.measure(view.goal, towards()));
    page.levels = levelsOf(finite(...known.map((map) => map.values)), page.levels);
    tellLimit();
    tellLegend();
  }
  page.stale = false;
  page.maps.forEach((map) => map.draw(look()));
  tellSteps();
  document.body.dataset.redraw = (performance.now() - since).toFixed(1);
}

/** What takes its time is said when nothing has moved for a moment. */
function settled() {
  clearTimeout(page.later);
  page.later = setTimeout(() => {
    history.replaceState(null, "", writtenAddress(view));
    tellDirection();
    if (isOffline) return;
    plan();
    askExact();
  }, 160);
}

// What the page says by itself.

function tellSteps() {
  if (!view.goal) return;
  const words = page.maps.filter((map) => map.distance).flatMap((map) => {
    if (!view.start) return [];
    const there = map.distance.steps(view.start, view.goal);
    const back = map.distance.steps(view.goal, view.start);
    return titled(map, paragraph(steps(there), "big"), paragraph(`from start to goal; ${steps(back)} back`, "quiet"));
  });
  const place = (name, state) => state && paragraph(`${name} ${coordinates(state)}${isFar(state) ? ": far from the data, a guess" : ""}`, "quiet");
  say("reading", ...words, place("★ goal", view.goal), place("● start", view.start));
}

function coordinates(state) {
  const [across, up] = view.axes;
  const shown = (page.maps[0].map.rows > 1 ? [across, up] : [across]).map((axis) => short(state[axis]));
  const rest = state.length - shown.length;
  return `(${shown.join(", ")})${rest ? ` and ${rest} more ${rest === 1 ? "value" : "values"}` : ""}`;
}

function isFar(state) {
  const map = page.maps[0];
  return !map.cellAt(view.axes.map((axis) => state[axis])).near;
}

function tellLimit() {
  const most = page.levels.most;
  const slider = element("limit");
  if (document.activeElement !== slider || view.t === null) {
    slider.value = view.t === null ? 1000 : Math.round((1000 * Math.min(view.t, most)) / most);
  }
  const text = view.t === null ? "all" : `${short(view.t)} steps`;
  element("limit-value").textContent = text;
  slider.setAttribute("aria-valuetext", text);
}

function tellLegend() {
  const { step, count } = page.levels;
  const apart = Math.ceil(count / (innerWidth < 600 ? 5 : 12));
  element("legend").replaceChildren("learned steps", ...bands(count).map((colour, at) => {
    const label = document.createElement("span");
    const swatch = document.createElement("i");
    swatch.style.background = css(colour);
    const value = at + 1 === count ? "more" : at % apart === apart - 1 ? short((at + 1) * step) : "\u00a0";
    label.append(swatch, value);
    return label;
  }));
}

/** Why "to" and "from" look different, with numbers of the first run. */
function tellDirection() {
  const map = page.maps.find((one) => one.distance);
  if (!map || !view.goal) return;
  const other = map.reversed(view.goal, towards());
  const [to, from] = towards() ? [map.values, other] : [other, map.values];
  const [there, back] = [quantile(finite(to), 0.5), quantile(finite(from), 0.5)];
  const apart = quantile(Array.from(to, (value, at) => Math.abs(value - from[at]) / Math.max(value, from[at], 1e-9)), 0.5);
  const meaning = towards()
    ? "Shown: from where the goal is reached within T."
    : "Shown: what is reached within T from the goal's place.";
  const why = apart > 0.1
    ? `In the median it takes ${there.toFixed(0)} steps to get here and ${back.toFixed(0)} to get away: motion was recorded in one direction more than in the other, and a way against it is longer or missing.`
    : `Here it hardly matters: ${there.toFixed(0)} steps to get here and ${back.toFixed(0)} to get away, in the median.`;
  say("direction", `${meaning} ${why}`);
  const within = view.t === null ? "" : inside(map);
  element("sentence").textContent = within;
}

function inside(map) {
  const known = finite(map.values);
  const share = known.filter((value) => value <= view.t).length / known.length;
  const what = towards() ? "reach the goal" : "are reached from the goal's place";
  return `${(100 * share).toFixed(0)} % of the places near the data ${what} within ${short(view.t)} learned steps.`;
}

// What the server says.

async function plan() {
  const turn = ++page.turn;
  if (!view.goal || !view.start || view.path === "none") {
    page.maps.forEach((map) => (map.path = null));
    say("path-words", paragraph(view.start ? "" : "Place a start to see a path.", "quiet"));
    return redraw(false);
  }
  const answers = await Promise.all(page.maps.map(async (map) => {
    if (!map.distance) return titled(map, paragraph("no distance, so no path", "quiet"));
    const question = { run: map.run, start: view.start, goal: view.goal, planner: view.path };
    try {
      const found = await ask("plan", question);
      if (turn !== page.turn) return [];
      map.path = found.path.states;
      return titled(map, ...pathWords(found));
    } catch (error) {
      map.path = null;
      return titled(map, complaint(error));
    }
  }));
  if (turn !== page.turn) return;
  say("path-words", ...answers.flat());
  redraw(false);
}

function pathWords({ path, cautions }) {
  const ending = path.ending;
  const words = [];
  if (ending.kind === "arrived") {
    const along = `along ${path.states.length} states`;
    const recorded = path.recorded === null ? `A path ${along}` : `${path.recorded} recorded steps ${along}`;
    words.push(paragraph(recorded, "strong"));
    const sum = `${path.steps.toFixed(1)} learned steps added up move by move, with the error of every move`;
    words.push(paragraph(`${path.direct.toFixed(1)} learned steps from start to goal; ${sum}`, "quiet"));
  } else {
    words.push(paragraph(`${ending.kind === "no-path" ? "No path" : "Ends short of the goal"}: ${ending.why}.`, "strong"));
  }
  return [...words, ...cautions.map((text) => paragraph(`Caution: ${text}.`, "quiet"))];
}

async function askExact() {
  for (const map of page.maps) {
    if (!map.about.exact || !element("show-exact").checked || !view.goal || !towards()) {
      map.exact = null;
      tellCaption(map);
      continue;
    }
    const goal = view.goal;
    try {
      const { steps: exact } = await ask("exact", { run: map.run, goal, axes: map.map.axes });
      if (goal !== view.goal) return;
      map.exact = Float32Array.from(exact, (value) => value ?? Infinity);
      tellCaption(map);
    } catch (error) {
      say("direction", complaint(error));
    }
  }
  redraw(false);
}

function tellCaption(map, caption = map.canvas.parentElement.querySelector("figcaption")) {
  const found = map.compareExact();
  if (!found) {
    caption.textContent = "";
    return;
  }
  caption.textContent = `Dashed: exact, ${map.about.exact}. Median error ${found.apart.toFixed(1)} steps, ${(100 * found.relative).toFixed(0)} %${found.unreachable ? `; ${found.unreachable} cells have no way` : ""}.`;
}

async function walk() {
  if (!ready("policy-words")) return;
  const words = await Promise.all(page.maps.filter((map) => map.about.policy).map(async (map) => {
    const seed = Math.floor(Math.random() * 1e9);
    const question = { run: map.run, start: view.start, goal: view.goal, control: element("control").value, seed };
    try {
      const found = await ask("rollout", question);
      animate(map, found.path);
      return titled(map, found.reached ? `Reached in ${found.steps} steps.` : `Not reached in ${found.steps} steps.`);
    } catch (error) {
      return titled(map, complaint(error));
    }
  }));
  say("policy-words", ...words.flat());
}

async function walkMany() {
  if (!ready("policy-words")) return;
  say("policy-words", "Running 100 episodes…");
  const words = await Promise.all(page.maps.filter((map) => map.about.policy).map(async (map) => {
    const question = { run: map.run, start: view.start, goal: view.goal, control: element("control").value, episodes: 100 };
    try {
      const { reached, mean_steps: mean } = await ask("rollout", question);
      return titled(map, `${reached} of 100 episodes reach the goal${reached ? `, in ${mean.toFixed(1)} steps on average` : ""}.`);
    } catch (error) {
      return titled(map, complaint(error));
    }
  }));
  say("policy-words", ...words.flat());
}

function ready(place) {
  if (view.goal && view.start) return true;
  say(place, "Place a goal and a start first.");
  return false;
}

/** Shows the states of an episode one after the other, all within some seconds. */
function animate(map, states) {
  const walked = { states, shown: 0 };
  map.walk = walked;
  const pace = Math.max(24, states.length / 6);
  const since = performance.now();
  const step = () => {
    if (map.walk !== walked) return;
    walked.shown = Math.min(states.length - 1, Math.floor(((performance.now() - since) / 1000) * pace));
    redraw(false);
    if (walked.shown < states.length - 1) requestAnimationFrame(step);
  };
  step();
}

async function audit() {
  say("check-words", "Trying a million triples…");
  const words = await Promise.all(page.maps.filter((map) => map.distance).map(async (map) => {
    const found = await ask("audit", { run: map.run }).catch((error) => ({ words: [error.message] }));
    return titled(map, ...found.words);
  }));
  say("check-words", ...words.flat());
}

async function calibrate() {
  say("check-words", "Comparing…");
  const parts = [];
  const charts = [];
  for (const map of page.maps.filter((one) => one.distance)) {
    try {
      const found = await ask("calibration", { run: map.run });
      const shown = found.exact ?? found.elapsed;
      if (!shown) {
        parts.push(...titled(map, "Nothing to compare with."));
        continue;
      }
      const canvas = document.createElement("canvas");
      const across = found.exact ? "exact steps" : "elapsed steps";
      canvas.setAttribute("role", "img");
      canvas.setAttribute("aria-label", `Learned over ${across}. ${shown.words[0]}`);
      charts.push([canvas, shown.points, across]);
      parts.push(...titled(map, canvas, ...shown.words.map((text) => paragraph(text, "quiet"))));
    } catch (error) {
      parts.push(...titled(map, complaint(error)));
    }
  }
  say("check-words", ...parts);
  page.charts = charts;
  charts.forEach((chart) => drawCalibration(...chart));
}

// Training.

async function tellTraining() {
  page.curves = await Promise.all(page.abouts.map((about) => curvesOf(about.run).catch(() => null)));
  const progress = page.abouts.flatMap((about) => {
    const share = document.createElement("progress");
    share.max = about.steps;
    share.value = about.step;
    share.setAttribute("aria-label", `Updates of ${about.title}`);
    const state = about.complete ? "complete" : about.waiting ?? "not complete: the map is of its newest checkpoint";
    return [paragraph(`${about.title}: update ${about.step} of ${about.steps}, ${state}`, "quiet"), about.complete ? null : share];
  });
  say("progress", ...progress);
  const names = new Set(page.curves.flatMap((found) => ["metrics", "evaluation"].flatMap((table) =>
    (found?.[table]?.columns ?? []).slice(1).map((name) => `${table}: ${name}`))));
  const select = element("curve");
  if ([...select.options].map((option) => option.value).join() !== [...names].join()) {
    select.replaceChildren(...[...names].map((name) => new Option(name.replace(/^metrics: /, ""), name)));
  }
  drawCurve();
}

function drawCurve() {
  const [table, name] = element("curve").value.split(": ");
  element("curves").hidden = !name;
  if (!name) return;
  const lines = page.curves.map((found) => {
    const at = found?.[table]?.columns.indexOf(name) ?? -1;
    const points = at < 0 ? [] : found[table].rows.map((row) => [row[0], row[at]]);
    return { points: points.filter(([, value]) => Number.isFinite(value)) };
  });
  element("curves").hidden = false;
  element("curves").hidden = !drawCurves(element("curves"), lines, name.split("/").pop());
}

/** Follows runs that train: new checkpoints become new maps, without a reload. */
async function poll() {
  try {
    const found = distinct(await runs());
    const changed = found.some((about, at) => about.version !== page.abouts[at].version);
    page.abouts = found;
    if (changed) await loadMaps();
    await tellTraining();
    element("notice").textContent = waiting();
  } catch (error) {
    element("notice").textContent = `The server does not answer: ${error.message}`;
  }
  follow();
}

function follow() {
  if (isOffline || page.abouts.every((about) => about.complete)) return;
  setTimeout(poll, POLLED);
}

const waiting = () => page.abouts.filter((about) => about.waiting).map((about) => `${about.title}: ${about.waiting}.`).join(" ");

// Loading.

/** Two runs of one title are told apart by their folders. */
function distinct(abouts) {
  const same = abouts.length > 1 && abouts[0].title === abouts[1].title;
  return abouts.map((about) => ({ ...about, title: same ? `${about.title}, ${about.folder.split(/[\\/]/).pop()}` : about.title }));
}

async function loadMaps() {
  const open = page.abouts.filter((about) => !about.waiting);
  if (!open.length) return;
  const size = open[0].state_size;
  if (!view.axes || view.axes.length !== 2 || view.axes.some((axis) => !(axis >= 0 && axis < size))) view.axes = open[0].axes;
  if (isOffline) view.axes = open[0].axes;
  const maps = open.map((about) => page.maps.find((one) => one.run === about.run) ?? addMap(about));
  for (const [at, about] of open.entries()) {
    const map = maps[at];
    const [plane, model, trajectories] = await Promise.all([
      mapOf(about.run, view.axes), modelOf(about.run), trajectoriesOf(about.run, view.axes)]);
    map.load(about, plane, model, trajectories);
  }
  for (const name of ["goal", "start"]) {
    const state = view[name];
    if (state && state.length !== size) view[name] = state.length >= 2 ? page.maps[0].stateAt(state) : null;
  }
  view.goal ??= firstGoal();
  tellAbilities();
  redraw();
  settled();
}

/** Where the longest recorded trajectory ends. */
function firstGoal() {
  const { trajectories: { lengths, points } } = page.maps[0];
  const longest = lengths.indexOf(Math.max(...lengths));
  const last = lengths.slice(0, longest + 1).reduce((sum, length) => sum + length, 0) - 1;
  return page.maps[0].stateAt([points[2 * last], points[2 * last + 1]]);
}

function addMap(about) {
  const figure = document.createElement("figure");
  const title = document.createElement("h3");
  const canvas = document.createElement("canvas");
  const caption = document.createElement("figcaption");
  title.id = `run-${about.run}`;
  title.textContent = about.title;
  canvas.tabIndex = 0;
  canvas.setAttribute("role", "application");
  canvas.setAttribute("aria-roledescription", "map");
  canvas.setAttribute("aria-labelledby", title.id);
  canvas.setAttribute("aria-describedby", "keys");
  figure.append(title, canvas, caption);
  element("figures").append(figure);
  const map = new MapView(canvas, about.run);
  page.maps.push(map);
  page.maps.sort((one, other) => one.run - other.run);
  page.maps.forEach((one) => element("figures").append(one.canvas.parentElement));
  listen(map);
  return map;
}

/** Shows what these runs can do, and says what they cannot. */
function tellAbilities() {
  const open = page.maps.map((map) => map.about);
  const some = (ability) => open.some(ability);
  element("exact-choice").hidden = isOffline || !some((about) => about.exact);
  element("path-section").hidden = isOffline || !some((about) => about.distance);
  element("policy-section").hidden = isOffline || !some((about) => about.policy && about.world);
  element("check-section").hidden = element("steps-controls").hidden = !some((about) => about.distance);
  element("offline-note").hidden = !isOffline;
  element("copy").hidden = false;
  const [{ state_size: size }] = open;
  element("axes").hidden = isOffline || size < 3;
  for (const [at, name] of ["axis-x", "axis-y"].entries()) {
    const options = Array.from({ length: size }, (_, axis) => new Option(open[0].world && axis < 2 ? "xy"[axis] : `state[${axis}]`, axis));
    element(name).replaceChildren(...options);
    element(name).value = view.axes[at];
  }
  const words = [];
  if (size > 2) words.push(`States have ${size} values; those not shown are taken from the nearest recorded state.`);
  if (size === 1) words.push("States have one value.");
  if (some((about) => about.distance)) words.push("Hatched: far from the data, where answers would be guesses.");
  for (const about of open) {
    if (!about.distance) words.push(`${about.title} learned a policy and no distance, so there are no isochrones.`);
    else if (!about.quasimetric) words.push(`The numbers of ${about.title} need not obey the triangle inequality.`);
    if (!about.policy) words.push(`${about.title} has no policy.`);
    else if (!about.world) words.push(`The data of ${about.title} are no world to run the policy in.`);
    words.push(...about.notes);
  }
  element("filled").textContent = words.join(" ");
  element("subtitle").textContent = open.map((about) => about.title).join(" beside ");
  document.title = `Isochrone: ${open.map((about) => about.title).join(", ")}`;
}

// Choosing.

function place(name, state) {
  view[name] = state;
  page.maps.forEach((map) => {
    map.walk = null;
    if (name === "goal") map.exact = null;
  });
  redraw(name === "goal");
  settled();
}

function choosePlacing(name) {
  page.placing = name;
  for (const other of ["goal", "start"]) element(`place-${other}`).setAttribute("aria-pressed", String(other === name));
}

function listen(map) {
  const { canvas } = map;
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  let held = null;
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || !map.map) return;
    const [x, y] = at(event);
    const near = (name) => view[name] && Math.hypot(...map.spot(view[name]).map((value, axis) => value - [x, y][axis])) < 16;
    held = near("start") ? "start" : near("goal") ? "goal" : null;
    if (!held) {
      held = page.placing;
      place(held, map.stateAt(map.plane(x, y)));
      // The first click sets the goal, the second the start.
      choosePlacing(held === "goal" ? "start" : "goal");
    }
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = at(event);
    if (held) place(held, map.stateAt(map.plane(x, y)));
    else hover(map, x, y);
  });
  for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => (held = null));
  canvas.addEventListener("keydown", (event) => pressed(event, map));
}

function hover(map, x, y) {
  if (!map.distance || !view.goal) return;
  const { at, near } = map.cellAt(map.plane(x, y));
  map.canvas.title = near ? `${steps(map.values[at])} ${towards() ? "to the goal" : "from the goal's place"}` : "far from the data";
}

function pressed(event, map) {
  const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
  const letters = {
    g: () => choosePlacing("goal"),
    s: () => choosePlacing("start"),
    f: () => turnRound(towards() ? "from" : "to"),
    p: () => choosePath({ graph: "greedy", greedy: "none", none: "graph" }[view.path]),
    "[": () => changeLimit(-1),
    "]": () => changeLimit(1),
    " ": () => element("policy-section").hidden || walk(),
    Escape: () => place("start", null),
  };
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (moves[event.key]) {
    const { horizontal, vertical, columns, rows } = map.map;
    const [across, up] = moves[event.key].map((value) => value * (event.shiftKey ? 5 : 1));
    const [x, y] = map.map.axes.map((axis) => (view[page.placing] ?? view.goal)[axis]);
    place(page.placing, map.stateAt([x + (across * (horizontal[1] - horizontal[0])) / columns, y + (up * (vertical[1] - vertical[0])) / rows]));
  } else if (letters[event.key]) letters[event.key]();
  else return;
  event.preventDefault();
}

function turnRound(direction) {
  view.direction = direction;
  for (const one of ["to", "from"]) element(one).setAttribute("aria-pressed", String(one === direction));
  redraw();
  settled();
}

function choosePath(planner) {
  view.path = planner;
  for (const one of ["graph", "greedy", "none"]) element(`path-${one}`).setAttribute("aria-pressed", String(one === planner));
  settled();
}

function setLimit(limit) {
  view.t = limit;
  if (page.levels) tellLimit();
  redraw(false);
  settled();
}

function changeLimit(direction) {
  if (!page.levels) return;
  const next = (view.t ?? page.levels.most) + (direction * page.levels.step) / 4;
  setLimit(next >= page.levels.most ? null : Math.max(0, next));
}

async function changeAxes() {
  const axes = [Number(element("axis-x").value), Number(element("axis-y").value)];
  if (axes[0] === axes[1]) {
    say("saved", "Choose two different axes.");
    return;
  }
  say("saved");
  view.axes = axes;
  await loadMaps();
}

// Saving.

function download(name, blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  element("saved").textContent = `Saved ${name}.`;
}

function savePng() {
  const gap = 16;
  const canvases = page.maps.map((map) => map.canvas);
  const sheet = document.createElement("canvas");
  sheet.width = canvases.reduce((sum, canvas) => sum + canvas.width + gap, gap);
  sheet.height = Math.max(...canvases.map((canvas) => canvas.height)) + 2 * gap;
  const pen = sheet.getContext("2d");
  pen.fillStyle = css(inks().paper);
  pen.fillRect(0, 0, sheet.width, sheet.height);
  let x = gap;
  for (const canvas of canvases) {
    pen.drawImage(canvas, x, gap);
    x += canvas.width + gap;
  }
  sheet.toBlob((blob) => download("isochrones.png", blob));
}

function saveSvg() {
  const width = page.maps.reduce((sum, map) => sum + map.width, 0);
  const pen = new SvgPen(width, Math.max(...page.maps.map((map) => map.height)), css(inks().paper));
  let x = 0;
  for (const map of page.maps) {
    pen.save();
    pen.translate(x, 0);
    map.drawFar(pen);
    const { box } = map;
    if (map.distance && view.goal) pen.image(map.bands.toDataURL(), box.x, box.y, box.width, box.height);
    if (look().trajectories) map.drawRecorded(pen);
    map.overlay(pen, look());
    pen.restore();
    x += map.width;
  }
  download("isochrones.svg", new Blob([pen.text()], { type: "image/svg+xml" }));
}

async function copyAddress() {
  history.replaceState(null, "", writtenAddress(view));
  try {
    await navigator.clipboard.writeText(location.href);
    element("saved").textContent = "Copied.";
  } catch {
    element("saved").textContent = location.href;
  }
}

// Themes.

function useTheme(theme) {
  document.documentElement.dataset.theme = theme;
  page.maps.forEach((map) => map.map && map.drawLayer());
  redraw(false);
  drawCurve();
  page.charts?.forEach((chart) => drawCalibration(...chart));
}

function connect() {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", () => useTheme(dark.matches ? "dark" : "light"));
  document.documentElement.dataset.theme = dark.matches ? "dark" : "light";
  const on = (name, event, action) => element(name).addEventListener(event, action);
  on("theme", "click", () => useTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
  on("place-goal", "click", () => choosePlacing("goal"));
  on("place-start", "click", () => choosePlacing("start"));
  on("clear-start", "click", () => place("start", null));
  on("to", "click", () => turnRound("to"));
  on("from", "click", () => turnRound("from"));
  for (const planner of ["graph", "greedy", "none"]) on(`path-${planner}`, "click", () => choosePath(planner));
  on("limit", "input", () => {
    const share = Number(element("limit").value) / 1000;
    setLimit(share >= 1 || !page.levels ? null : share * page.levels.most);
  });
  for (const box of ["show-data", "show-labels"]) on(box, "change", () => redraw(false));
  on("show-exact", "change", askExact);
  for (const axis of ["axis-x", "axis-y"]) on(axis, "change", changeAxes);
  on("walk", "click", walk);
  on("walk-100", "click", walkMany);
  on("audit", "click", audit);
  on("calibrate", "click", calibrate);
  on("curve", "change", drawCurve);
  on("save-png", "click", savePng);
  on("save-svg", "click", saveSvg);
  on("copy", "click", copyAddress);
  let width = innerWidth;
  window.addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    page.maps.forEach((map) => map.resize());
    redraw(false);
    drawCurve();
  });
  window.addEventListener("hashchange", () => {
    Object.assign(view, { t: null, direction: "to", path: "graph" }, readAddress());
    loadMaps().then(restore);
  });
}

function restore() {
  turnRound(view.direction);
  choosePath(view.path);
}

async function begin() {
  connect();
  try {
    page.abouts = distinct(await runs());
    await loadMaps();
    restore();
    if (view.goal && readAddress().goal && !view.start) choosePlacing("start");
    element("notice").textContent = waiting();
    await tellTraining();
  } catch (error) {
    element("notice").textContent = error.message;
  }
  follow();
}

begin();
