// The part of the address behind #: goal, start, axes, T and direction, so that a view can be shared.

const KEYS = ["goal", "start", "axes"];

/** What the address says; what it does not say, or says wrongly, is left out. */
export function readAddress(text = location.hash) {
  const said = new URLSearchParams(text.replace(/^#/, ""));
  const view = {};
  for (const key of KEYS) {
    const values = (said.get(key) ?? "").split(",").filter((part) => part !== "").map(Number);
    if (values.length && values.every(Number.isFinite)) view[key] = values;
  }
  const limit = Number(said.get("t"));
  if (said.has("t") && Number.isFinite(limit) && limit >= 0) view.t = limit;
  if (said.get("direction") === "from") view.direction = "from";
  if (said.get("path") === "greedy" || said.get("path") === "none") view.path = said.get("path");
  return view;
}

export function writtenAddress({ goal, start, axes, t, direction, path }) {
  const said = new URLSearchParams();
  const list = (values) => values.map((value) => Number(value.toPrecision(7))).join(",");
  if (goal) said.set("goal", list(goal));
  if (start) said.set("start", list(start));
  if (axes) said.set("axes", axes.join(","));
  if (t !== null && t !== undefined) said.set("t", Number(t.toPrecision(4)));
  if (direction === "from") said.set("direction", "from");
  if (path && path !== "graph") said.set("path", path);
  return `#${said.toString().replaceAll("%2C", ",")}`;
}
