// Error maps: one pixel a cell of the tensor, scaled up without smoothing; pointing at a cell names its elements.

function levelColour(level, dark) {
  if (level === 0) return dark ? [28, 36, 46] : [236, 240, 244];
  if (level < 64) {
    const part = level / 63;
    return dark ? [40 + 40 * part, 62 + 60 * part, 84 + 70 * part] : [206 - 70 * part, 222 - 60 * part, 236 - 40 * part];
  }
  if (level === 255) return dark ? [255, 120, 255] : [150, 0, 150];
  const part = (level - 64) / 190;
  return dark ? [255, 190 - 130 * part, 70 - 30 * part] : [240 - 60 * part, 150 - 140 * part, 20];
}

function drawMap(output, container) {
  const map = output.map;
  const levels = Uint8Array.from(atob(map.levels), (character) => character.charCodeAt(0));
  const canvas = element("canvas", { width: map.columns, height: map.rows, className: "map", tabIndex: 0 });
  canvas.style.setProperty("--shape", Math.min(4, Math.max(0.35, map.columns / map.rows)));
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `Error map of ${output.name}: ${output.mismatched} of ${output.numel} elements differ. Arrow keys read it cell by cell.`);
  const readout = element("div", { className: "readout", role: "status" });
  const paint = () => {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const context = canvas.getContext("2d"), image = context.createImageData(map.columns, map.rows);
    levels.forEach((level, cell) => image.data.set([...levelColour(level, dark), 255], cell * 4));
    context.putImageData(image, 0, 0);
  };
  paint();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);

  const index = (row, column) => {
    let flat = row * map.width + column;
    const coordinates = [];
    for (let axis = output.shape.length - 1; axis >= 0; axis--) {
      coordinates.unshift(flat % output.shape[axis]);
      flat = Math.floor(flat / output.shape[axis]);
    }
    return `[${coordinates.join(", ")}]`;
  };
  const sides = map.values.map((text) => new Float32Array(Uint8Array.from(atob(text), (character) => character.charCodeAt(0)).buffer));
  const values = (cell) => (sides.length && cell < sides[0].length ? ` ${shown(sides[0][cell], output)}, expected ${shown(sides[1][cell], output)},` : "");
  const tell = (row, column) => {
    const level = levels[row * map.columns + column];
    const last = index(Math.min((row + 1) * map.rowStep, map.height) - 1, Math.min((column + 1) * map.columnStep, map.width) - 1);
    const first = index(row * map.rowStep, column * map.columnStep);
    readout.textContent = `${first === last ? first : `${first} to ${last}`}:${values(row * map.columns + column)} ${inWords(level, output.exact)}`;
  };
  const cell = { row: 0, column: 0 }, chain = element("div", { className: "chain", role: "status" });
  const point = (event) => {
    cell.column = Math.min(map.columns - 1, Math.max(0, Math.floor((event.offsetX / canvas.clientWidth) * map.columns)));
    cell.row = Math.min(map.rows - 1, Math.max(0, Math.floor((event.offsetY / canvas.clientHeight) * map.rows)));
    tell(cell.row, cell.column);
  };
  canvas.addEventListener("pointermove", point);
  canvas.addEventListener("click", (event) => {
    point(event);
    explain(output, cell, levels, chain);
  });
  canvas.addEventListener("keydown", (event) => {
    if (event.key === "Enter") return explain(output, cell, levels, chain);
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!step) return;
    event.preventDefault();
    cell.row = (cell.row + step[0] + map.rows) % map.rows;
    cell.column = (cell.column + step[1] + map.columns) % map.columns;
    tell(cell.row, cell.column);
  });
  const legend = output.exact ? [[0, "equal"], [254, "different"]] : [[0, "equal"], [40, "within tolerance"], [64, "just outside"], [160, "1000 times outside"], [254, "a million times"], [255, "NaN or infinite"]];
  const keys = element("div", { className: "legend" });
  const paintLegend = () => {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    keys.replaceChildren(...legend.map(([level, words]) => element("span", {}, swatch(`rgb(${levelColour(level, dark).map(Math.round).join(" ")})`), words)));
  };
  paintLegend();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paintLegend);
  const each = map.rowStep * map.columnStep;
  container.append(canvas, readout, chain, element("p", { className: "muted" },
    `${map.height} x ${map.width} elements, ${each === 1 ? "one a cell" : `${map.rowStep} x ${map.columnStep} a cell, the worst one shown`}`), keys);
}

// What a click on a cell shows: the chain that made its element, as `scons why` found it, and how to ask for another.
function explain(output, cell, levels, target) {
  const map = output.map, top = cell.row * map.rowStep, left = cell.column * map.columnStep;
  const place = (index) => {
    const flat = index.reduce((sum, at, axis) => sum * output.shape[axis] + at, 0);
    return [Math.floor(flat / map.width), flat % map.width];
  };
  const away = (one) => {
    const [row, column] = place(one.index);
    return Math.max(0, top - row, row - top - map.rowStep + 1) + Math.max(0, left - column, column - left - map.columnStep + 1);
  };
  const nearest = [...output.chains].sort((a, b) => away(a) - away(b))[0];
  let flat = top * map.width + left;
  const index = [];
  for (let axis = output.shape.length - 1; axis >= 0; axis--) {
    index.unshift(flat % output.shape[axis]);
    flat = Math.floor(flat / output.shape[axis]);
  }
  const body = [];
  if (nearest) {
    const here = away(nearest) === 0;
    body.push(element("p", { className: "muted" }, here ? `How [${nearest.index.join(", ")}] was made:` : `Of this cell no chain was asked for. How the nearest, [${nearest.index.join(", ")}], was made:`));
    const lines = element("pre", {});
    for (const line of nearest.lines) lines.append(element("span", { className: line.includes("<-- parts") ? "bad" : "" }, `${line}\n`));
    body.push(lines);
  }
  if (data.why && (!nearest || away(nearest) !== 0))
    body.push(element("p", { className: "muted" }, levels[cell.row * map.columns + cell.column] < 64 ? "Its elements are right. What made one of them: " : "What made it: ", element("code", {}, `${data.why} OUT=${output.name} AT=${index.join(",")}`)));
  target.replaceChildren(...body);
}

function inWords(level, exact) {
  if (level === 0) return "equal";
  if (exact) return "different";
  if (level < 64) return `within tolerance (${Math.round((level / 63) * 100)}% of it)`;
  if (level === 255) return "not a number or not finite on one side";
  return `wrong by about ${Number((10 ** (((level - 64) / 190) * 6)).toPrecision(2))} times the tolerance`;
}
