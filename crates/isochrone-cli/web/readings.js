// What the page says by itself: steps, T, the legend, the direction, what runs can do.

import { bands, css } from "./colour.js";
import { finite, quantile } from "./field.js";
import { isOffline } from "./source.js";
import { short } from "./charts.js";
import { axisName, element, page, paragraph, say, steps, titled, towards, view } from "./view.js";

export function tellSteps() {
  if (!view.goal) return;
  const words = page.maps.filter((map) => map.distance).flatMap((map) => {
    const title = map.canvas.parentElement.querySelector("h3");
    title.textContent = map.about.title;
    if (!view.start) return [];
    const [from, to] = [map.distance.embed(view.start), map.distance.embed(view.goal)];
    const [there, back] = [map.distance.between(from, to), map.distance.between(to, from)];
    // With two maps the controls may be out of sight.
    if (page.maps.length > 1) title.textContent += `: ${steps(there)} from start to goal`;
    return titled(map, paragraph(steps(there), "big"), paragraph(`from start to goal; ${steps(back)} back`, "quiet"));
  });
  const place = (name, state) => state && paragraph(`${name} ${coordinates(state)}${doubt(state)}`, "quiet");
  say("reading", ...words, place("★ goal", view.goal), place("● start", view.start));
}

function coordinates(state) {
  const [across, up] = view.axes;
  const shown = (page.maps[0].map.rows > 1 ? [across, up] : [across]).map((axis) => short(state[axis]));
  const rest = state.length - shown.length;
  return `(${shown.join(", ")})${rest ? ` and ${rest} more ${rest === 1 ? "value" : "values"}` : ""}`;
}

/** Says where a state is far from the data or outside of a map. */
function doubt(state) {
  const maps = page.maps.filter((map) => map.map);
  const found = maps.map((map) => {
    const { near, inside } = map.cellAt(map.map.axes.map((axis) => state[axis]));
    return near ? "" : inside ? "far from the data" : "outside of the map";
  });
  if (found.every((words) => words === found[0])) return found[0] ? `: ${found[0]}, a guess` : "";
  const told = found.map((words, at) => words && `${words} of ${maps[at].about.title}`);
  return `: ${told.filter(Boolean).join("; ")}, a guess there`;
}

export function tellLimit() {
  const most = page.levels.most;
  const slider = element("limit");
  if (document.activeElement !== slider || view.t === null) {
    slider.value = view.t === null ? 1000 : Math.round((1000 * Math.min(view.t, most)) / most);
  }
  const text = view.t === null ? "all" : `${short(view.t)} steps`;
  element("limit-value").textContent = text;
  slider.setAttribute("aria-valuetext", text);
}

export function tellLegend() {
  const { step, count } = page.levels;
  const told = `${step} ${count}`;
  if (element("legend").dataset.told === told) return;
  element("legend").dataset.told = told;
  const narrow = innerWidth < 600;
  const apart = Math.ceil(count / (narrow ? 5 : 12));
  // Where cells are narrow, "more" needs the room of the label before it.
  const labelled = (at) => at % apart === apart - 1 && !(narrow && apart > 1 && at + 2 === count);
  element("legend").replaceChildren("learned steps", ...bands(count).map((colour, at) => {
    const label = document.createElement("span");
    const swatch = document.createElement("i");
    swatch.style.background = css(colour);
    const value = at + 1 === count ? "more" : labelled(at) ? short((at + 1) * step) : "\u00a0";
    label.append(swatch, value);
    return label;
  }));
}

/** Why "to" and "from" look different, with numbers of the first run. */
export function tellDirection() {
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
    ? `The median is ${there.toFixed(0)} steps to get here and ${back.toFixed(0)} to get away, and place by place the two differ by ${(100 * apart).toFixed(0)} %: where motion was recorded mostly in one direction, the way against it is longer or unknown.`
    : `Here the direction hardly matters: the median is ${there.toFixed(0)} steps to get here and ${back.toFixed(0)} to get away.`;
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

/** Whether a run's policy can be run. */
export const runnable = (about) => about.policy && about.world && !about.unrunnable;

/** Shows what these runs can do, and says what they cannot. */
export function tellAbilities() {
  const open = page.maps.map((map) => map.about);
  const some = (ability) => open.some(ability);
  element("exact-choice").hidden = isOffline || !some((about) => about.exact);
  element("path-section").hidden = isOffline || !some((about) => about.distance);
  element("control").parentElement.hidden = !some((about) => about.distance);
  element("policy-section").hidden = isOffline || !some(runnable);
  element("check-section").hidden = element("steps-controls").hidden = !some((about) => about.distance);
  element("offline-note").hidden = !isOffline;
  element("copy").hidden = false;
  const [{ state_size: size }] = open;
  element("axes").hidden = isOffline || size < 3;
  for (const [at, name] of ["axis-x", "axis-y"].entries()) {
    const options = Array.from({ length: size }, (_, axis) => new Option(axisName(axis), axis));
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
    else if (!about.world) words.push(`The policy of ${about.title} cannot be run here: the world of its data is not known. If it is a built-in one, train with data.recorded_in=WORLD.`);
    else if (about.unrunnable) words.push(`The policy of ${about.title} cannot be run here: ${about.unrunnable}.`);
    words.push(...about.notes.map((note) => `${note[0].toUpperCase()}${note.slice(1)}.`));
  }
  element("filled").textContent = words.join(" ");
  element("subtitle").textContent = open.map((about) => about.title).join(" beside ");
  document.title = `Isochrone: ${open.map((about) => about.title).join(", ")}`;
}
