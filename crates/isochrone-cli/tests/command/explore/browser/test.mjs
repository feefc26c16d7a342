// The explorer's page in a real browser. Arguments: the addresses of servers of one run, of two, of two of
// different data, of one that trains, of one with three values per state and of an ant; an exported page; a
// folder for pictures.

import assert from "node:assert/strict";
import fs from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const [one, two, apart, live, states, ant, exported, pictures] = process.argv.slice(2);
fs.mkdirSync(pictures, { recursive: true });
const axe = fs.readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });

/** Opens an address in a window; complaints of the page fail the test. */
async function open(address, { width = 1280, height = 860, colorScheme = "light" } = {}) {
  const page = await browser.newPage({ viewport: { width, height }, colorScheme, acceptDownloads: true });
  page.on("pageerror", (error) => assert.fail(`${address}: ${error.stack}`));
  page.on("console", (message) => assert.notEqual(message.type(), "error", message.text()));
  page.on("request", (request) => assert.ok(/^(http:\/\/127\.0\.0\.1:|file:|data:|blob:)/.test(request.url()), request.url()));
  await page.goto(address);
  await drawn(page);
  return page;
}

const drawn = (page) => page.waitForFunction(() => document.body.dataset.redraw !== undefined);
const text = (page, selector) => page.locator(selector).innerText();
const picture = (page, name, fullPage = false) => page.screenshot({ path: `${pictures}/${name}.png`, fullPage });

async function asked(host, path, body) {
  const response = await fetch(`http://${host}${path}`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  assert.equal(response.status, 200);
  return response.json();
}

/** Where a point of the plane is on the screen: the pinwheel's maps show 0 to 1 on both axes. */
async function spot(page, x, y) {
  const box = await page.locator("figure canvas").first().boundingBox();
  const high = box.height - 42;
  const wide = Math.min(box.width - 54, high);
  const left = 44 + (box.width - 54 - wide) / 2;
  return [box.x + left + x * wide, box.y + 10 + (1 - y) * high];
}

const view = (page) => page.evaluate(() => Object.fromEntries(new URLSearchParams(location.hash.slice(1))));
const values = (said) => said.split(",").map(Number);

/** Waits until the address says so. */
const says = (page, key, wanted) => page.waitForFunction(([name, value]) => {
  const said = new URLSearchParams(location.hash.slice(1)).get(name);
  return value === null ? said !== null : said === value;
}, [key, wanted]);

async function accessible(page, name) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => axe.run());
  const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  assert.deepEqual(serious.map(({ id, nodes }) => `${id}: ${nodes[0].html}`), [], name);
}

async function clicks() {
  const page = await open(`http://${one}/`);
  await page.mouse.click(...(await spot(page, 0.31, 0.69)));
  await page.mouse.click(...(await spot(page, 0.2, 0.1)));
  await says(page, "start", null);
  const { goal, start } = await view(page);
  assert.ok(Math.abs(values(goal)[0] - 0.31) < 0.01 && Math.abs(values(start)[0] - 0.2) < 0.01, `${goal} ${start}`);
  // The numbers on the screen are the model's.
  const [from, to] = [[values(start)], [values(goal)]];
  const { steps: [there] } = await asked(one, "/api/steps", { from, to });
  const { steps: [back] } = await asked(one, "/api/steps", { from: to, to: from });
  assert.equal(await text(page, "#reading .big"), `${there.toFixed(1)} steps`);
  assert.ok((await text(page, "#reading")).includes(`${back.toFixed(1)} steps back`));
  // The path, by both planners.
  const { path } = await asked(one, "/api/plan", { start: from[0], goal: to[0] });
  await page.waitForFunction((words) => document.getElementById("path-words").innerText.includes(words), `${path.recorded} recorded steps along ${path.states.length} states`);
  const learned = `${path.direct.toFixed(1)} learned steps from start to goal; ${path.steps.toFixed(1)} learned steps added up`;
  assert.ok((await text(page, "#path-words")).includes(learned));
  await page.click("#path-greedy");
  await page.waitForFunction(() => !document.getElementById("path-words").innerText.includes("recorded steps"));
  await page.click("#path-graph");
  await picture(page, "clicked");
  // A drag moves the goal.
  const [x, y] = await spot(page, 0.31, 0.69);
  await page.mouse.move(x, y);
  await page.mouse.down();
  const redraws = [];
  for (let at = 1; at <= 40; at++) {
    await page.mouse.move(x + at * 4, y - at / 4);
    redraws.push(await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(() => done(Number(document.body.dataset.redraw)))))));
  }
  await page.mouse.up();
  await page.waitForFunction((before) => new URLSearchParams(location.hash.slice(1)).get("goal") !== before, goal);
  console.log(`a redraw while dragging takes ${redraws.sort((a, b) => a - b)[20]} ms in the median`);
  // T, direction, keyboard.
  await page.locator("#limit").fill("300");
  await says(page, "t", null);
  assert.match(await text(page, "#sentence"), /% of the places near the data reach the goal within/);
  await page.click("#from");
  await says(page, "direction", "from");
  assert.match(await text(page, "#direction"), /what is reached within T/);
  await page.waitForFunction(() => /are reached from/.test(document.getElementById("sentence").innerText));
  await picture(page, "from");
  await page.locator("figure canvas").focus();
  await page.keyboard.press("f");
  await page.keyboard.press("g");
  const before = (await view(page)).goal;
  await page.keyboard.press("ArrowLeft");
  await page.waitForFunction((old) => new URLSearchParams(location.hash.slice(1)).get("goal") !== old, before);
  await page.keyboard.press("Escape");
  await page.waitForFunction(() => !new URLSearchParams(location.hash.slice(1)).has("start"));
  await accessible(page, "light");
  await page.close();
}

