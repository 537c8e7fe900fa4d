// The task graph: boxes placed by the report, drawn on a canvas so that thousands of tasks stay quick.

const CELL = { x: 150, y: 84, width: 122, height: 44 };

// A graph of so many tasks is not shown smaller than its labels can be read.
const MOST_LEGIBLE = 60;

// Edges that are drawn when the whole graph is in view.
const MOST_EDGES = 20000;

function drawGraph(data, container) {
  const { tasks, edges, kernels } = data;
  const canvas = element("canvas", { id: "graph-canvas" });
  canvas.setAttribute("aria-label",
    `Task graph of ${tasks.length} tasks. Arrow keys go to predecessor, successor and neighbours, plus and minus zoom, 0 shows all, shift with arrows pans.`);
  canvas.setAttribute("role", "application");
  const box = (task) => ({ left: task.x * CELL.x - CELL.width / 2, top: task.y * CELL.y - CELL.height / 2 });
  const readout = element("div", { className: "readout" });
  const found = new Set();

  const xs = tasks.map((task) => task.x), ys = tasks.map((task) => task.y);
  const limit = (values, pick) => values.reduce((a, b) => pick(a, b), values[0] ?? 0);
  const extent = {
    left: limit(xs, Math.min) * CELL.x - CELL.width, right: limit(xs, Math.max) * CELL.x + CELL.width,
    top: limit(ys, Math.min) * CELL.y - CELL.height, bottom: limit(ys, Math.max) * CELL.y + CELL.height,
  };

  function near(task) {
    return new Set([...data.preds[task], ...data.succs[task]]);
  }

  function drawEdges(context, view, seen) {
    const chosen = selection.task;
    const line = (edge, style, width) => {
      const from = tasks[edge[0]], to = tasks[edge[1]];
      const x1 = from.x * CELL.x, y1 = from.y * CELL.y + CELL.height / 2, x2 = to.x * CELL.x, y2 = to.y * CELL.y - CELL.height / 2;
      if (Math.max(y1, y2) < seen.top || Math.min(y1, y2) > seen.bottom || Math.max(x1, x2) < seen.left || Math.min(x1, x2) > seen.right) return;
      context.strokeStyle = style;
      context.lineWidth = width / view.kx;
      context.beginPath();
      context.moveTo(x1, y1);
      const bend = Math.max(12, Math.abs(y2 - y1) / 2.4);
      // An edge past a level goes around what stands between.
      const around = to.y - from.y > 1.5 && Math.abs(x2 - x1) < CELL.x / 2 ? CELL.x * 0.85 * (edge[0] % 2 ? 1 : -1) : 0;
      context.bezierCurveTo(x1 + around, y1 + bend, x2 + around, y2 - bend, x2, y2);
      context.stroke();
    };
    context.globalAlpha = chosen >= 0 ? 0.12 : Math.min(0.6, 0.12 + view.kx);
    const some = Math.ceil(edges.length / MOST_EDGES), faint = colour("muted");
    if (view.kx > 0.2 || edges.length < MOST_EDGES / 10) for (const edge of edges) line(edge, faint, 1);
    else drawFar(context, view, seen, some, faint);
    context.globalAlpha = 1;
    if (chosen < 0) return;
    for (const edge of edges) if (edge[0] === chosen || edge[1] === chosen) line(edge, colour("accent"), 2.2);
  }

  // Far away, straight lines in one stroke; of very many every so-manieth.
  function drawFar(context, view, seen, some, style) {
    context.strokeStyle = style;
    context.lineWidth = 1 / view.kx;
    context.beginPath();
    for (let index = 0; index < edges.length; index += some) {
      const from = tasks[edges[index][0]], to = tasks[edges[index][1]];
      context.moveTo(from.x * CELL.x, from.y * CELL.y);
      context.lineTo(to.x * CELL.x, to.y * CELL.y);
    }
    context.stroke();
  }

  function drawTasks(context, view, seen) {
    const chosen = selection.task, neighbours = chosen >= 0 ? near(chosen) : null;
    const readable = view.kx > 0.42, far = view.kx * CELL.height < 3;
    const soft = kernels.map((_, index) => kernelColour(index, readable)), hard = kernels.map((_, index) => kernelColour(index, false));
    const marks = { select: colour("select"), bad: colour("bad"), wrong: colour("bad-soft"), accent: colour("accent"), text: colour("text") };
    context.textBaseline = "middle";
    for (let index = 0; index < tasks.length; index++) {
      const task = tasks[index], { left, top } = box(task);
      if (left > seen.right || left + CELL.width < seen.left || top > seen.bottom || top + CELL.height < seen.top) continue;
      const dim = (neighbours && index !== chosen && !neighbours.has(index)) || (found.size > 0 && !found.has(index));
      context.globalAlpha = dim ? 0.35 : 1;
      if (far) {
        context.fillStyle = index === chosen ? marks.select : task.wrong ? marks.bad : task.critical ? marks.accent : hard[task.kernel];
        context.fillRect(left, top, CELL.width, Math.max(CELL.height, 1 / view.kx));
        continue;
      }
      context.fillStyle = task.wrong ? marks.wrong : soft[task.kernel];
      context.beginPath();
      context.roundRect(left, top, CELL.width, CELL.height, kernels[task.kernel].core === "aic" ? 2 : 12);
      context.fill();
      context.lineWidth = (index === chosen || task.wrong ? 4 : task.critical ? 2.4 : 1) / Math.max(view.kx, 0.3);
      context.strokeStyle = index === chosen ? marks.select : task.wrong ? marks.bad : task.critical ? marks.accent : hard[task.kernel];
      context.stroke();
      if (!readable) continue;
      context.fillStyle = marks.text;
      context.font = "600 13px system-ui, sans-serif";
      context.fillText(`task ${task.label}`, left + 9, top + 15, CELL.width - 18);
      context.font = "12px system-ui, sans-serif";
      context.fillText(kernels[task.kernel].name, left + 9, top + 31, CELL.width - 18);
    }
    context.globalAlpha = 1;
  }

  function at(x, y) {
    const { kx, ky, x: dx, y: dy } = plane.view;
    const wx = (x - dx) / kx, wy = (y - dy) / ky;
    return tasks.findIndex((task) => Math.abs(task.x * CELL.x - wx) < CELL.width / 2 && Math.abs(task.y * CELL.y - wy) < CELL.height / 2);
  }

  const plane = new Plane(canvas, {
    bounds: () => extent,
    legible: tasks.length <= MOST_LEGIBLE ? 0.8 : 0,
    draw(context, view, width, height) {
      context.save();
      context.translate(view.x, view.y);
      context.scale(view.kx, view.ky);
      const seen = { left: -view.x / view.kx, top: -view.y / view.ky, right: (width - view.x) / view.kx, bottom: (height - view.y) / view.ky };
      drawEdges(context, view, seen);
      drawTasks(context, view, seen);
      context.restore();
    },
    pick(x, y, chosen) {
      const index = x < 0 ? -1 : at(x, y);
      readout.textContent = index < 0 ? "" : `task ${tasks[index].label} ${kernels[tasks[index].kernel].name}`;
      canvas.style.cursor = index < 0 ? "grab" : "pointer";
      if (chosen) selection.set(index);
    },
    step(key) {
      const now = selection.task;
      const beside = (offset) => (now + offset + tasks.length) % tasks.length;
      const next = now < 0 ? 0
        : key === "ArrowUp" ? data.preds[now][0] : key === "ArrowDown" ? data.succs[now][0]
        : key === "Home" ? 0 : key === "End" ? tasks.length - 1 : beside(key === "ArrowLeft" ? -1 : 1);
      if (next !== undefined) selection.set(next);
    },
  });

  let shown = -1;
  selection.watchers.push((task) => {
    if (task >= 0 && task !== shown && document.activeElement !== canvas) plane.center(tasks[task].x * CELL.x, tasks[task].y * CELL.y, 0.5);
    else if (task >= 0) keepVisible(task);
    shown = task;
    plane.paint();
  });

  function keepVisible(index) {
    const x = tasks[index].x * CELL.x * plane.view.kx + plane.view.x, y = tasks[index].y * CELL.y * plane.view.ky + plane.view.y;
    if (x < 40 || y < 30 || x > canvas.clientWidth - 40 || y > canvas.clientHeight - 30) plane.center(tasks[index].x * CELL.x, tasks[index].y * CELL.y, 0.5);
  }

  container.append(
    element("div", { className: "bar" }, search(data, found, () => plane.paint()), plane.buttons()),
    found.list, canvas, readout,
    element("div", { className: "legend" },
      kernels.slice(0, 12).map((kernel, index) => element("span", {}, swatch(kernelColour(index, true)), `${kernel.name}${kernel.core ? ` (${kernel.core})` : ""}`)),
      kernels.length > 12 ? element("span", {}, `and ${kernels.length - 12} more kernels`) : "",
      tasks.some((task) => task.critical) ? element("span", {}, swatch("transparent", colour("accent")), "critical path") : "",
      tasks.some((task) => task.wrong) ? element("span", {}, swatch(colour("bad-soft"), colour("bad")), "a finding is about it") : ""));
  // As high as what it shows, up to most of a screen.
  const shape = () => {
    const width = extent.right - extent.left, scale = Math.max(Math.min(canvas.clientWidth / Math.max(width, 1), 1.4), plane.least());
    canvas.style.height = `min(62vh, 560px, ${Math.max(90, Math.ceil((extent.bottom - extent.top) * scale))}px)`;
  };
  shape();
  addEventListener("resize", shape);
  const worst = tasks.find((task) => task.wrong);
  if (worst) plane.first = { x: worst.x * CELL.x, y: worst.y * CELL.y };
  return plane;
}

