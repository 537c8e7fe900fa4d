// The timeline: one row a core, time across; the selected task is the same as in the graph.

const LANE = { height: 22, gap: 4, label: 64 };

// Colours of one drawing: asking the page for each of a million would take seconds.
function palette(graph) {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  return {
    kernels: (graph?.kernels ?? []).map((_, index) => kernelColour(index, false)),
    muted: colour("muted"), select: colour("select"), accent: colour("accent"), on: dark ? "#10151c" : "#ffffff",
  };
}

// The rows as columns of numbers, and for each core the numbers of its rows by their start.
function unpacked(data) {
  const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer;
  const { count } = data.rows;
  const core = new Uint16Array(bytes(data.rows.core)), task = new Int32Array(bytes(data.rows.task));
  const scale = Math.max(data.end - data.start, 1e-3) / (2 ** 32 - 1);
  const start = Float64Array.from(new Uint32Array(bytes(data.rows.start)), (value) => data.start + value * scale);
  const length = Float64Array.from(new Uint32Array(bytes(data.rows.length)), (value) => value * scale);
  const lanes = data.cores.map(() => []), longest = data.cores.map(() => 0);
  for (let row = 0; row < count; row++) {
    lanes[core[row]].push(row);
    longest[core[row]] = Math.max(longest[core[row]], length[row]);
  }
  return { count, core, task, start, length, lanes: lanes.map((lane) => Uint32Array.from(lane)), longest };
}

// The first row of a lane that may end after a time.
function firstAfter(rows, lane, time) {
  const list = rows.lanes[lane], wanted = time - rows.longest[lane];
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (rows.start[list[middle]] < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

function drawTimeline(data, graph, container, id = "timeline-canvas") {
  const canvas = element("canvas", { id });
  const rows = unpacked(data), cores = data.cores;
  canvas.style.height = `${cores.length * (LANE.height + LANE.gap) + 30}px`;
  canvas.setAttribute("role", "application");
  canvas.setAttribute("aria-label", `Timeline of ${cores.length} cores over ${data.end.toFixed(1)} microseconds. Left and right arrows go through the tasks, plus and minus zoom.`);
  const readout = element("div", { className: "readout" });
  const top = (core) => 24 + core * (LANE.height + LANE.gap);
  const name = (row) => (rows.task[row] >= 0 ? `task ${graph.tasks[rows.task[row]].label} ${graph.kernels[graph.tasks[rows.task[row]].kernel].name}` : "task");

  function axis(context, view, width) {
    const step = 10 ** Math.ceil(Math.log10(90 / view.kx));
    const fine = [step / 5, step / 2, step].find((candidate) => candidate * view.kx >= 70) ?? step;
    context.font = "11px system-ui, sans-serif";
    for (let time = Math.ceil(-view.x / view.kx / fine) * fine; time * view.kx + view.x < width; time += fine) {
      const x = time * view.kx + view.x;
      context.fillStyle = colour("line");
      context.fillRect(x, 18, 1, canvas.clientHeight);
      context.fillStyle = colour("muted");
      context.fillText(`${+time.toFixed(3)} us`, x + 3, 12);
    }
  }

  // Of rows that share a pixel the first is drawn, and those that are chosen or critical: a million are as quick as a few.
  function drawLane(context, view, width, lane, colours) {
    const list = rows.lanes[lane], chosen = selection.task, y = top(lane);
    let painted = -1, marked = -1;
    for (let at = firstAfter(rows, lane, -view.x / view.kx); at < list.length; at++) {
      const row = list[at], x = rows.start[row] * view.kx + view.x;
      if (x > width) break;
      const w = Math.max(1, rows.length[row] * view.kx), number = rows.task[row], right = Math.floor(x + w);
      if (right < 0) continue;
      const task = graph.tasks[number], special = (number === chosen && number >= 0) || task?.critical;
      if (right <= painted && (!special || right <= marked)) continue;
      context.globalAlpha = chosen >= 0 && number !== chosen ? 0.45 : 1;
      context.fillStyle = task ? colours.kernels[task.kernel] : colours.muted;
      if (right > painted) context.fillRect(x, y, w, LANE.height);
      painted = Math.max(painted, right);
      if (special) {
        context.fillStyle = number === chosen ? colours.select : colours.accent;
        context.fillRect(x, y + LANE.height - 4, w, 4);
        marked = right;
      }
      if (w > 46 && task) {
        context.fillStyle = colours.on;
        context.save();
        context.beginPath();
        context.rect(x, y, w - 3, LANE.height);
        context.clip();
        context.fillText(`${task.label} ${graph.kernels[task.kernel].name}`, Math.max(x, LANE.label) + 4, y + LANE.height / 2);
        context.restore();
      }
    }
  }

  function rowAt(x, y) {
    const lane = Math.floor((y - 24) / (LANE.height + LANE.gap)), time = (x - plane.view.x) / plane.view.kx, slop = 2 / plane.view.kx;
    if (x < 0 || !rows.lanes[lane] || y > top(lane) + LANE.height) return undefined;
    const list = rows.lanes[lane];
    for (let at = firstAfter(rows, lane, time - slop); at < list.length && rows.start[list[at]] <= time + slop; at++)
      if (rows.start[list[at]] + rows.length[list[at]] >= time - slop) return list[at];
    return undefined;
  }

  const plane = new Plane(canvas, {
    stretch: true,
    bounds: () => ({ left: data.start - (data.end - data.start) * 0.02 - LANE.label * (data.end - data.start) / Math.max(canvas.clientWidth, 200), right: data.end + (data.end - data.start) * 0.02, top: 0, bottom: 1 }),
    draw(context, view, width) {
      axis(context, view, width);
      context.textBaseline = "middle";
      context.font = "12px system-ui, sans-serif";
      const colours = palette(graph);
      for (let lane = 0; lane < cores.length; lane++) drawLane(context, view, width, lane, colours);
      context.globalAlpha = 1;
      context.fillStyle = colour("code");
      context.fillRect(0, 18, LANE.label, canvas.clientHeight);
      context.fillStyle = colour("text");
      context.font = "12px system-ui, sans-serif";
      cores.forEach((core, index) => context.fillText(core, 6, top(index) + LANE.height / 2));
    },
    pick(x, y, chosen) {
      const row = rowAt(x, y);
      readout.textContent = row === undefined ? "" : `${name(row)} on ${cores[rows.core[row]]}: ${rows.start[row].toFixed(1)} to ${(rows.start[row] + rows.length[row]).toFixed(1)} us (${rows.length[row].toFixed(1)} us)`;
      canvas.style.cursor = row === undefined ? "grab" : "pointer";
      if (chosen) selection.set(row === undefined ? -1 : rows.task[row]);
    },
    step(key) {
      const now = rows.task.indexOf(selection.task);
      const next = selection.task < 0 || now < 0 ? 0 : now + (key === "ArrowLeft" || key === "ArrowUp" ? -1 : 1);
      if (next >= 0 && next < rows.count) selection.set(rows.task[next]);
    },
  });
  selection.watchers.push(() => plane.paint());
  container.append(element("div", { className: "bar" }, plane.buttons()), element("div", { className: "scroll" }, canvas), readout);
}
