// Small charts on a canvas: curves of training, learned against true steps.

import { inks, scale, css } from "./colour.js";
import { rounded, quantile } from "./field.js";

/** About `count` round numbers between two ends. */
export function ticks(low, high, count) {
  const step = rounded((high - low || 1) / count);
  const found = [];
  for (let at = Math.ceil(low / step); at * step <= high + 1e-9 * step; at++) found.push(at * step);
  return found;
}

export function short(value) {
  const size = Math.abs(value);
  if (size >= 1e6) return `${+(value / 1e6).toPrecision(3)}M`;
  if (size >= 1e4) return `${+(value / 1e3).toPrecision(3)}k`;
  return `${+value.toPrecision(3)}`;
}

/** Prepares a canvas of `height` and draws the frame of a chart; returns how values are placed. */
function frame(canvas, height, [x0, x1], [y0, y1], [across, up]) {
  const width = Math.max(220, canvas.clientWidth || 320);
  const dots = window.devicePixelRatio || 1;
  canvas.width = width * dots;
  canvas.height = height * dots;
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d");
  pen.scale(dots, dots);
  const ink = inks();
  const [left, right, top, bottom] = [46, width - 18, 8, height - 34];
  const x = (value) => left + ((value - x0) / (x1 - x0 || 1)) * (right - left);
  const y = (value) => bottom - ((value - y0) / (y1 - y0 || 1)) * (bottom - top);
  pen.clearRect(0, 0, width, height);
  pen.font = "11px system-ui, sans-serif";
  pen.strokeStyle = ink.hatch;
  pen.fillStyle = ink.soft;
  pen.lineWidth = 1;
  for (const at of ticks(x0, x1, 4)) {
    pen.textAlign = "center";
    pen.fillText(short(at), x(at), bottom + 13);
  }
  for (const at of ticks(y0, y1, 4)) {
    pen.beginPath();
    pen.moveTo(left, y(at));
    pen.lineTo(right, y(at));
    pen.stroke();
    pen.textAlign = "right";
    pen.fillText(short(at), left - 5, y(at) + 4);
  }
  pen.textAlign = "center";
  pen.fillText(across, (left + right) / 2, height - 5);
  pen.save();
  pen.translate(10, (top + bottom) / 2);
  pen.rotate(-Math.PI / 2);
  pen.fillText(up, 0, 0);
  pen.restore();
  return { pen, x, y, ink };
}

/** One column of a table over its steps, one line for each run. */
export function drawCurves(canvas, lines, name) {
  const points = lines.flatMap((line) => line.points);
  if (!points.length) return false;
  const xs = points.map(([x]) => x);
  const ys = points.map(([, y]) => y);
  const [low, high] = [quantile(ys, 0.01), quantile(ys, 0.99)];
  const room = (high - low || Math.abs(high) || 1) * 0.08;
  const { pen, x, y, ink } = frame(canvas, 170, [Math.min(0, ...xs), Math.max(...xs)], [low - room, high + room], ["updates", name]);
  lines.forEach((line, at) => {
    pen.strokeStyle = at ? ink.path : css(scale(ink.paper[0] > 100 ? 0.1 : 0.9));
    pen.lineWidth = 1.8;
    pen.setLineDash(at ? [5, 3] : []);
    pen.beginPath();
    line.points.forEach(([step, value], place) => (place ? pen.lineTo(x(step), y(value)) : pen.moveTo(x(step), y(value))));
    pen.stroke();
    if (line.points.length > 2) return;
    pen.fillStyle = pen.strokeStyle;
    for (const [step, value] of line.points) pen.fillRect(x(step) - 2, y(value) - 2, 5, 5);
  });
  return true;
}

/** Learned over true steps, with the line on which both are equal. */
export function drawCalibration(canvas, points, across) {
  const most = Math.max(1, quantile(points.flat(), 0.99));
  const { pen, x, y, ink } = frame(canvas, 260, [0, most], [0, most], [across, "learned steps"]);
  pen.save();
  pen.beginPath();
  pen.rect(x(0), y(most), x(most) - x(0), y(0) - y(most));
  pen.clip();
  pen.fillStyle = css(scale(ink.paper[0] > 100 ? 0.15 : 0.85), 0.45);
  for (const [is, learned] of points) {
    pen.beginPath();
    pen.arc(x(is), y(learned), 2, 0, 7);
    pen.fill();
  }
  pen.strokeStyle = ink.path;
  pen.setLineDash([6, 4]);
  pen.lineWidth = 1.5;
  pen.beginPath();
  pen.moveTo(x(0), y(0));
  pen.lineTo(x(most), y(most));
  pen.stroke();
  pen.restore();
}
