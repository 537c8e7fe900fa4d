// Puts the page together from its data, section by section; a section without data is left out.

const data = JSON.parse(document.getElementById("data").textContent);
// Lines of a source that are shown on either side of a mark.
const FOLD = 8;
const STATUS = { pass: "good", mismatch: "bad", unchecked: "warn", hang: "bad" };

function section(id, title, fill) {
  const made = element("section", { className: "card", id }, element("h2", {}, title));
  document.getElementById("main").append(made);
  fill(made);
  return [id, title];
}

function heading() {
  const verdict = data.verdict;
  const badge = verdict ? element("span", { className: `badge ${STATUS[verdict.status] ?? "bad"}`, id: "status" }, verdict.status.replace("_", " ").toUpperCase()) : "";
  document.getElementById("top").append(
    element("h1", {}, data.artifact, " ", badge),
    element("div", { className: "facts" }, data.facts.map(([name, value]) => element("span", {}, `${name} `, element("b", {}, value)))));
}

// What is wrong, first: where, the source around it, what to do.
function causeSection(target) {
  const cause = data.cause;
  const place = cause.source >= 0
    ? element("button", { type: "button", className: "link", onclick: () => openSource(cause.source, cause.line) }, cause.place)
    : element("b", {}, cause.place);
  const excerpt = element("pre", { className: "source", "aria-label": "the line of the cause" });
  for (const [line, text] of cause.excerpt)
    excerpt.append(element("span", { className: line === cause.line ? "mark" : "", dataset: { n: line } }, text || " "));
  target.append(element("p", {}, place), element("p", { className: "cause" }, cause.message),
    cause.excerpt.length ? excerpt : "", cause.hint ? element("p", {}, `What to do: ${cause.hint}`) : "",
    ...cause.detail.slice(0, 4).map((line) => element("p", { className: "muted" }, line)),
    ...cause.edits.map((edit) => element("pre", { className: "edit", "aria-label": "edit" }, `${edit.place}\n- ${edit.old}\n+ ${edit.new}`)));
}

function verdictSection(target) {
  const verdict = data.verdict;
  if (verdict.error) {
    const error = verdict.error;
    const where = [error.task ? `task ${error.task}` : "", error.kernel ? `kernel ${error.kernel}` : ""].filter(Boolean).join(", ");
    target.append(element("div", { className: "notice bad" }, element("p", {}, element("b", {}, error.message)),
      where ? element("p", {}, where) : "", error.hint ? element("p", {}, `What to do: ${error.hint}`) : ""));
    if (error.detail.length) target.append(element("pre", {}, error.detail.join("\n")));
  }
  const outputs = element("div", { className: "outputs" });
  for (const output of verdict.outputs) outputs.append(outputCard(output));
  target.append(outputs);
}

function outputCard(output) {
  const card = element("article", { className: "output" },
    element("h3", {}, `${output.name} `, element("span", { className: `badge ${STATUS[output.status]}` }, output.status.toUpperCase())),
    element("p", { className: "muted" }, `${output.dtype}[${output.shape.join(", ")}]`,
      output.status === "unchecked" ? "" : ` \u00b7 ${output.mismatched} of ${output.numel} differ${output.maxima}`));
  for (const hint of output.hints) card.append(element("p", { className: "notice" }, hint));
  if (output.map) {
    const picture = element("div", {});
    drawMap(output, picture);
    card.append(picture);
  }
  if (output.first.length)
    card.append(table(["at", "actual", "expected", "difference"], output.first.map((one) => [`[${one.index.join(", ")}]`, shown(one.actual, output), shown(one.expected, output), difference(one, output)])));
  return card;
}

function difference(one, output) {
  const gap = one.actual - one.expected;
  return Number.isFinite(gap) ? shown(output.exact ? gap : Number(gap.toPrecision(3)), output) : "";
}

// As many digits as tell one float32 from the next.
function shown(value, output) {
  if (typeof value !== "number" || output.exact || output.dtype === "float64") return String(value);
  const rounded = Number(value.toPrecision(9)), size = Math.abs(rounded);
  return size && (size < 1e-3 || size >= 1e9) ? rounded.toExponential() : String(rounded);
}

function findingsSection(target) {
  target.append(element("p", { className: "muted" }, data.findingsNote));
  for (const finding of data.findings) {
    const place = finding.source >= 0
      ? element("button", { type: "button", className: "link", onclick: () => openSource(finding.source, finding.line) }, finding.place)
      : finding.place;
    target.append(element("article", { className: `finding ${finding.level}` },
      element("p", {}, element("b", {}, finding.message)),
      element("p", {}, place, finding.rule ? element("span", { className: "muted" }, ` ${finding.rule}`) : ""),
      finding.hint ? element("p", {}, `What to do: ${finding.hint}`) : "",
      ...finding.edits.map((edit) => element("pre", { className: "edit", "aria-label": "edit" }, `${edit.place}\n- ${edit.old}\n+ ${edit.new}`)),
      ...finding.detail.map((line) => element("p", { className: "muted" }, line))));
  }
}