function swatch(fill, border) {
  const made = element("i");
  made.style.background = fill;
  if (border) made.style.border = `2px solid ${border}`;
  return made;
}

// The search field; `found` becomes the set of matching tasks, `found.list` shows them as buttons.
function search(data, found, changed) {
  const list = element("ul", { className: "results", "aria-label": "Tasks found" });
  const count = element("span", { className: "muted", role: "status" });
  found.list = list;
  const field = element("input", { type: "search", id: "graph-search", placeholder: "task number, kernel or tensor", "aria-label": "Search tasks" });
  field.addEventListener("input", () => {
    const wanted = field.value.trim().toLowerCase();
    found.clear();
    if (wanted) data.tasks.forEach((task, index) => { if (matches(data, task, wanted)) found.add(index); });
    count.textContent = wanted ? `${found.size} of ${data.tasks.length}` : "";
    list.replaceChildren(...[...found].slice(0, 30).map((index) =>
      element("li", {}, element("button", { type: "button", onclick: () => selection.set(index) },
        `${data.tasks[index].label} ${data.kernels[data.tasks[index].kernel].name}`))));
    changed();
  });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && found.size) selection.set([...found][0]);
  });
  return [field, count];
}

function matches(data, task, wanted) {
  if (/^\d+$/.test(wanted)) return task.label === wanted;
  return data.kernels[task.kernel].name.toLowerCase().includes(wanted) || task.id === wanted ||
    task.args.some((arg) => arg[3].toLowerCase() === wanted);
}

