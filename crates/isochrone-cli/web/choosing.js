// Choosing by pointer and keyboard: goal, start, direction, planner, T.

import { isOffline } from "./source.js";
import { writtenAddress } from "./address.js";
import { redraw } from "./drawing.js";
import { tellDirection, tellLimit } from "./readings.js";
import { askExact, plan, walk } from "./questions.js";
import { element, page, steps, towards, view } from "./view.js";

/** What takes its time is said when nothing has moved for a moment. */
export function settled() {
  clearTimeout(page.later);
  page.later = setTimeout(() => {
    history.replaceState(null, "", writtenAddress(view));
    tellDirection();
    if (isOffline) return;
    plan();
    askExact();
  }, 160);
}

export function place(name, state) {
  view[name] = state;
  page.maps.forEach((map) => {
    map.walk = null;
    if (name === "goal") map.exact = null;
  });
  redraw(name === "goal");
  settled();
}

export function choosePlacing(name) {
  page.placing = name;
  for (const other of ["goal", "start"]) element(`place-${other}`).setAttribute("aria-pressed", String(other === name));
}

export function listen(map) {
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

export function turnRound(direction) {
  view.direction = direction;
  for (const one of ["to", "from"]) element(one).setAttribute("aria-pressed", String(one === direction));
  redraw();
  settled();
}

export function choosePath(planner) {
  view.path = planner;
  for (const one of ["graph", "greedy", "none"]) element(`path-${one}`).setAttribute("aria-pressed", String(one === planner));
  settled();
}

export function setLimit(limit) {
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
