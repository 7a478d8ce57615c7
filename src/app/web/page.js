// Asks every second while the page is visible. Two documents: status.json is that of `pgbaton status --json`, live.json
// has what this process counts itself, and the history. What is shown after the process has gone stays as it was.
let status = null, live = null, lastAnswer = 0, stepsSeen = {};
const history = { seconds: 0, columns: [], points: [] };
const delays = [];  // [time, histogram] of the last minute

const phases = ["creating", "copying", "indexing", "streaming", "ready"];
const phaseOf = () => (status && status.phase ? status.phase : "none");
const column = (name) => history.columns.indexOf(name);
const hasValues = (name) => history.points.some((point) => isKnown(point[column(name)]));
const parsed = (iso) => (iso ? Date.parse(iso) / 1000 : null);
const goneFor = () => (lastAnswer ? (Date.now() - lastAnswer) / 1000 : 0);
const isStill = () => Boolean(live && live.stream && live.stream.running && !live.stream.connected);
const isGone = () => lastAnswer > 0 && goneFor() > 4 && !(live && live.ended);

// Commands that are a course of steps of their own. Those with a star are shown only once they have begun.
const courses = {
  switchover: [
    ["preflight", "Preflight", "looks whether anything is in the way"], ["prepare", "Prepare", "streams itself, counts rows, sets sequences"],
    ["way-back*", "Way back", "a slot, so that changes can stream back"], ["readers*", "Readers", "those that only read are sent to the target"],
    ["fence", "Fence", "writers of the source are refused; open transactions are waited for"],
    ["barrier", "Barrier", "waits until the target has the last commit of the source"], ["catch-up*", "Catch up", "measures how long the target takes to reach the source"],
    ["sequences", "Sequences", "numbers go on behind those of the source"], ["verify", "Verify", "both sides hold the same"],
    ["finish", "Finish", "foreign keys and triggers that were left for the end"], ["flip", "Flip", "one transaction opens the target"],
    ["send", "Send", "tells the application, by the pooler and the hook"], ["turn*", "Turn", "the replica that streams back"],
    ["clean-up", "Clean up", "removes the slot and the state of the former stream"]],
  rebuild: [
    ["preflight", "Preflight", "looks whether anything is in the way"], ["create", "Create", "a new, empty database"], ["check", "Check", "whether it can hold what the source has"],
    ["copy", "Copy", "slot, schema, rows as of one snapshot, indexes"], ["catch-up", "Catch up", "applies what was committed meanwhile"],
    ["prove", "Prove", "looks for tables that DDL has left different"], ["verify*", "Verify", "compares all rows of both sides"],
    ["finish*", "Finish", "becomes an ordinary database: foreign keys, no slot"], ["sql*", "SQL files", "those of --sql, in the new database"],
    ["settings", "Settings", "owner, rights and settings of the live database"], ["before-swap*", "Before the swap", "runs your command"],
    ["swap", "Swap", "the new database takes the name of the live one"], ["clean-up", "Clean up", "drops what is older than --keep says"], ["after-swap*", "After the swap", "runs your command"]],
};
// Once its stream runs a rebuild is like a follower.
const courseOf = () => (live && live.course && !(live.stream && !live.course.running) ? live.course : null);
const courseSteps = () => (courses[live.command] || []).map(([name, title, about]) => [name.replace("*", ""), title, about, name.endsWith("*")]);
const currentStep = (course) => course.steps[course.steps.length - 1];
const titleOf = (name) => (courseSteps().find((step) => step[0] === name) || [name, name])[1];

