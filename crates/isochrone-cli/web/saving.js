// Keeping a view: as a picture, as a drawing, as an address.

import { css, inks } from "./colour.js";
import { writtenAddress } from "./address.js";
import { SvgPen } from "./svg.js";
import { look } from "./drawing.js";
import { element, page, view } from "./view.js";

function download(name, blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  element("saved").textContent = `Saved ${name}.`;
}

export function savePng() {
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

export function saveSvg() {
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

export async function copyAddress() {
  history.replaceState(null, "", writtenAddress(view));
  try {
    await navigator.clipboard.writeText(location.href);
    element("saved").textContent = "Copied.";
  } catch {
    element("saved").textContent = location.href;
  }
}
