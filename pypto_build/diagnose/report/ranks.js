// Ranks under each other: dispatches and kernels as bars, waits over them, and messages as arrows from rank to rank.

const BAND = { title: 20, lane: 20, gap: 3, after: 8, label: 72, axis: 22 };

function drawRanks(data, container) {
  const canvas = element("canvas", { id: "ranks-canvas" });
  const tops = [], bandTops = [];
  let height = BAND.axis;
  for (const band of data.bands) {
    bandTops.push(height);
    height += BAND.title;
    for (let lane = 0; lane < band.lanes.length; lane += 1) {
      tops.push(height);
      height += BAND.lane + BAND.gap;
    }
    height += BAND.after;
  }
  canvas.style.height = `${height}px`;
  canvas.setAttribute("role", "application");
  canvas.setAttribute("aria-label", `Timelines of ${data.bands.length} ranks over ${data.end.toFixed(1)} microseconds, with ${data.messages.length} messages between them. Left and right arrows go through the messages, plus and minus zoom.`);
  const readout = element("div", { className: "readout", id: "ranks-readout", "aria-live": "polite" });
  const names = data.names, messages = data.messages;
  let chosen = -1;

  const describeMessage = (one) => `${names[one.from]} notifies ${names[one.signal]} at ${one.at.toFixed(1)} us; ${names[one.to]} ${one.waited >= 0.05 ? `waited ${one.waited.toFixed(1)} us, ` : ""}went on at ${one.ended.toFixed(1)} us`;
  const describeBar = (bar) => `${names[bar[2]]}: ${bar[3].toFixed(1)} to ${(bar[3] + bar[4]).toFixed(1)} us (${bar[4].toFixed(1)} us)`;
  const middle = (lane) => tops[lane] + BAND.lane / 2;

  function axis(context, view, width) {
    const step = 10 ** Math.ceil(Math.log10(90 / view.kx));
    const fine = [step / 5, step / 2, step].find((candidate) => candidate * view.kx >= 78) ?? step;
    const [unit, of] = fine >= 1000 ? ["ms", 1000] : ["us", 1];
    context.font = "11px system-ui, sans-serif";
    for (let time = Math.ceil(-view.x / view.kx / fine) * fine; time * view.kx + view.x < width; time += fine) {
      const x = time * view.kx + view.x;
      if (x < BAND.label) continue;
      context.fillStyle = colour("line");
      context.fillRect(x, 16, 1, canvas.clientHeight);
      context.fillStyle = colour("muted");
      if (x < width - 64) context.fillText(`${(+(time / of).toFixed(3)).toLocaleString("en")} ${unit}`, x + 3, 9);
    }
  }

  function drawBars(context, view, width) {
    for (const [lane, kind, name, start, duration, kernel, critical] of data.bars) {
      const x = start * view.kx + view.x, w = Math.max(1, duration * view.kx);
      if (x > width || x + w < BAND.label) continue;
      context.fillStyle = kind ? kernelColour(kernel, false) : colour("accent-soft");
      context.fillRect(x, tops[lane], w, BAND.lane);
      if (critical) {
        context.fillStyle = colour("bad");
        context.fillRect(x, tops[lane] + BAND.lane - 3, w, 3);
      }
    }
  }

  // Over the waits, on the bar's own colour.
  function drawTexts(context, view, width) {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    context.font = "12px system-ui, sans-serif";
    for (const [lane, kind, name, start, duration, kernel] of data.bars) {
      const x = Math.max(start * view.kx + view.x, BAND.label), w = (start + duration) * view.kx + view.x - x;
      if (w < 40 || x > width) continue;
      const text = names[name].replace(/^rank \d+ |^host /, "");
      context.save();
      context.beginPath();
      context.rect(x, tops[lane], w - 3, BAND.lane - 3);
      context.clip();
      if (kind) {
        context.fillStyle = kernelColour(kernel, false);
        context.fillRect(x, tops[lane], context.measureText(text).width + 9, BAND.lane);
      }
      context.fillStyle = kind ? (dark ? "#10151c" : "#ffffff") : colour("text");
      context.fillText(text, x + 4, middle(lane));
      context.restore();
    }
  }

  function drawWaits(context, view, width) {
    for (const [lane, start, duration] of data.waits) {
      const x = Math.max(start * view.kx + view.x, BAND.label), end = (start + duration) * view.kx + view.x;
      if (x > width || end - x < 2) continue;
      context.save();
      context.beginPath();
      context.rect(x, tops[lane], end - x, BAND.lane);
      context.clip();
      context.fillStyle = colour("code");
      context.globalAlpha = 0.78;
      context.fillRect(x, tops[lane], end - x, BAND.lane);
      context.globalAlpha = 0.8;
      context.strokeStyle = colour("muted");
      context.lineWidth = 1;
      context.beginPath();
      for (let at = x - BAND.lane; at < Math.min(end, width) + BAND.lane; at += 7) {
        context.moveTo(at, tops[lane] + BAND.lane);
        context.lineTo(at + BAND.lane, tops[lane]);
      }
      context.stroke();
      context.restore();
    }
  }

  function ends(one, view) {
    return [one.at * view.kx + view.x, middle(one.fromLane), one.ended * view.kx + view.x, middle(one.toLane)];
  }

  function arrow(context, one, view, style, wide) {
    const [x1, y1, x2, y2] = ends(one, view);
    const angle = Math.atan2(y2 - y1, x2 - x1), size = wide ? 9 : 7;
    context.strokeStyle = context.fillStyle = style;
    context.lineWidth = wide ? 3 : 1.5;
    context.beginPath();
    context.arc(x1, y1, wide ? 4 : 2.5, 0, 7);
    context.fill();
    context.beginPath();
    context.moveTo(x1, y1);
    context.lineTo(x2, y2);
    context.stroke();
    context.beginPath();
    context.moveTo(x2, y2);
    context.lineTo(x2 - size * Math.cos(angle - 0.42), y2 - size * Math.sin(angle - 0.42));
    context.lineTo(x2 - size * Math.cos(angle + 0.42), y2 - size * Math.sin(angle + 0.42));
    context.fill();
  }

  function drawMessages(context, view, width) {
    context.save();
    context.beginPath();
    context.rect(BAND.label, BAND.axis, width, canvas.clientHeight);
    context.clip();
    context.globalAlpha = chosen >= 0 ? 0.35 : 1;
    const rank = (one) => (one.critical ? 2 : one.waited >= 0.05 ? 1 : 0);  // what matters more lies on top
    for (const level of [0, 1, 2])
      messages.forEach((one, index) => {
        if (index !== chosen && rank(one) === level) arrow(context, one, view, colour(["muted", "accent", "bad"][level]), false);
      });
    context.globalAlpha = 1;
    if (messages[chosen]) arrow(context, messages[chosen], view, colour(messages[chosen].critical ? "bad" : "accent"), true);
    context.restore();
  }

  function drawLabels(context) {
    context.fillStyle = colour("code");
    context.fillRect(0, 16, BAND.label, canvas.clientHeight);
    let lane = 0;
    data.bands.forEach((band, index) => {
      context.fillStyle = colour("line");
      context.fillRect(0, bandTops[index], canvas.clientWidth, 1);
      context.fillStyle = colour("text");
      context.font = "600 12px system-ui, sans-serif";
      context.fillText(band.name, 6, bandTops[index] + BAND.title / 2 + 2);
      context.font = "11px system-ui, sans-serif";
      context.fillStyle = colour("muted");
      for (const name of band.lanes) context.fillText(name, 6, middle(lane++));
    });
  }

  function nearest(x, y) {
    let best = -1, least = 6;
    messages.forEach((one, index) => {
      const [x1, y1, x2, y2] = ends(one, plane.view);
      const dx = x2 - x1, dy = y2 - y1, along = Math.min(1, Math.max(0, ((x - x1) * dx + (y - y1) * dy) / (dx * dx + dy * dy || 1)));
      const apart = Math.hypot(x - x1 - along * dx, y - y1 - along * dy);
      if (apart < least) [best, least] = [index, apart];
    });
    return best;
  }

  function choose(index) {
    chosen = index;
    readout.textContent = messages[index] ? describeMessage(messages[index]) : "";
    plane.paint();
  }

  const plane = new Plane(canvas, {
    stretch: true,
    bounds: () => {
      const span = Math.max(data.end - data.start, 1e-3), scale = span / Math.max(canvas.clientWidth - BAND.label - 24, 100);
      return { left: data.start - (BAND.label + 8) * scale, right: data.end + 16 * scale, top: 0, bottom: 1 };
    },
    draw(context, view, width) {
      context.textBaseline = "middle";
      axis(context, view, width);
      drawBars(context, view, width);
      drawWaits(context, view, width);
      drawTexts(context, view, width);
      drawMessages(context, view, width);
      drawLabels(context);
    },
    pick(x, y, click) {
      const message = x < BAND.label ? -1 : nearest(x, y);
      if (click) return choose(message);
      const time = (x - plane.view.x) / plane.view.kx, slop = 2 / plane.view.kx;
      const bar = x < BAND.label ? undefined : data.bars.findLast((one) => y >= tops[one[0]] && y <= tops[one[0]] + BAND.lane && time >= one[3] - slop && time <= one[3] + one[4] + slop);
      const wait = bar && data.waits.find((one) => one[0] === bar[0] && time >= one[1] && time <= one[1] + one[2]);
      canvas.style.cursor = message >= 0 ? "pointer" : "grab";
      if (message >= 0) readout.textContent = describeMessage(messages[message]);
      else if (wait) readout.textContent = `${names[wait[3]]}: ${wait[2].toFixed(1)} us`;
      else readout.textContent = bar ? describeBar(bar) : messages[chosen] ? describeMessage(messages[chosen]) : "";
    },
    step(key) {
      if (messages.length) choose(Math.min(messages.length - 1, Math.max(0, chosen + (key === "ArrowLeft" || key === "ArrowUp" ? -1 : 1))));
    },
  });
  selection.watchers.push((task) => { if (task < 0) choose(-1); });
  container.append(element("div", { className: "bar" }, plane.buttons()), element("div", { className: "scroll ranks" }, canvas), readout, legendOfRanks(data));
}

function legendOfRanks(data) {
  const mark = (style, text) => element("span", {}, element("i", { style }), text);
  return element("div", { className: "legend" },
    mark("background: var(--accent)", "message that a kernel waited for"),
    mark("background: var(--muted)", "message that was there already"),
    mark("background: var(--bad)", "what decided when the run ended"),
    mark("background: repeating-linear-gradient(135deg, var(--muted) 0 1px, var(--code) 1px 4px)", "waiting for a signal"),
    data.messagesLeftOut ? element("span", {}, `${data.messagesLeftOut.toLocaleString("en")} messages that were waited for least are left out`) : "");
}

function ranksSection(target) {
  const ranks = data.ranks;
  if (ranks.note) target.append(element("p", { className: "notice" }, ranks.note));
  drawRanks(ranks, target);
  for (const [title, headings, rows, note] of ranks.tables)
    target.append(element("h3", {}, title), table(headings, rows), note ? element("p", { className: "muted" }, note) : "");
}