// ---- what stands above everything else
function endHeadline() {
  const { exit_code: code } = live.ended;
  const { result, writers } = (live.course && live.course.facts) || {};
  if (code !== 0 && writers) return ["bad", `The switchover has failed; writers ${writers}`];
  if (code !== 0) return ["bad", `The command has failed, exit code ${code}`];
  if (live.command === "switchover" && result === "possible") return ["good", "A switchover is possible; nothing was changed"];
  if (live.command === "switchover" && live.course && live.course.facts.mode) return ["good", `The command has ended: ${result || "done"}`];
  if (live.command === "switchover") return ["good", result === "rolled back" ? "Rolled back: the application works on the source" : "Switched over: the application works on the target"];
  if (live.command === "rebuild" && courseOf()) return ["good", `Generation ${live.course.facts.generation} serves`];
  return ["good", "The command has ended, and all went well"];
}
function courseHeadline(course) {
  const step = currentStep(course), what = live.command === "rebuild" ? `Building generation ${course.facts.generation || "…"}` : "Switchover";
  if (!step) return ["work", `${what}: begins`];
  if (course.pausing) return ["warn", `Writers wait: ${titleOf(step.name).toLowerCase()}`];
  return ["work", `${what}: ${titleOf(step.name).toLowerCase()}`];
}
function headline() {
  const phase = phaseOf(), writer = status && status.writer;
  if (!live) return ["", "connecting …"];
  if (live.ended) return endHeadline();
  if (isGone()) return ["bad", "The command has ended, or cannot be reached"];
  if (live.look.failed) return ["bad", "The target does not answer"];
  if (courseOf()) return courseHeadline(courseOf());
  if (isStill()) return ["bad", "The stream stands still: no connection"];
  if (status && status.history_break) return ["bad", "The source is not the one that was copied any more"];
  const lag = isKnown(lastOf("lag_bytes")) ? lastOf("lag_bytes") : status && status.lag ? status.lag.bytes : null;
  const mute = status && !writer && phase !== "none";
  if (mute) return ["warn", `Nobody writes this replica (${phase === "ready" ? "it was ready" : "it is not complete"})`];
  switch (phase) {
    case "none": return ["work", live.copy && live.copy.running ? "Copying into a new database" : "There is no replica yet"];
    case "creating": return ["work", "Preparing: slot and schema"];
    case "copying": return ["work", "Copying rows"];
    case "indexing": return ["work", "Building indexes and constraints"];
    case "streaming": return ["work", "Catching up with the source"];
    default: {
      const limit = status.readiness && status.readiness.lag_limit_bytes;
      if (limit && lag > limit) return ["warn", `Ready, but ${bytes(lag)} behind the source`];
      return ["good", lag > 0 ? "Ready: the target follows the source" : "Ready: the target is level with the source"];
    }
  }
}
function subline() {
  if (!live) return "";
  const parts = [`pgbaton ${live.command}`];
  const writer = status && status.writer;
  if (writer) parts.push(`written by process ${writer.pid} on ${writer.host} since ${clock(writer.since)}`);
  if (live.look.at) parts.push(`servers looked at ${seconds(Math.max(0, Date.now() / 1000 - live.look.at))} ago`);
  return parts.join(" · ");
}
function problems() {
  const list = [];
  const add = (level, text, hint) => list.push({ level, text, hint });
  if (isGone()) add("bad", `No answer for ${seconds(goneFor())}. Everything below is as of ${new Date(lastAnswer).toLocaleTimeString("en-GB")}.`,
    "`pgbaton status` on any machine tells how the replica stands; starting the same command again loses nothing.");
  if (live && live.ended && live.ended.message) add("bad", live.ended.message, live.ended.hint);
  if (live && live.ended) add("", "The command has ended; everything below is as of its end.", "");
  if (!status) return list;
  if (status.error && (!live || live.look.failed)) add("bad", status.error.message, status.error.hint);
  if (status.history_break) add("bad", status.history_break.message, status.history_break.hint);
  if (status.last_error) add("bad", `The last run ended at ${clock(status.last_error.at)}: ${status.last_error.message}`, status.last_error.hint);
  if (status.source_problem) add("bad", `The source does not answer: ${status.source_problem}`,
    "Nothing is lost: the stream goes on by itself when it is back.");
  for (const text of status.warnings || []) add("warn", text);
  for (const doubt of status.doubts || []) add("warn", `${doubt.schema}.${doubt.table} ${doubt.reason}`, doubt.remedy);
  for (const one of status.waiting || []) add("warn", `A session of the source (pid ${one.pid}) waits ${seconds(one.seconds)} behind this replica: ${one.query}`);
  return list;
}

