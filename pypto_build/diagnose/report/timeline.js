// The timeline: one row a core, time across; the selected task is the same as in the graph.

const LANE = { height: 22, gap: 4, label: 64 };

function drawTimeline(data, graph, container) {
  const canvas = element("canvas", { id: "timeline-canvas" });
  const rows = data.rows, cores = data.cores;
  canvas.style.height = `${cores.length * (LANE.height + LANE.gap) + 30}px`;
  canvas.setAttribute("role", "application");
  canvas.setAttribute("aria-label", `Timeline of ${cores.length} cores over ${data.end.toFixed(1)} microseconds. Left and right arrows go through the tasks, plus and minus zoom.`);
  const readout = element("div", { className: "readout" });
  const top = (core) => 24 + core * (LANE.height + LANE.gap);
  const name = (row) => (row[1] >= 0 ? `task ${graph.tasks[row[1]].label} ${graph.kernels[graph.tasks[row[1]].kernel].name}` : "task");

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

  const plane = new Plane(canvas, {
    stretch: true,
    bounds: () => ({ left: data.start - (data.end - data.start) * 0.02 - LANE.label * (data.end - data.start) / Math.max(canvas.clientWidth, 200), right: data.end + (data.end - data.start) * 0.02, top: 0, bottom: 1 }),
    draw(context, view, width) {
      axis(context, view, width);
      const chosen = selection.task;
      context.textBaseline = "middle";
      for (const row of rows) {
        const x = row[2] * view.kx + view.x, w = Math.max(1, row[3] * view.kx);
        if (x > width || x + w < 0) continue;
        const task = graph.tasks[row[1]];
        context.globalAlpha = chosen >= 0 && row[1] !== chosen ? 0.45 : 1;
        context.fillStyle = task ? kernelColour(task.kernel, false) : colour("muted");
        context.fillRect(x, top(row[0]), w, LANE.height);
        if (row[1] === chosen || task?.critical) {
          context.fillStyle = row[1] === chosen ? colour("select") : colour("bad");
          context.fillRect(x, top(row[0]) + LANE.height - 4, w, 4);
        }
        if (w > 46 && task) {
          context.fillStyle = matchMedia("(prefers-color-scheme: dark)").matches ? "#10151c" : "#ffffff";
          context.font = "12px system-ui, sans-serif";
          context.save();
          context.beginPath();
          context.rect(x, top(row[0]), w - 3, LANE.height);
          context.clip();
          context.fillText(`${task.label} ${graph.kernels[task.kernel].name}`, Math.max(x, LANE.label) + 4, top(row[0]) + LANE.height / 2);
          context.restore();
        }
      }
      context.globalAlpha = 1;
      context.fillStyle = colour("code");
      context.fillRect(0, 18, LANE.label, canvas.clientHeight);
      context.fillStyle = colour("text");
      context.font = "12px system-ui, sans-serif";
      cores.forEach((core, index) => context.fillText(core, 6, top(index) + LANE.height / 2));
    },
    pick(x, y, chosen) {
      const time = (x - plane.view.x) / plane.view.kx, slop = 2 / plane.view.kx;
      const row = x < 0 ? undefined : rows.find((candidate) => y >= top(candidate[0]) && y <= top(candidate[0]) + LANE.height && time >= candidate[2] - slop && time <= candidate[2] + candidate[3] + slop);
      readout.textContent = row ? `${name(row)} on ${cores[row[0]]}: ${row[2].toFixed(1)} to ${(row[2] + row[3]).toFixed(1)} us (${row[3].toFixed(1)} us)` : "";
      canvas.style.cursor = row ? "pointer" : "grab";
      if (chosen) selection.set(row ? row[1] : -1);
    },
    step(key) {
      const now = rows.findIndex((row) => row[1] === selection.task);
      const next = now < 0 ? 0 : now + (key === "ArrowLeft" || key === "ArrowUp" ? -1 : 1);
      if (rows[next]) selection.set(rows[next][1]);
    },
  });
  selection.watchers.push(() => plane.paint());
  container.append(element("div", { className: "bar" }, plane.buttons()), element("div", { className: "scroll" }, canvas), readout);
}