async function shared() {
  const page = await open(`http://${one}/#goal=0.31,0.69&start=0.2,0.1&t=30`, { colorScheme: "dark" });
  assert.ok((await text(page, "#reading")).includes("goal (0.31, 0.69)"));
  assert.match(await text(page, "#limit-value"), /30 steps/);
  await accessible(page, "dark");
  // The policy walks, and is counted.
  await page.click("#walk");
  await page.waitForFunction(() => /eached in \d+ steps/.test(document.getElementById("policy-words").innerText));
  await page.click("#walk-100");
  await page.waitForFunction(() => /of 100 episodes/.test(document.getElementById("policy-words").innerText));
  await page.check("#show-exact");
  await page.waitForFunction(() => /Median error/.test(document.querySelector("figcaption").innerText));
  await page.click("#audit");
  await page.waitForFunction(() => /triangle inequality holds on all/.test(document.getElementById("check-words").innerText));
  await page.click("#calibrate");
  await page.waitForSelector("#check-words canvas");
  await picture(page, "dark", true);
  for (const ending of ["png", "svg"]) {
    const saved = page.waitForEvent("download");
    await page.click(`#save-${ending}`);
    const file = `${pictures}/saved.${ending}`;
    await (await saved).saveAs(file);
    assert.ok(fs.statSync(file).size > 5000);
  }
  await page.close();
}

/** What an address does not say, or says wrongly, is as it is on a page opened without it. */
async function addresses() {
  const page = await open(`http://${one}/#axes=0,0`);
  await says(page, "axes", "0,1");
  await says(page, "goal", null);
  const first = await view(page);
  await page.evaluate(() => (location.hash = "goal=0.31,0.69&start=0.2,0.1&axes=1,0&t=30"));
  await page.waitForFunction(() => document.getElementById("reading").innerText.includes("goal (0.69, 0.31)"));
  assert.doesNotMatch(await text(page, "#reading"), /guess/);
  await page.evaluate(() => (location.hash = "path=none"));
  await says(page, "goal", first.goal);
  assert.deepEqual(await view(page), { ...first, path: "none" });
  // The map ends at 0 and 1.
  await page.evaluate(() => (location.hash = "goal=5,0.5&start=0.2,-0.1"));
  await page.waitForFunction(() => document.getElementById("reading").innerText.includes("start (0.2, -0.1): outside of the map, a guess"));
  assert.match(await text(page, "#reading"), /goal \(5, 0\.5\): outside of the map, a guess/);
  await page.close();
}

async function different() {
  const page = await open(`http://${apart}/#goal=0.31,0.69&start=4,3`);
  assert.match(await text(page, "#filled"), /The two runs learned from different data, `pinwheel` and `circle\.npz`/);
  const said = await text(page, "#reading");
  assert.match(said, /goal \(0\.31, 0\.69\): far from the data of .* on circle\.npz, a guess there/);
  assert.match(said, /start \(4, 3\): outside of the map of .* on pinwheel, a guess there/);
  await page.close();
}

