// A canvas that is panned and zoomed by mouse, touch and keyboard. `view` maps world to screen: screen = world * k + (x, y).

class Plane {
  constructor(canvas, { draw, pick, step, bounds, stretch, legible }) {
    Object.assign(this, { canvas, draw, pick, step, bounds, stretch: stretch || false, legible: legible || 0 });
    this.view = { kx: 1, ky: 1, x: 0, y: 0 };
    this.fitted = false;
    this.pointers = new Map();
    canvas.tabIndex = 0;
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    for (const name of ["pointerdown", "pointermove", "pointerup", "pointercancel", "pointerleave"])
      canvas.addEventListener(name, (event) => this[name](event));
    canvas.addEventListener("keydown", (event) => this.key(event));
    redrawn(canvas, () => this.paint());
  }

  // The smallest scale that the first view has.
  least() { return this.legible; }

  fit() {
    const { left, top, right, bottom } = this.bounds();
    const width = this.canvas.clientWidth, height = this.canvas.clientHeight;
    const kx = width / Math.max(right - left, 1e-9), ky = height / Math.max(bottom - top, 1e-9);
    const k = Math.max(Math.min(kx, ky, 1.4), this.least());
    this.view = this.stretch
      ? { kx, ky: 1, x: -left * kx, y: 0 }
      : { kx: k, ky: k, x: (width - (left + right) * k) / 2, y: (height - (top + bottom) * k) / 2 };
    this.fitted = true;
    if (this.first && k > Math.min(kx, ky)) return this.center(this.first.x, this.first.y);
    this.paint();
  }

  paint() {
    if (!this.canvas.clientWidth) return;
    if (!this.fitted) return this.fit();
    this.draw(prepared(this.canvas), this.view, this.canvas.clientWidth, this.canvas.clientHeight);
  }

  zoom(factor, x = this.canvas.clientWidth / 2, y = this.canvas.clientHeight / 2) {
    const view = this.view;
    const scaled = Math.min(Math.max(view.kx * factor, 1e-4), this.stretch ? 1e6 : 4) / view.kx;
    view.x = x - (x - view.x) * scaled;
    view.kx *= scaled;
    if (!this.stretch) {
      view.y = y - (y - view.y) * scaled;
      view.ky *= scaled;
    }
    this.paint();
  }

  center(x, y, least = 0) {
    if (this.view.kx < least) this.view.kx = this.view.ky = least;
    this.view.x = this.canvas.clientWidth / 2 - x * this.view.kx;
    if (!this.stretch) this.view.y = this.canvas.clientHeight / 2 - y * this.view.ky;
    this.paint();
  }

  move(dx, dy) {
    this.view.x += dx;
    if (!this.stretch) this.view.y += dy;
    this.paint();
  }

  wheel(event) {
    // A page with a large canvas must still scroll: zooming takes Ctrl, a trackpad's pinch, or a focused canvas.
    if (!event.ctrlKey && document.activeElement !== this.canvas) return;
    event.preventDefault();
    this.zoom(Math.exp(-event.deltaY * 0.0016), event.offsetX, event.offsetY);
  }

  pointerdown(event) {
    this.canvas.focus({ preventScroll: true });
    this.canvas.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
    this.moved = 0;
  }

  pointermove(event) {
    const last = this.pointers.get(event.pointerId);
    if (!last) return this.pick(event.offsetX, event.offsetY, false);
    const others = [...this.pointers.entries()].filter(([id]) => id !== event.pointerId).map(([, point]) => point);
    if (others.length) {
      const apart = (a, b) => Math.hypot(a.x - b.x, a.y - b.y) || 1;
      const now = { x: event.offsetX, y: event.offsetY };
      this.zoom(apart(now, others[0]) / apart(last, others[0]), (now.x + others[0].x) / 2, (now.y + others[0].y) / 2);
    } else {
      this.move(event.offsetX - last.x, event.offsetY - last.y);
    }
    this.moved += Math.abs(event.offsetX - last.x) + Math.abs(event.offsetY - last.y);
    this.pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
  }

  pointerup(event) {
    if (this.pointers.delete(event.pointerId) && this.moved < 4) this.pick(event.offsetX, event.offsetY, true);
  }

  pointercancel(event) { this.pointers.delete(event.pointerId); }

  pointerleave() { this.pick(-1, -1, false); }

  key(event) {
    const pan = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] }[event.key];
    if (event.key === "+" || event.key === "=") this.zoom(1.3);
    else if (event.key === "-") this.zoom(1 / 1.3);
    else if (event.key === "0") this.fit();
    else if (event.key === "Escape") selection.set(-1);
    else if (pan && event.shiftKey) this.move(...pan);
    else if (pan || event.key === "Home" || event.key === "End") this.step(event.key);
    else return;
    event.preventDefault();
  }

  buttons() {
    const button = (label, name, act) => element("button", { type: "button", title: name, "aria-label": name, onclick: act }, label);
    return [
      button("+", "Zoom in", () => this.zoom(1.4)),
      button("\u2212", "Zoom out", () => this.zoom(1 / 1.4)),
      button("Fit", "Show all", () => this.fit()),
    ];
  }
}
