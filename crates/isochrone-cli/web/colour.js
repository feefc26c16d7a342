// Colours: a scale that rises evenly in lightness, legible to colour-blind eyes (after cividis), and
// the inks of the two themes.

const STOPS = [
  [0, 34, 78], [18, 53, 112], [59, 73, 108], [87, 93, 109], [112, 113, 115],
  [138, 134, 120], [165, 156, 116], [195, 179, 105], [225, 204, 85], [253, 231, 55],
];

/** The colour at `share` of the scale, from dark to bright. */
export function scale(share) {
  const place = Math.max(0, Math.min(1, share)) * (STOPS.length - 1);
  const low = Math.min(STOPS.length - 2, Math.floor(place));
  return STOPS[low].map((value, at) => Math.round(value + (STOPS[low + 1][at] - value) * (place - low)));
}

/** Near is bright, far is dark: one colour for each band. */
export function bands(count) {
  return Array.from({ length: count }, (_, at) => scale(1 - (at + 0.5) / count));
}

export function css([red, green, blue], opacity = 1) {
  return `rgba(${red},${green},${blue},${opacity})`;
}

/** Colours as the pixels of an image, mixed with `paper` by `share`. */
export function pixels(colours, paper, share = 0) {
  return Uint32Array.from(colours, (colour) => {
    const [red, green, blue] = colour.map((value, at) => Math.round(value * (1 - share) + paper[at] * share));
    return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
  });
}

const INKS = {
  light: { paper: [255, 255, 255], far: "#e9ebee", hatch: "#d5d9de", ink: "#1d2430", soft: "#5b6675", line: "rgba(20,28,40,.55)", path: "#c2185b", data: "rgba(20,30,60,.20)", exact: "#b3261e", wall: "#7d8794", halo: "rgba(255,255,255,.85)" },
  dark: { paper: [18, 22, 29], far: "#232a34", hatch: "#2d3540", ink: "#eef1f5", soft: "#a6b1bf", line: "rgba(0,0,0,.55)", path: "#ff5f9e", data: "rgba(255,255,255,.20)", exact: "#ffb4a8", wall: "#56606d", halo: "rgba(10,13,18,.8)" },
};

export function inks() {
  return INKS[document.documentElement.dataset.theme === "dark" ? "dark" : "light"];
}
