// Drags a goal in the explorer's page and counts frames; benches/explore.py runs it. Argument: the page's
// address. Prints one line of JSON.

import { chromium } from "playwright-core";

const [address] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
const page = await browser.newPage({ viewport: { width: 1280, height: 860 } });
// The first picture is there with the frame after the first drawing.
await page.addInitScript(() => {
  document.addEventListener("DOMContentLoaded", () => {
    new MutationObserver((_, observer) => {
      observer.disconnect();
      requestAnimationFrame(() => (window.firstPicture = performance.now()));
    }).observe(document.body, { attributeFilter: ["data-redraw"] });
  });
});
await page.goto(address);
await page.waitForFunction(() => window.firstPicture !== undefined);
const first = await page.evaluate(() => window.firstPicture);
const cells = await page.evaluate(async () => {
  const { cells } = await (await fetch("/api/map?run=0")).json();
  return atob(cells).length / 4;
});
const box = await page.locator("figure canvas").first().boundingBox();
const [x, y] = [box.x + 0.4 * box.width, box.y + 0.4 * box.height];
await page.mouse.click(x, y);
await page.mouse.down();
/** Moves the held goal once a frame, for a number of milliseconds. */
const dragged = (time) => page.evaluate(([left, top, most]) => new Promise((done) => {
  const canvas = document.querySelector("figure canvas");
  const [gaps, redraws] = [[], []];
  const since = performance.now();
  let last = null;
  requestAnimationFrame(function move(now) {
    if (last !== null) gaps.push(now - last);
    last = now;
    if (gaps.length) redraws.push(Number(document.body.dataset.redraw));
    if (now - since > most) return done({ gaps, redraws });
    const turn = (now - since) / 500;
    const [clientX, clientY] = [left + 90 * Math.sin(turn), top + 60 * Math.cos(1.3 * turn)];
    canvas.dispatchEvent(new PointerEvent("pointermove", { clientX, clientY, bubbles: true }));
    requestAnimationFrame(move);
  });
}), [x, y, time]);
await dragged(1000);
const { gaps, redraws } = await dragged(5000);
await page.mouse.up();
const at = (values, share) => values.toSorted((one, other) => one - other)[Math.floor(share * values.length)];
console.log(JSON.stringify({
  cells,
  first_picture_ms: first,
  frames_per_second: (1000 * gaps.length) / gaps.reduce((sum, gap) => sum + gap, 0),
  slow_frame_ms: at(gaps, 0.95),
  redraw_ms: at(redraws, 0.5),
}));
await browser.close();
