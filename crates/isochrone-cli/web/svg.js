// A pen that writes SVG: as much of a canvas's interface as maps use.

const NAMESPACE = "http://www.w3.org/2000/svg";

const number = (value) => Number(value.toFixed(2));
const escaped = (text) => String(text).replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);

export class SvgPen {
  constructor(width, height, paper) {
    this.parts = [`<svg xmlns="${NAMESPACE}" width="${number(width)}" height="${number(height)}" viewBox="0 0 ${number(width)} ${number(height)}">`, `<rect width="100%" height="100%" fill="${paper}"/>`];
    this.way = "";
    this.dash = [];
    this.depth = [0];
    this.clips = 0;
  }

  text() {
    return `${this.parts.join("\n")}\n</svg>\n`;
  }

  image(link, x, y, width, height) {
    this.parts.push(`<image href="${link}" x="${number(x)}" y="${number(y)}" width="${number(width)}" height="${number(height)}" preserveAspectRatio="none"/>`);
  }

  open(attribute) {
    this.parts.push(`<g ${attribute}>`);
    this.depth[this.depth.length - 1]++;
  }

  save() {
    this.depth.push(0);
  }

  restore() {
    for (let open = this.depth.pop(); open > 0; open--) this.parts.push("</g>");
  }

  translate(x, y) {
    this.open(`transform="translate(${number(x)} ${number(y)})"`);
  }

  rotate(angle) {
    this.open(`transform="rotate(${number((angle * 180) / Math.PI)})"`);
  }

  rect(x, y, width, height) {
    this.way += `M${number(x)} ${number(y)}h${number(width)}v${number(height)}h${number(-width)}z`;
  }

  clip() {
    const name = `clip${this.clips++}`;
    this.parts.push(`<clipPath id="${name}"><path d="${this.way}"/></clipPath>`);
    this.open(`clip-path="url(#${name})"`);
  }

  beginPath() {
    this.way = "";
  }

  moveTo(x, y) {
    this.way += `M${number(x)} ${number(y)}`;
  }

  lineTo(x, y) {
    this.way += `L${number(x)} ${number(y)}`;
  }

  closePath() {
    this.way += "Z";
  }

  /** Whole circles only. */
  arc(x, y, radius) {
    const r = number(radius);
    this.way += `M${number(x - radius)} ${number(y)}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`;
  }

  setLineDash(dash) {
    this.dash = dash;
  }

  stroke() {
    const dash = this.dash.length ? ` stroke-dasharray="${this.dash.join(" ")}"` : "";
    if (this.way) this.parts.push(`<path d="${this.way}" fill="none" stroke="${this.strokeStyle}" stroke-width="${this.lineWidth}" stroke-linejoin="round"${dash}/>`);
  }

  fill() {
    if (this.way) this.parts.push(`<path d="${this.way}" fill="${this.fillStyle}"/>`);
  }

  fillRect(x, y, width, height) {
    this.parts.push(`<rect x="${number(x)}" y="${number(y)}" width="${number(width)}" height="${number(height)}" fill="${this.fillStyle}"/>`);
  }

  written(text, x, y, paint) {
    const anchor = { center: "middle", right: "end" }[this.textAlign] ?? "start";
    const [, weight = "", size] = /^(?:(\d+) )?(\d+)px/.exec(this.font);
    this.parts.push(`<text x="${number(x)}" y="${number(y)}" font-family="system-ui, sans-serif" font-size="${size}"${weight ? ` font-weight="${weight}"` : ""} text-anchor="${anchor}" ${paint}>${escaped(text)}</text>`);
  }

  fillText(text, x, y) {
    this.written(text, x, y, `fill="${this.fillStyle}"`);
  }

  strokeText(text, x, y) {
    this.written(text, x, y, `fill="none" stroke="${this.strokeStyle}" stroke-width="${this.lineWidth}"`);
  }
}
