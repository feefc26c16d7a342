// The page: loads runs, follows those that train, and connects its controls.

import { curvesOf, isOffline, mapOf, modelOf, runs, trajectoriesOf } from "./source.js";
import { readAddress } from "./address.js";
import { drawCalibration, drawCurves } from "./charts.js";
import { MapView } from "./map.js";
import { element, page, paragraph, say, view } from "./view.js";
import { tellAbilities } from "./readings.js";
import { redraw } from "./drawing.js";
import { askExact, audit, calibrate, walk, walkMany } from "./questions.js";
import { copyAddress, savePng, saveSvg } from "./saving.js";
import { choosePath, choosePlacing, listen, place, setLimit, settled, turnRound } from "./choosing.js";

const POLLED = 2000;

// Training.

async function tellTraining() {
  page.curves = await Promise.all(page.abouts.map((about) => curvesOf(about.run).catch(() => null)));
  const progress = page.abouts.flatMap((about) => {
    const share = document.createElement("progress");
    share.max = about.steps;
    share.value = about.step;
    share.setAttribute("aria-label", `Updates of ${about.title}`);
    const state = about.complete ? "complete" : about.waiting ? "nothing to show yet" : "not complete: the map is of its newest checkpoint";
    return [paragraph(`${about.title}: update ${about.step} of ${about.steps}, ${state}`, "quiet"), about.complete ? null : share];
  });
  say("progress", ...progress);
  const names = new Set(page.curves.flatMap((found) => ["metrics", "evaluation"].flatMap((table) =>
    (found?.[table]?.columns ?? []).slice(1).map((name) => `${table}: ${name}`))));
  const select = element("curve");
  if ([...select.options].map((option) => option.value).join() !== [...names].join()) {
    select.replaceChildren(...[...names].map((name) => new Option(name.replace(/^metrics: /, ""), name)));
  }
  select.parentElement.hidden = !names.size;
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

const waiting = () => page.abouts.filter((about) => about.waiting).map((about) => `${about.title}: ${about.waiting}. Its map appears here as soon as the run can be opened.`).join(" ");

// Loading.

/** Two runs of one title are told apart by their folders. */
function distinct(abouts) {
  const same = abouts.length > 1 && abouts[0].title === abouts[1].title;
  return abouts.map((about) => ({ ...about, title: same ? `${about.title}, ${about.folder.split(/[\\/]/).pop()}` : about.title }));
}

async function loadMaps() {
  const open = page.abouts.filter((about) => !about.waiting);
  document.querySelector("main").classList.toggle("empty", !open.length);
  if (!open.length) return;
  const size = open[0].state_size;
  if (!fitting(view.axes, size)) view.axes = open[0].axes;
  if (isOffline) view.axes = open[0].axes;
  const maps = open.map((about) => page.maps.find((one) => one.run === about.run) ?? addMap(about));
  await Promise.all(open.map(async (about, at) => {
    const parts = [mapOf(about.run, view.axes), modelOf(about.run), trajectoriesOf(about.run, view.axes)];
    maps[at].load(about, ...(await Promise.all(parts)));
  }));
  for (const name of ["goal", "start"]) {
    const state = view[name];
    if (state && state.length !== size) view[name] = state.length >= 2 ? page.maps[0].stateAt(state) : null;
  }
  view.goal ??= firstGoal();
  tellAbilities();
  redraw();
  settled();
}

/** Whether these are two coordinates of states with `size` values, and different ones where there are two. */
function fitting(axes, size) {
  if (axes?.length !== 2 || (size > 1 && axes[0] === axes[1])) return false;
  return axes.every((axis) => Number.isInteger(axis) && axis >= 0 && axis < size);
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

// Themes and controls.

function useTheme(theme) {
  document.documentElement.dataset.theme = theme;
  page.maps.forEach((map) => map.map && map.drawLayers());
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
    const axes = page.maps[0]?.about.axes ?? null;
    Object.assign(view, { goal: null, start: null, axes, t: null, direction: "to", path: "graph" }, readAddress());
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
    document.querySelector("main").classList.toggle("two", page.abouts.length > 1);
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
