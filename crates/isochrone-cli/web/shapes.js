// Shapes on a map, by a pen that draws on a canvas or writes SVG.

import { css } from "./colour.js";

/** Segments, each list x, y, x, y one after the other, in one stroke. */
export function stroke(pen, lines) {
  pen.beginPath();
  for (const segments of lines) {
    for (let at = 0; at < segments.length; at += 4) {
      pen.moveTo(segments[at], segments[at + 1]);
      pen.lineTo(segments[at + 2], segments[at + 3]);
    }
  }
  pen.stroke();
}

export function trace(pen, spots) {
  pen.lineJoin = "round";
  pen.beginPath();
  spots.forEach(([x, y], at) => (at ? pen.lineTo(x, y) : pen.moveTo(x, y)));
  pen.stroke();
}

export function arrow(pen, [x0, y0], [x1, y1], size) {
  const angle = Math.atan2(y1 - y0, x1 - x0);
  if (Math.hypot(x1 - x0, y1 - y0) < 1e-3) return;
  pen.beginPath();
  pen.moveTo(x1, y1);
  for (const turn of [2.6, -2.6]) pen.lineTo(x1 + size * Math.cos(angle + turn), y1 + size * Math.sin(angle + turn));
  pen.closePath();
  pen.fill();
}

/** A place on a line for its label, far from other labels and from the edge; none where it is short. */
export function roomFor(segments, taken, box) {
  if (segments.length < 40) return null;
  let [best, most] = [null, 34];
  for (let at = 0; at < segments.length; at += 16) {
    const [x, y] = [segments[at], segments[at + 1]];
    if (x < box.x + 20 || x > box.x + box.width - 20 || y < box.y + 10 || y > box.y + box.height - 10) continue;
    const room = Math.min(200, ...taken.map((place) => Math.hypot(place[0] - x, place[1] - y)));
    if (room > most) [best, most] = [[x, y], room];
  }
  return best;
}

export function word(pen, text, [x, y], ink) {
  pen.font = "600 11px system-ui, sans-serif";
  pen.textAlign = "center";
  pen.lineWidth = 3.5;
  pen.strokeStyle = ink.halo;
  pen.strokeText(text, x, y + 4);
  pen.fillStyle = ink.ink;
  pen.fillText(text, x, y + 4);
}

export function star(pen, [x, y], ink) {
  pen.beginPath();
  for (let at = 0; at < 10; at++) {
    const [angle, radius] = [(Math.PI * at) / 5 - Math.PI / 2, at % 2 ? 4.6 : 11];
    const [px, py] = [x + radius * Math.cos(angle), y + radius * Math.sin(angle)];
    if (at) pen.lineTo(px, py);
    else pen.moveTo(px, py);
  }
  pen.closePath();
  pen.lineWidth = 3;
  pen.strokeStyle = css(ink.paper);
  pen.stroke();
  pen.fillStyle = ink.path;
  pen.fill();
}

export function disc(pen, [x, y], ink) {
  for (const [colour, radius] of [[css(ink.paper), 9], [ink.path, 7], [css(ink.paper), 3]]) {
    pen.fillStyle = colour;
    pen.beginPath();
    pen.arc(x, y, radius, 0, 7);
    pen.fill();
  }
}
