// What is chosen, what is shown of it, and how the page says things.

import { readAddress } from "./address.js";

/** What is chosen. T is null where all is shown. */
export const view = { goal: null, start: null, axes: null, t: null, direction: "to", path: "graph", ...readAddress() };

/** What is on the page: runs, their maps, the levels of the bands, what a click places. */
export const page = { abouts: [], maps: [], levels: null, placing: "goal", curves: [], turn: 0 };

export const element = (name) => document.getElementById(name);
export const towards = () => view.direction === "to";
export const steps = (value) => (Number.isFinite(value) ? `${value.toFixed(1)} steps` : "no way known");

export function say(place, ...paragraphs) {
  const node = typeof place === "string" ? element(place) : place;
  node.replaceChildren(...paragraphs.filter(Boolean).map((text) => {
    if (text instanceof Node) return text;
    const paragraph = document.createElement("p");
    paragraph.textContent = text;
    return paragraph;
  }));
}

export function paragraph(text, kind) {
  const node = document.createElement("p");
  node.className = kind;
  node.textContent = text;
  return node;
}

export const complaint = (error) => paragraph(error.message, "error");

/** Words about the run of a map, under its title where there are two. */
export function titled(map, ...rest) {
  if (page.maps.length < 2) return rest;
  const title = document.createElement("h3");
  title.textContent = map.about.title;
  return [title, ...rest];
}

export function axisName(axis) {
  return page.maps[0].about.world && axis < 2 ? "xy"[axis] : `state[${axis}]`;
}
