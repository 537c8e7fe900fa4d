// Small helpers: building elements (text is always text, never markup), colours of the page, and shared selection.

function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "dataset") Object.assign(made.dataset, value);
    else if (name.startsWith("aria-") || name === "role" || name === "for") made.setAttribute(name, value);
    else made[name] = value;
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// Called with a new width when an element's size, and with the same when the colour scheme changes.
function redrawn(canvas, draw) {
  new ResizeObserver(draw).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
}

// The canvas' backing store in device pixels; returns its context in CSS pixels, cleared.
function prepared(canvas) {
  const ratio = devicePixelRatio || 1;
  const width = canvas.clientWidth, height = canvas.clientHeight;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

const selection = {
  task: -1,
  watchers: [],
  set(task) {
    this.task = task;
    for (const watcher of this.watchers) watcher(task);
  },
};

function table(headings, rows) {
  const numeric = headings.map((_, column) => rows.length > 0 && rows.every((row) => /^[-\d.,%\s]*$/.test(String(row[column].textContent ?? row[column]))));
  const cell = (tag, content, column) => element(tag, { className: numeric[column] ? "number" : "" }, content);
  return element("div", { className: "scroll" },
    element("table", {},
      element("thead", {}, element("tr", {}, headings.map((heading, column) => cell("th", heading, column)))),
      element("tbody", {}, rows.map((row) => element("tr", {}, row.map((content, column) => cell("td", content, column)))))));
}

function kernelColour(index, soft) {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const hue = 40 + ((index * 137.508 + 165) % 360) * (250 / 360);  // red is for what is wrong
  return dark ? `hsl(${hue} 45% ${soft ? 24 : 58}%)` : `hsl(${hue} 60% ${soft ? 88 : 45}%)`;
}