function timeSection(target) {
  if (data.timeline.note) target.append(element("p", { className: "notice" }, data.timeline.note));
  drawTimeline(data.timeline, data.graph, target);
  const path = data.timeline.path;
  if (!path.length) return;
  target.append(element("p", {}, data.timeline.summary), element("h3", {}, "Critical path"),
    table(["task", "start us", "span us", "compute us", "gap us", "gap kind", "slack us"], path.map(([task, ...cells]) => [
      element("button", { type: "button", className: "link", onclick: () => selection.set(task) }, `${data.graph.tasks[task].label} ${data.graph.kernels[data.graph.tasks[task].kernel].name}`), ...cells])),
    data.timeline.pathLeftOut ? element("p", { className: "muted" }, `and ${data.timeline.pathLeftOut.toLocaleString("en")} more tasks, which are marked in the graph; scons deps lists them`) : "",
    element("h3", {}, "Cores: busy and idle by cause, us"), table(data.timeline.coreHeadings, data.timeline.coreRows));
}

function sourcesSection(target) {
  data.sources.forEach((source, index) => {
    const body = element("pre", { className: "source", tabIndex: 0, "aria-label": source.path });
    const marks = source.marks.length ? ` \u00b7 ${source.marks.length} marked` : "";
    const made = element("details", { id: `source-${index}` }, element("summary", {}, source.path, element("span", { className: "muted" }, ` ${source.about}${marks}`)), body);
    made.addEventListener("toggle", () => { if (made.open && !body.childElementCount) fillSource(source, body); });
    if (source.marks.length) made.open = true;
    target.append(made);
  });
}

function fillSource(source, body) {
  const why = new Map();
  for (const mark of source.marks) why.set(mark.line, [...(why.get(mark.line) ?? []), mark.text]);
  const far = (line) => why.size > 0 && ![...why.keys()].some((mark) => Math.abs(mark - line) <= FOLD);
  let fold = null;
  source.text.split("\n").forEach((text, index) => {
    const line = index + 1;
    if (!far(line)) fold = null;
    else if (!fold) {
      fold = element("div", { hidden: true });
      const lines = fold;
      const button = element("button", { type: "button", className: "link fold", onclick: () => { lines.hidden = false; button.remove(); } }, `lines from ${line} on`);
      body.append(button, fold);
    }
    const kind = why.has(line) ? "mark" : /^\s*(\/\/|#|\*)/.test(text) ? "comment" : "";
    (fold ?? body).append(element("span", { className: kind, dataset: { n: line } }, text || " "));
    for (const reason of why.get(line) ?? []) body.append(element("span", { className: "why" }, `\u2191 ${reason}`));
  });
}

function openSource(index, line) {
  const made = document.getElementById(`source-${index}`), body = made.querySelector(".source");
  made.open = true;
  if (!body.childElementCount) fillSource(data.sources[index], body);
  const shown = body.querySelector(`[data-n="${line}"]`) ?? body;
  if (shown.parentElement.hidden) shown.parentElement.previousElementSibling.click();
  shown.scrollIntoView({ block: "center" });
  body.focus({ preventScroll: true });
}

function listSection(rows) {
  return (target) => target.append(element("dl", {}, rows.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)])));
}

function commandsSection(target) {
  for (const [title, command] of data.commands)
    target.append(element("h3", {}, title), element("pre", {}, command),
      element("button", { type: "button", onclick: (event) => copy(event.target, command) }, "Copy"));
}

async function copy(button, text) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(button.previousElementSibling);
    button.textContent = "Selected: copy with the keyboard";
  }
}

heading();
const sections = [];
if (data.cause) sections.push(section("cause", data.cause.triaged ? "Triage's answer" : "Start here", causeSection));
if (data.verdict) sections.push(section("verdict", "Verdict", verdictSection));
if (data.findings) sections.push(section("findings", `Findings (${data.findings.length})`, findingsSection));
if (data.ranks) sections.push(section("ranks", `Ranks (${data.ranks.bands.length})`, ranksSection));
if (data.graph) sections.push(section("graph", `Task graph (${data.graph.tasks.length.toLocaleString("en")} task${data.graph.tasks.length === 1 ? "" : "s"})`, (target) => {
  drawGraph(data.graph, target);
  showDetails(data.graph, document.getElementById("details"));
}));
if (data.timeline) sections.push(section("timeline", "Timeline", timeSection));
if (data.predicted) sections.push(section("predicted", data.predicted.title, predictedSection));
if (data.sources?.length) sections.push(section("sources", "Sources", sourcesSection));
if (data.environment) sections.push(section("environment", "Environment and revisions", listSection(data.environment)));
if (data.commands) sections.push(section("commands", "Repeat it", commandsSection));
document.getElementById("nav").append(element("ul", {}, sections.map(([id, title]) => element("li", {}, element("a", { href: `#${id}` }, title)))));
addEventListener("keydown", (event) => { if (event.key === "Escape") selection.set(-1); });
document.documentElement.dataset.ready = "1";