// ---- phases
function courseTimeline(course) {
  const begun = new Map();
  for (const step of course.steps) {
    const before = begun.get(step.name);
    begun.set(step.name, before ? { ...step, seconds: before.seconds + step.seconds } : step);
  }
  const part = live.command === "switchover" && Boolean(course.facts.mode);  // a dry run, or readers only: not all steps come
  const passed = courseSteps().map((step) => begun.has(step[0])).lastIndexOf(true);
  const over = Boolean(live.ended && live.ended.exit_code === 0);
  const list = courseSteps().filter(([name, , , optional], i) => begun.has(name) || !(optional || i < passed || over || part));
  byId("timeline").className = "timeline many";
  byId("timeline").replaceChildren(...list.map(([name, title, about]) => {
    const step = begun.get(name);
    if (!step) return el("li", { class: "later" }, el("b", {}, title), el("span", {}, about));
    if (!step.running && !step.failed) return el("li", { class: "done", title: about }, el("b", {}, `✓ ${title}`), el("span", {}, `took ${seconds(step.seconds)}`), step.note ? el("span", {}, step.note) : null);
    const copied = name === "copy" && live.copy && live.copy.running ? `${Math.floor(live.copy.share * 100)} % of the rows, ` : "";
    const failed = step.failed || Boolean(live.ended && live.ended.exit_code !== 0);
    return el("li", { class: failed ? "stuck" : "now" }, el("b", {}, title), el("span", {}, failed ? "failed here" : `${copied}${seconds(step.seconds)} so far`), el("span", {}, about));
  }));
}
function timeline() {
  if (courseOf()) return courseTimeline(courseOf());
  byId("timeline").className = "timeline";
  const ready = (status && status.readiness) || {};
  const events = live ? live.events : [];
  const firstBoundary = events.filter((event) => event.event === "boundary").map((event) => event.at).pop();
  const begun = firstBoundary || null;
  const at = phases.indexOf(phaseOf());
  const ends = [begun, ready.copied_at, ready.indexed_at, ready.ready_at, null].map(parsed);
  const names = ["Slot and schema", "Copy", "Indexes", "Catch up", "Ready"];
  const notes = ["a snapshot to start from", "rows as of the snapshot", "and constraints", "changes committed since", "follows the source"];
  const failed = isGone() || isStill() || Boolean(live && (live.look.failed || (live.ended && live.ended.exit_code !== 0)));
  byId("timeline").replaceChildren(...names.map((name, i) => {
    const state = at < 0 ? "later" : i < at || (i === 4 && at === 4 && !failed) ? "done" : i === at ? (failed ? "stuck" : "now") : "later";
    let text = notes[i];
    const from = i > 0 ? ends[i - 1] : null;
    if (i === 4) {
      if (at === 4 && ready.ready_at) text = `since ${clock(ready.ready_at)}`;
    } else if (state === "done" && ends[i]) {
      text = from ? `took ${seconds(ends[i] - from)}` : `until ${clock(new Date(ends[i] * 1000))}`;
    } else if (i === at) {
      text = i === 1 && live && live.copy && live.copy.running ? `${Math.floor(live.copy.share * 100)} % of the rows` : ready.missing || notes[i];
      if (from) text += `, ${seconds(Math.max(0, Date.now() / 1000 - from))} so far`;
    }
    return el("li", { class: state }, el("b", {}, (state === "done" ? "✓ " : "") + name), el("span", {}, text));
  }));
}

