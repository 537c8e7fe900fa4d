// The predicted time: a timeline of cores and pipes, and the roofline of the kernels.

function predictedSection(target) {
  const { note, timeline, roofline } = data.predicted;
  target.append(element("p", { className: "notice" }, note));
  drawTimeline(timeline, data.graph ?? { tasks: [], kernels: [] }, target, "predicted-canvas");
  if (!roofline.length) return;
  target.append(element("h3", {}, "Roofline"));
  drawRoofline(roofline, target);
  target.append(table(["kernel", "work by bytes (1: balanced)", "of the full rate", "of its roof", "bound by"], roofline.map((one) => [
    one.name, one.balance.toPrecision(3), `${(100 * one.share).toFixed(1)} %`, `${(100 * one.share / Math.min(one.balance, 1)).toFixed(0)} %`, one.bound])));
}

// Both axes are logarithmic. Left of 1 memory is the roof, right of it the unit that computes.
function drawRoofline(points, container) {
  const canvas = element("canvas", { id: "roofline" });
  canvas.style.height = "260px";
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `Roofline of ${points.length} kernels; the table below has the same numbers.`);
  const decades = (values) => [Math.floor(Math.log10(Math.min(...values))), Math.ceil(Math.log10(Math.max(...values)))];
  const across = decades([0.1, 10, ...points.map((one) => one.balance)]);
  const low = decades([0.01, ...points.map((one) => one.share)])[0];
  function draw() {
    const context = prepared(canvas), width = canvas.clientWidth, height = canvas.clientHeight;
    const box = { left: 52, right: width - 14, top: 26, bottom: height - 34 };
    const x = (value) => box.left + (box.right - box.left) * (Math.log10(value) - across[0]) / (across[1] - across[0]);
    const y = (value) => box.bottom - (box.bottom - box.top) * (Math.log10(value) - low) / -low;
    context.font = "11px system-ui, sans-serif";
    const line = (from, to, tone, thick) => {
      context.strokeStyle = colour(tone);
      context.lineWidth = thick;
      context.beginPath();
      context.moveTo(...from);
      context.lineTo(...to);
      context.stroke();
    };
    const text = (words, at, tone, align) => {
      context.fillStyle = colour(tone);
      context.textAlign = align;
      context.fillText(words, ...at);
    };
    for (let power = across[0]; power <= across[1]; power++) {
      line([x(10 ** power), box.top], [x(10 ** power), box.bottom], "line", 1);
      text(String(+(10 ** power).toPrecision(1)), [x(10 ** power), box.bottom + 14], "muted", "center");
    }
    for (let power = low; power <= 0; power++) {
      line([box.left, y(10 ** power)], [box.right, y(10 ** power)], "line", 1);
      text(`${+(100 * 10 ** power).toPrecision(1)} %`, [box.left - 6, y(10 ** power) + 4], "muted", "right");
    }
    text("work by bytes, 1: balanced", [box.right, height - 6], "muted", "right");
    text("share of the full rate", [8, 14], "muted", "left");
    line([x(Math.max(10 ** low, 10 ** across[0])), y(Math.max(10 ** low, 10 ** across[0]))], [x(1), y(1)], "accent", 2);
    line([x(1), y(1)], [box.right, y(1)], "accent", 2);
    const taken = [];
    points.forEach((one, index) => {
      const at = [x(one.balance), y(one.share)], end = at[0] > width - 120;
      context.fillStyle = kernelColour(index, false);
      context.beginPath();
      context.arc(...at, 5, 0, 7);
      context.fill();
      let row = at[1] + 4;
      while (taken.some(([column, other]) => Math.abs(column - at[0]) < 110 && Math.abs(other - row) < 12)) row += 12;
      taken.push([at[0], row]);
      text(one.name, [at[0] + (end ? -9 : 9), row], "text", end ? "right" : "left");
    });
    context.textAlign = "left";
  }
  redrawn(canvas, draw);
  container.append(canvas);
}
