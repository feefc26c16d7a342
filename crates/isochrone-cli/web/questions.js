// What the page asks the server: paths, exact steps, episodes of the policy, checks.

import { drawCalibration } from "./charts.js";
import { ask } from "./source.js";
import { runnable } from "./readings.js";
import { redraw } from "./drawing.js";
import { complaint, element, page, paragraph, say, titled, towards, view } from "./view.js";

export async function plan() {
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
    const sum = `${path.steps.toFixed(1)} learned steps added up over its moves, each with its own error`;
    words.push(paragraph(`${path.direct.toFixed(1)} learned steps from start to goal; ${sum}`, "quiet"));
  } else {
    words.push(paragraph(`${ending.kind === "no-path" ? "No path" : "Ends short of the goal"}: ${ending.why}.`, "strong"));
  }
  return [...words, ...cautions.map((text) => paragraph(`Caution: ${text}.`, "quiet"))];
}

export async function askExact() {
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
  caption.textContent = `Dashed: exact, ${map.about.exact}. Median error ${found.apart.toFixed(1)} steps, ${(100 * found.relative).toFixed(0)} %${found.unreachable ? `; from ${found.unreachable} cells there is no way` : ""}.`;
}

export async function walk() {
  if (!ready("policy-words")) return;
  const words = await Promise.all(page.maps.filter((map) => runnable(map.about)).map(async (map) => {
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

export async function walkMany() {
  if (!ready("policy-words")) return;
  say("policy-words", "Running 100 episodes…");
  const words = await Promise.all(page.maps.filter((map) => runnable(map.about)).map(async (map) => {
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

export async function audit() {
  say("check-words", "Trying a million triples…");
  const words = await Promise.all(page.maps.filter((map) => map.distance).map(async (map) => {
    const found = await ask("audit", { run: map.run }).catch((error) => ({ words: [error.message] }));
    return titled(map, ...found.words);
  }));
  say("check-words", ...words.flat());
}

export async function calibrate() {
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