// ---- numbers
function tile(label, value, small, note, level = "") {
  return el("div", { class: `tile ${level}` }, el("div", { class: "label" }, label),
    el("div", { class: "value" }, value, small ? el("small", {}, ` ${small}`) : null), el("div", { class: "note" }, note));
}
function tiles() {
  const list = [], copy = live && live.copy, stream = live && live.stream, slot = status && status.slot;
  const now = lastOf, course = courseOf();
  if (course && live.command === "switchover")
    list.push(tile(course.pausing ? "Writers wait" : "Pause", isKnown(course.pause_seconds) ? seconds(course.pause_seconds) : "none", course.pausing ? "so far" : "",
      course.pausing ? "the source refuses them, the target is not open yet" : isKnown(course.pause_seconds) ? "for so long nobody could write" : "nobody has been kept from writing", course.pausing ? "warn" : ""));
  if (course && course.facts.generation)
    list.push(tile("Generation", course.facts.generation, course.facts.database || "", "the new database; the live one serves until the swap"));
  if (copy && copy.running && copy.tables_total > 0) {
    list.push(tile("Copied", `${Math.floor(copy.share * 100)} %`, `${bytes(copy.bytes)} of about ${bytes(copy.bytes_total)}`,
      `${count(copy.rows)} rows; ${copy.tables_done} of ${copy.tables_total} tables are complete`));
    list.push(tile("Copy speed", `${bytes(copy.bytes_per_second)}/s`, `${count(copy.rows_per_second)} rows/s`,
      isKnown(copy.seconds_left) ? `about ${seconds(copy.seconds_left)} left at this speed` : "time left not known yet"));
  }
  const behind = now("lag_bytes");
  if (isKnown(behind)) {
    const catchUp = status && status.lag ? status.lag.stream.seconds_to_catch_up : null;
    list.push(tile("Behind", bytes(behind), isKnown(now("lag_seconds")) && behind > 0 ? seconds(now("lag_seconds")) : "",
      isStill() ? "as of the last contact; the source may have written more"
        : behind <= 0 ? (copy && copy.running ? "nothing was written on the source since the snapshot" : "everything that the source has written is on the target")
        : isKnown(catchUp) && catchUp > 1 ? `about ${seconds(catchUp)} to catch up at this speed`
        : "written on the source, not on the target yet"));
  }
  const windowed = delays.length > 0 && live.now - delays[0][0] >= 5;  // else the page is too young to know
  const before = windowed ? delays[0][1] : null, span = windowed ? "last minute" : "since this process began";
  const half = stream && quantile(before, stream.delay, 0.5), most = stream && quantile(before, stream.delay, 0.99);
  if (stream && stream.running) {
    const bound = (value) => (value === Infinity ? "more than 5 min" : value === null ? "–" : `≤ ${seconds(value)}`);
    list.push(tile("Commit to target", bound(half), half === null ? "" : `99 %: ${bound(most)}`,
      half === null ? `no transaction, ${span}` : `from a commit on the source until it is on the target, ${span}`));
    list.push(tile("Changes", `${count(stream.changes_per_second)}/s`, `${count(stream.transactions_per_second)} transactions/s`,
      `${count(stream.changes)} rows since this process began`));
    list.push(tile("Queue", bytes(stream.queue_bytes), `of ${bytes(stream.queue_limit_bytes)}`, "changes received, not applied yet, in memory",
      stream.queue_bytes > 0.9 * stream.queue_limit_bytes ? "warn" : ""));
  }
  if (slot) {
    const held = isKnown(now("wal_held_bytes")) ? now("wal_held_bytes") : slot.wal_held_bytes;
    const safe = slot.wal_safe_bytes, budget = isKnown(safe) ? held + safe : null;
    const level = slot.wal_status === "lost" ? "bad" : budget && held > 0.8 * budget ? "bad" : budget && held > 0.5 * budget ? "warn" : "";
    list.push(tile("WAL held", bytes(held), budget ? `of ${bytes(budget)}` : "no limit set",
      budget ? "kept on the source for us; beyond the limit the replica is lost" : "kept on the source's disk until the target has it", level));
  }
  const snapshot = status && status.snapshot;
  if (snapshot) list.push(tile("Snapshot age", seconds(snapshot.age_seconds), "", "held open on the source for the copy; vacuum waits for it"));
  if (stream && stream.reconnects > 0) list.push(tile("Reconnects", count(stream.reconnects), "", "lost connections since this process began"));
  const verify = live && live.events.find((event) => event.event === "verify");
  if (verify) {
    const found = verify.detail ? Number(verify.detail.differences) : null;
    list.push(tile("Last verify", found === 0 ? "equal" : `${count(found)} differ`, clock(verify.at), "all rows of both sides were compared", found ? "bad" : ""));
  }
  byId("tiles").replaceChildren(...list);
}