// The panel about the selected task.
function showDetails(data, panel) {
  const { tasks, kernels } = data;
  const link = (index) => element("button", { type: "button", className: "link", onclick: () => selection.set(index) },
    `task ${tasks[index].label} ${kernels[tasks[index].kernel].name}`);
  selection.watchers.push((index) => {
    panel.hidden = index < 0;
    if (index < 0) return;
    const task = tasks[index];
    const side = (heading, others, reason) => [
      element("h3", {}, heading),
      others.length
        ? element("ul", {}, others.slice(0, 40).map((other) => element("li", {}, link(other), element("div", { className: "muted" }, reason(other)))),
          others.length > 40 ? element("li", {}, `and ${others.length - 40} more`) : "")
        : element("p", { className: "muted" }, "nobody"),
    ];
    const because = (pred, succ) => data.reasons[`${pred},${succ}`] ?? "";
    panel.replaceChildren(
      element("button", { type: "button", className: "close", "aria-label": "Close", onclick: () => selection.set(-1) }, "\u00d7"),
      element("h2", {}, `task ${task.label} ${kernels[task.kernel].name}`),
      element("p", { className: "muted" }, [`id ${task.id}`, task.blocks > 1 ? `${task.blocks} blocks` : "", task.place, task.time].filter(Boolean).join(" \u00b7 ")),
      ...side("waits for", data.preds[index], (other) => because(other, index)),
      ...side("is waited for by", data.succs[index], (other) => because(index, other)),
      task.args.length ? element("h3", {}, "arguments") : "",
      task.args.length ? table(["", "name", "kind", "tensor", "shape"], task.args) : "");
  });
}