/** The labels of the legend stand apart on the narrowest phones, however many bands there are. */
async function legend() {
  const page = await open(`http://${one}/#goal=0.31,0.69`, { width: 360, height: 740 });
  const legends = await page.evaluate(async () => {
    const [{ page: shown }, { tellLegend }] = await Promise.all([import("/view.js"), import("/readings.js")]);
    return Array.from({ length: 16 }, (_, at) => {
      shown.levels = { step: 25, count: at + 1 };
      tellLegend();
      return Array.from(document.querySelectorAll("#legend span"), (span) => {
        const range = document.createRange();
        range.selectNode(span.lastChild);
        const { left, right } = range.getBoundingClientRect();
        return { left, right, words: span.textContent.trim() };
      }).filter(({ words }) => words);
    });
  });
  for (const [at, labels] of legends.entries()) {
    assert.equal(labels.at(-1).words, "more");
    assert.ok(labels.at(-1).right < 350, `"more" of ${at + 1} bands ends at ${labels.at(-1).right}`);
    assert.ok(labels.length >= Math.min(3, at + 1), `${labels.length} labels of ${at + 1} bands`);
    labels.slice(1).forEach(({ left, words }, before) => assert.ok(left - labels[before].right > 2, `${labels[before].words} meets ${words} of ${at + 1} bands`));
  }
  await page.close();
}

async function beside() {
  const page = await open(`http://${two}/#goal=0.31,0.69&start=0.2,0.1`, { width: 1280, height: 800 });
  assert.equal(await page.locator("figure canvas").count(), 2);
  const [left, right] = await page.locator("#reading .big").allInnerTexts();
  assert.equal(left, right, "the same run twice");
  await picture(page, "two");
  await page.close();
}

async function phone() {
  for (const colorScheme of ["light", "dark"]) {
    const page = await open(`http://${one}/#goal=0.31,0.69&start=0.2,0.1`, { width: 390, height: 844, colorScheme });
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= 390, `${wide} pixels wide`);
    await picture(page, `phone-${colorScheme}`, true);
    await page.close();
  }
}

async function offline() {
  const page = await open(`file://${exported}#goal=0.31,0.69`);
  const { steps: [expected] } = await asked(one, "/api/steps", { from: [[0.2, 0.1]], to: [[0.31, 0.69]] });
  await page.mouse.click(...(await spot(page, 0.2, 0.1)));
  await page.waitForSelector("#reading .big");
  const shown = parseFloat(await text(page, "#reading .big"));
  assert.ok(Math.abs(shown - expected) < 0.1 * expected, `${shown} beside ${expected}`);
  assert.ok(await page.locator("#offline-note").isVisible());
  assert.ok(!(await page.locator("#policy-section").isVisible()));
  await page.click("#audit");
  await page.waitForFunction(() => /triangle inequality/.test(document.getElementById("check-words").innerText));
  await picture(page, "exported");
  await page.close();
}

async function training() {
  const page = await open(`http://${live}/`);
  const step = () => page.evaluate(() => Number(/update (\d+) of/.exec(document.getElementById("progress").innerText)?.[1] ?? 0));
  await page.waitForFunction(() => /update \d\d+ of/.test(document.getElementById("progress").innerText));
  const [before, reading] = [await step(), await page.evaluate(() => document.body.dataset.redraw)];
  await page.waitForFunction((old) => Number(/update (\d+) of/.exec(document.getElementById("progress").innerText)[1]) > old, before);
  await page.waitForFunction((old) => document.body.dataset.redraw !== old, reading);
  assert.ok(await page.locator("#curves").isVisible());
  await picture(page, "live");
  await page.close();
}

async function axes() {
  const page = await open(`http://${states}/`);
  assert.match(await text(page, "#filled"), /States have 3 values; those not shown are taken from the nearest recorded state/);
  assert.match(await text(page, "#filled"), /has no policy/);
  await page.selectOption("#axis-x", "1");
  await page.selectOption("#axis-y", "2");
  await says(page, "axes", "1,2");
  await page.mouse.click(...(await page.locator("figure canvas").boundingBox().then((box) => [box.x + box.width / 2, box.y + 60])));
  await page.waitForFunction(() => new URLSearchParams(location.hash.slice(1)).get("goal").split(",").length === 3);
  assert.ok(!(await page.locator("#policy-section").isVisible()));
  await picture(page, "axes");
  await page.close();
}

async function crawling() {
  const page = await open(`http://${ant}/#goal=2,3.8&start=3.8,2`);
  const said = await text(page, "#filled");
  assert.match(said, /States have 29 values; those not shown are taken from the nearest recorded state/);
  assert.match(said, /The policy of .* cannot be run here: no MuJoCo library/);
  assert.ok(!(await page.locator("#policy-section").isVisible()));
  assert.equal(await page.locator("#axis-x option:checked").innerText(), "x");
  await page.waitForFunction(() => /along \d+ states/.test(document.getElementById("path-words").innerText));
  const { goal } = await view(page);
  assert.equal(values(goal).length, 29);
  await picture(page, "ant");
  await page.close();
}

for (const part of [training, clicks, axes, crawling, shared, addresses, beside, different, phone, legend, offline]) await part();
await browser.close();