// ---- tables and events
function tableRow(name, how, share, kind) {
  const bar = el("div", { class: `bar ${kind}` }, el("i", { style: `width:${Math.round(share * 100)}%` }));
  return el("div", { class: "table" }, el("div", { class: "what" }, name), el("div", { class: "how" }, how), bar);
}
function tables() {
  const rows = [], flying = new Set(), all = (status && status.tables) || [];
  const inFlight = live && live.copy && live.copy.running ? live.copy.in_flight : [];
  const quoted = (table) => `"${table.schema}"."${table.name}"`;
  const plain = new Map(all.map((table) => [quoted(table), `${table.schema}.${table.name}`]));
  for (const table of inFlight) {
    const whole = table.name.replace(/ part \d+ of \d+$/, ""), part = table.name.slice(whole.length);
    const name = (plain.get(whole) || whole) + part;
    flying.add(whole);
    rows.push(table.indexing ? tableRow(name, `indexes and constraints for ${seconds(table.seconds)}`, 1, "busy")
      : tableRow(name, `${bytes(table.bytes)} of about ${bytes(table.bytes_total)}`, Math.min(0.99, table.bytes_total ? table.bytes / table.bytes_total : 0), ""));
  }
  const words = { pending: "waits", copying: "copying", copied: "copied, indexes to come", indexed: "copied and indexed", done: "complete", skipped: "not copied", resync: "being copied again" };
  const order = { resync: 0, copying: 1, copied: 2, indexed: 3, pending: 4, done: 5, skipped: 6 };
  const rest = all.filter((table) => !flying.has(quoted(table)))
    .sort((a, b) => order[a.phase] - order[b.phase] || b.bytes - a.bytes);
  for (const table of rest.slice(0, 100)) {
    const copied = ["copied", "indexed", "done"].includes(table.phase);
    const size = copied || table.bytes > 0 ? ` · ${count(table.rows)} rows, ${bytes(table.bytes)}` : "";
    rows.push(tableRow(`${table.schema}.${table.name}`, (words[table.phase] || table.phase) + size, copied ? 1 : 0, copied ? "done" : ""));
    if (table.note) rows.push(el("div", { class: "note muted" }, table.note));
  }
  if (rest.length > 100) rows.push(el("div", { class: "muted" }, `and ${count(rest.length - 100)} more`));
  byId("tables").replaceChildren(...rows);
  byId("table-count").textContent = all.length ? `${status.copy.tables_done} of ${status.copy.tables_total} copied` : "";
}
function eventText(event) {
  const d = event.detail || {};
  switch (event.event) {
    case "boundary": return `a snapshot to copy from, at ${d.lsn || "?"}`;
    case "copied": return "all rows are copied";
    case "indexed": return "indexes and constraints are there";
    case "ready": return `ready${d.applied_lsn ? `, applied ${d.applied_lsn}` : ""}`;
    case "reconnect": return `connected again after ${d.after || "a while"}: ${d.message || ""}`;
    case "verify": return `compared ${d.tables || "?"} tables: ${d.differences || 0} differences`;
    case "failed": return `ended with exit code ${d.exit_code}: ${d.message}`;
    default: return event.event.replaceAll("_", " ") + (d.table ? ` ${d.table}` : "") + (d.message ? `: ${d.message}` : "");
  }
}
function events() {
  const list = live ? live.events : [];
  const bad = ["failed", "drift", "missing_row"];
  const lines = list.map((event) => el("li", {}, el("time", {}, clock(event.at)),
    el("span", bad.includes(event.event) ? { class: "bad" } : {}, eventText(event))));
  byId("events").replaceChildren(...(lines.length ? lines : [el("li", { class: "muted" }, "none yet")]));
}

