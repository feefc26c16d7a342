// When maps are drawn, and with what.

import { finite, levelsOf } from "./field.js";
import { axisName, element, page, towards, view } from "./view.js";
import { tellLegend, tellLimit, tellSteps } from "./readings.js";

export function look() {
  return {
    levels: page.levels,
    limit: view.t ?? Infinity,
    place: view.goal,
    goal: view.goal,
    start: view.start,
    trajectories: element("show-data").checked,
    labels: element("show-labels").checked,
    exact: element("show-exact").checked && towards(),
    names: view.axes.map(axisName),
  };
}

let queued = false;

/** Draws before the next frame, once. */
export function redraw(measured = true) {
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
