// Where answers come from: the server, or the data inside an exported page.

import { floatsOf, wholesOf } from "./model.js";

const enclosed = document.getElementById("offline");
const offline = enclosed ? JSON.parse(enclosed.textContent) : null;

async function answered(response) {
  const said = await response.json().catch(() => ({ error: `no answer (${response.status})` }));
  if (!response.ok) throw new Error(said.error ?? `refused (${response.status})`);
  return said;
}

function readMap(map) {
  const [cells, states] = [map.cells, map.states];
  return { ...map, cells: typeof cells === "string" ? wholesOf(cells) : cells, states: typeof states === "string" ? floatsOf(states) : states };
}

/** Whether there is no server. */
export const isOffline = offline !== null;

export async function runs() {
  if (offline) return offline.runs.map((run) => run.about);
  return (await answered(await fetch("/api/runs"))).runs;
}

async function got(name, run, axes) {
  if (offline) return offline.runs[run][name];
  const plane = axes ? `&x=${axes[0]}&y=${axes[1]}` : "";
  return answered(await fetch(`/api/${name}?run=${run}${plane}`));
}

export async function mapOf(run, axes) {
  return readMap(await got("map", run, axes));
}

export function modelOf(run) {
  return got("model", run);
}

export async function trajectoriesOf(run, axes) {
  const found = await got("trajectories", run, axes);
  return { ...found, points: floatsOf(found.points) };
}

export function curvesOf(run) {
  return got("curves", run);
}

/** Asks the server; an exported page knows audit and calibration. */
export async function ask(name, question) {
  if (offline) {
    const known = offline.runs[question.run][name];
    if (known) return known;
    throw new Error("this needs the server of `isochrone explore`");
  }
  const headers = { "Content-Type": "application/json" };
  return answered(await fetch(`/api/${name}`, { method: "POST", headers, body: JSON.stringify(question) }));
}