// ---- charts
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const byteRate = (value) => (isKnown(value) ? `${bytes(value)}/s` : "–");
const specs = {
  "chart-copy": { left: bytes, least: 2 ** 20, series: [["copy_left_bytes", "left", "blue", bytes, true]],
    extra: [["copy_bytes_per_second", "speed", "purple", byteRate]] },
  "chart-lag": { left: bytes, least: 2 ** 16, series: [["lag_bytes", "behind", "blue", bytes, true]], extra: [["lag_seconds", "age", "purple", seconds]] },
  "chart-wal": { left: bytes, least: 2 ** 20, series: [["wal_held_bytes", "held", "blue", bytes, true], ["wal_limit_bytes", "limit", "red", bytes]], extra: [] },
  "chart-rate": { left: count, least: 10, series: [["changes_per_second", "changes/s", "blue", count, true], ["transactions_per_second", "transactions/s", "purple", count]], extra: [] },
};
const charts = {};
function makeChart(id) {
  const spec = specs[id], box = byId(id).querySelector("div");
  const axis = (format, scale, side) => ({ scale, side, stroke: colour("muted"), size: 72, grid: side === 3 ? { stroke: colour("grid"), width: 1 } : { show: false },
    ticks: { show: false }, ...(format === bytes || format === byteRate ? { incrs: byteSteps } : {}), values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : format(tick))) });
  const series = [...spec.series.map((one) => [...one.slice(0, 4), one[4], "y"]), ...spec.extra.map((one) => [...one.slice(0, 4), false, "z"])];
  const range = (least) => (_, low, high) => [0, Math.max((high || 0) * 1.08, least)];
  const fill = (one) => (one[4] ? { fill: colour("blue-soft") } : {});
  const dash = (one) => (one[5] === "z" || one[2] === "red" ? { dash: [5, 4] } : {});
  const options = {
    width: box.clientWidth || 400, height: 190, cursor: { y: false }, scales: { x: { time: true }, y: { range: range(spec.least) }, z: { range: range(1) } },
    axes: [{ stroke: colour("muted"), grid: { show: false }, ticks: { stroke: colour("line") }, values: (_, ticks) => ticks.map((tick) => new Date(tick * 1000).toLocaleTimeString("en-GB")), space: 80 },
      axis(spec.left, "y", 3), ...(spec.extra.length ? [axis(spec.extra[0][3], "z", 1)] : [])],
    series: [{ value: (_, at) => (at === null ? "now" : new Date(at * 1000).toLocaleTimeString("en-GB")), label: "at" },
      ...series.map((one) => ({ label: one[1], scale: one[5], stroke: colour(one[2]), width: 1.8, spanGaps: true, points: { show: false },
        value: (u, value) => one[3](value === null ? lastOf(one[0]) : value), ...fill(one), ...dash(one) }))],
  };
  if (charts[id]) charts[id].plot.destroy();
  charts[id] = { plot: new uPlot(options, dataOf(series), box), series };
}
function lastOf(name) {
  const last = history.points[history.points.length - 1];
  return last ? last[column(name)] : null;
}
function limitMatters() {
  return history.points.some((point) => point[column("wal_held_bytes")] > point[column("wal_limit_bytes")] / 4);
}
function dataOf(series) {
  const at = column("at");
  // A limit far above would press everything else to the floor; the tile and the caption name it.
  const worth = limitMatters();
  const values = (name) => history.points.map((point) => (name === "wal_limit_bytes" && !worth ? null : point[column(name)]));
  return [history.points.map((point) => point[at]), ...series.map((one) => values(one[0]))];
}
function drawCharts(anew) {
  if (!history.columns.length) return;
  byId("chart-copy").hidden = !history.points.some((point) => point[column("copy_left_bytes")] > 0);
  byId("wal-caption").textContent = hasValues("wal_limit_bytes") ? "kept on the source for this replica; at the limit the source drops it, and a new copy is needed"
    : "kept on the source's disk for this replica; the source sets no limit";
  for (const id of Object.keys(specs)) {
    if (byId(id).hidden) continue;
    const box = byId(id).querySelector("div");
    if (!charts[id] || anew) makeChart(id);
    else charts[id].plot.setData(dataOf(charts[id].series));
    if (Math.abs(charts[id].plot.width - box.clientWidth) > 1) charts[id].plot.setSize({ width: box.clientWidth, height: 190 });
  }
}

// ---- news
function takeHistory(news) {
  if (news.seconds !== history.seconds || !history.columns.length) {
    if (history.points.length && news.points.length && news.points[0][0] > history.points[0][0] + 5) { history.points = []; return false; }
    history.points = [];
  }
  history.seconds = news.seconds;
  history.columns = news.columns;
  history.points.push(...news.points);
  return true;
}
function takeDelays() {
  if (!live.stream || !live.stream.running) { delays.length = 0; return; }
  delays.push([live.now, live.stream.delay]);
  while (delays.length > 1 && delays[0][0] < live.now - 60) delays.shift();
}
async function fetched(path) {
  const answer = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(5000) });
  if (!answer.ok && answer.status !== 503) throw new Error(String(answer.status));
  return answer.json();
}
async function update() {
  try {
    const after = history.points.length ? history.points[history.points.length - 1][0] : 0;
    live = await fetched(`live.json?after=${after}`);
    if (!takeHistory(live.history)) takeHistory((live = await fetched("live.json?after=0")).history);
    status = await fetched("status.json");
    lastAnswer = Date.now();
    takeDelays();
  } catch (error) {
    if (!lastAnswer) lastAnswer = Date.now();
  }
  show(false);
}
function show(anew) {
  const [level, text] = headline();
  byId("state").className = `state ${level}`;
  byId("headline").textContent = text;
  byId("subline").textContent = subline();
  byId("replica").textContent = live ? `replica ${live.replica}` : "";
  document.title = live ? `${text} – pgbaton ${live.replica}` : "pgbaton";
  byId("problems").replaceChildren(...problems().map((problem) =>
    el("div", { class: `problem ${problem.level}` }, problem.text, problem.hint ? el("span", { class: "hint" }, problem.hint) : null)));
  timeline();
  tiles();
  tables();
  events();
  drawCharts(anew);
  byId("foot").textContent = live ? `pgbaton ${live.version}; times are those of this browser` : "";
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => show(true));
addEventListener("resize", () => drawCharts(false));
(async () => {
  for (;;) {
    if (!document.hidden) await update();
    await new Promise((done) => setTimeout(done, 1000));
  }
})();
