--- ui.page: the page of the live view: one file of HTML, CSS and JavaScript, which loads nothing from elsewhere.
--
-- zklock.ui.app serves it as it is, and computes the hashes of its style and its script for the content security policy. Texts from
-- ZooKeeper come by server-sent events (zklock.ui.model) and go into the page as text only.

return [==[<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>zklock</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cpath
 d='M4 7V5a4 4 0 0 1 8 0v2h1v8H3V7zm2 0h4V5a2 2 0 0 0-4 0z' fill='%231a7f64'/%3E%3C/svg%3E">
<noscript><meta http-equiv="refresh" content="0;url=?table"></noscript>
<style>
:root {
  color-scheme: light dark;
  --bg: light-dark(#f5f6f8, #0d1117); --card: light-dark(#ffffff, #161b22); --text: light-dark(#1c2128, #e6edf3);
  --muted: light-dark(#57606a, #9ba7b4); --line: light-dark(#d8dee4, #2d353f); --faint: light-dark(#eceff2, #1f262e);
  --link: light-dark(#0b57b0, #78b8ff); --hold: light-dark(#1a7f64, #2fa37f); --hold-text: light-dark(#136650, #58cfa8);
  --wait: light-dark(#c98a1b, #c08a2e); --wait-text: light-dark(#855400, #e8b355); --lost: light-dark(#c62828, #e5534b);
  --lost-text: light-dark(#b3201f, #ff8f87); --gone: light-dark(#8b95a1, #667280);
}
:root[data-theme="light"] { color-scheme: light; }
:root[data-theme="dark"] { color-scheme: dark; }
* { box-sizing: border-box; }
[hidden] { display: none !important; }
body { margin: 0; background: var(--bg); color: var(--text); font: 14px/1.45 system-ui, sans-serif; }
a { color: var(--link); }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; border-radius: 3px; }
button, input { font: inherit; color: inherit; }
.skip { position: absolute; left: -999px; }
.skip:focus { left: 8px; top: 8px; z-index: 9; background: var(--card); padding: 6px 10px; }
header { position: sticky; top: 0; z-index: 3; background: var(--card); border-bottom: 1px solid var(--line); }
.bar { display: flex; gap: 12px; align-items: center; max-width: 1320px; margin: auto; padding: 8px 16px; min-height: 48px; }
.brand { font-weight: 700; font-size: 17px; color: var(--text); text-decoration: none; letter-spacing: -.01em; }
.brand svg { width: 15px; height: 15px; margin-right: 6px; vertical-align: -2px; fill: var(--hold); }
.status { display: inline-flex; gap: 7px; align-items: center; color: var(--muted); min-width: 0; }
.status::before { content: ""; flex: none; width: 9px; height: 9px; border-radius: 50%; background: var(--gone); }
.status[data-state="live"]::before { background: var(--hold); }
.status[data-state="stale"]::before { background: var(--wait); border-radius: 2px; }
.status[data-state="away"]::before { background: var(--lost); border-radius: 2px; transform: rotate(45deg); }
.status span { white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
.push { margin-left: auto; display: flex; gap: 4px; }
.quiet { border: 1px solid var(--line); background: transparent; border-radius: 6px; padding: 4px 10px; min-height: 32px;
  cursor: pointer; }
.quiet:hover { background: var(--faint); }
.danger { border: 1px solid var(--lost); color: var(--lost-text); }
main { max-width: 1320px; margin: auto; padding: 16px; }
h1 { font-size: 20px; margin: 0 0 4px; overflow-wrap: anywhere; line-height: 1.3; }
h2 { font-size: 15px; margin: 0; }
.notice { margin: 0 0 14px; padding: 10px 14px; border: 1px solid var(--line); border-left: 4px solid var(--wait);
  background: var(--card); border-radius: 6px; }
.notice.bad { border-left-color: var(--lost); }
.notice ul { margin: 4px 0 0; padding-left: 20px; overflow-wrap: anywhere; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(128px, 1fr)); gap: 10px; margin: 0 0 14px; padding: 0; }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 9px 12px; min-width: 0; }
.tile dt { color: var(--muted); font-size: 12.5px; }
.tile dd { margin: 0; font-size: 20px; font-weight: 600; font-variant-numeric: tabular-nums; line-height: 1.3; }
.tile dd small { font-size: 13px; font-weight: 400; color: var(--muted); }
.tile.bad dd { color: var(--lost-text); }
.tools { display: flex; gap: 8px; flex-wrap: wrap; align-items: center; margin: 0 0 10px; }
.tools input { flex: 1 1 220px; min-width: 0; max-width: 420px; padding: 6px 10px; min-height: 36px; border: 1px solid var(--gone);
  border-radius: 6px; background: var(--card); }
.tools label { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
.choice { display: flex; border: 1px solid var(--line); border-radius: 6px; overflow: hidden; background: var(--card); }
.choice button { border: 0; background: transparent; padding: 6px 12px; min-height: 34px; cursor: pointer; }
.choice button + button { border-left: 1px solid var(--line); }
.choice button[aria-pressed="true"] { background: var(--text); color: var(--card); }
.choice button:focus-visible { outline-offset: -3px; }
.count { color: var(--muted); }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 8px; overflow: hidden; margin: 0 0 14px; }
.card > .head { display: flex; gap: 6px 14px; align-items: baseline; flex-wrap: wrap; padding: 10px 14px;
  border-bottom: 1px solid var(--line); }
.card > .head p, .card > p { margin: 0; color: var(--muted); font-size: 13px; }
.card > p { padding: 14px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 500; color: var(--muted); font-size: 12.5px; padding: 0; background: var(--card);
  white-space: nowrap; }
.locks { table-layout: fixed; }
.locks thead th { border-bottom: 1px solid var(--line); }
th button { all: unset; display: block; box-sizing: border-box; width: 100%; padding: 9px 8px; cursor: pointer; overflow: hidden;
  text-overflow: ellipsis; }
th button:hover { color: var(--text); }
th button:focus-visible { outline: 2px solid var(--link); outline-offset: -2px; }
th[aria-sort] { color: var(--text); }
th[aria-sort="ascending"] button::after { content: " ↑"; }
th[aria-sort="descending"] button::after { content: " ↓"; }
.plain-head th { padding: 9px 8px; }
td { padding: 0 8px; border-top: 1px solid var(--faint); }
.locks td { height: 44px; white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
td:first-child, th:first-child button, .plain-head th:first-child { padding-left: 14px; }
.locks tbody tr:hover td { background: var(--faint); }
.locks td.path { direction: ltr; }
.locks td a { display: block; overflow: hidden; text-overflow: ellipsis; text-decoration: none; font-weight: 500;
  line-height: 1.5; }
.locks td a:hover { text-decoration: underline; }
.locks td a:focus-visible { outline-offset: -2px; }
.sub { display: none; color: var(--muted); font-size: 13px; overflow: hidden; text-overflow: ellipsis; }
.num, th.num button { text-align: right; }
.space td { border: 0; padding: 0; height: auto; }
.red { color: var(--lost-text); }
bdi, .mono { unicode-bidi: isolate; }
.mono { font-family: ui-monospace, "Cascadia Mono", Menlo, monospace; font-size: 12.5px; overflow-wrap: anywhere; }
.tag { display: inline-block; border: 1px solid var(--line); border-radius: 10px; padding: 0 8px; font-size: 12.5px;
  line-height: 20px; color: var(--muted); white-space: nowrap; }
.tag.hold { color: var(--hold-text); border-color: currentColor; }
.tag.wait { color: var(--wait-text); border-color: currentColor; }
.tag.lost { color: var(--lost-text); border-color: currentColor; }
.tags { display: flex; gap: 6px; flex-wrap: wrap; margin: 6px 0 14px; align-items: center; }
.strip { position: relative; height: 16px; background: var(--faint); border-radius: 3px; overflow: hidden; }
.strip i, .track i { position: absolute; top: 0; bottom: 0; min-width: 2px; background: var(--hold); }
.strip i.lost, .track i.lost { background: var(--lost); }
.axis, .lane { display: grid; grid-template-columns: minmax(120px, 210px) 1fr; gap: 12px; padding: 0 14px; align-items: center; }
.axis { color: var(--muted); font-size: 12px; padding-top: 8px; }
.axis .times { display: grid; grid-template-columns: repeat(5, 1fr); }
.axis .times span { white-space: nowrap; }
.axis .times > span:last-child { display: flex; justify-content: space-between; gap: 4px; }
.lane { min-height: 27px; }
.lane .who { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; font-size: 13px; }
.lane.past .who { color: var(--muted); }
.track { position: relative; height: 17px; border-radius: 3px; overflow: hidden; background:
  repeating-linear-gradient(90deg, var(--line) 0 1px, transparent 1px 20%), var(--faint); }
.track i.wait { top: 5px; bottom: 5px; background: repeating-linear-gradient(135deg, var(--wait) 0 4px, transparent 4px 7px); }
.track i.gone { background: var(--gone); }
.track i.open { border-right: 3px solid var(--text); }
.track b { position: absolute; top: 0; font-size: 11px; line-height: 17px; font-weight: 600; color: #fff; background: var(--lost);
  padding: 0 5px; border-radius: 0 3px 3px 0; white-space: nowrap; color-scheme: only light; background: #b3201f; }
.head .choice { margin-left: auto; align-self: center; }
.head .choice button { padding: 2px 10px; min-height: 28px; font-size: 13px; }
.fold { margin: 4px 14px 0; }
.legend { display: flex; gap: 4px 16px; flex-wrap: wrap; padding: 8px 14px 12px; color: var(--muted); font-size: 12.5px; }
.legend span::before { content: ""; display: inline-block; width: 22px; height: 11px; margin-right: 6px; border-radius: 2px;
  vertical-align: -1px; background: var(--hold); }
.legend .wait::before { height: 7px; vertical-align: 1px;
  background: repeating-linear-gradient(135deg, var(--wait) 0 4px, transparent 4px 7px); }
.legend .lost::before { background: var(--lost); }
.legend .gone::before { background: var(--gone); }
.queue td { padding-top: 7px; padding-bottom: 7px; vertical-align: top; }
.queue [data-at] { white-space: nowrap; }
.queue .sub { white-space: normal; overflow-wrap: anywhere; }
.queue .muted, .muted { color: var(--muted); }
p.row { margin: 0 0 10px; }
#hints span { margin-right: 14px; }
.row { display: flex; gap: 10px; flex-wrap: wrap; align-items: center; justify-content: space-between; }
.blank { text-align: center; padding: 48px 20px; color: var(--muted); }
.blank strong { display: block; color: var(--text); font-size: 16px; margin-bottom: 4px; overflow-wrap: anywhere; }
.loading { height: 44px; margin: 0 14px; border-top: 1px solid var(--faint); background:
  linear-gradient(var(--faint), var(--faint)) 0 50% / 45% 12px no-repeat; }
.old .tile, .old .card { filter: grayscale(1); border-style: dashed; }
footer { max-width: 1320px; margin: 0 auto; padding: 4px 16px 28px; color: var(--muted); font-size: 12.5px;
  overflow-wrap: anywhere; }
kbd { font: inherit; border: 1px solid var(--line); border-radius: 4px; padding: 0 5px; background: var(--card); }
dialog { border: 1px solid var(--line); border-radius: 10px; background: var(--card); color: var(--text); padding: 18px;
  max-width: min(460px, 92vw); overflow-wrap: anywhere; }
dialog::backdrop { background: rgb(0 0 0 / .5); }
dialog p { margin: 8px 0 16px; }
dialog .row { justify-content: flex-end; }
.plain table { background: var(--card); border: 1px solid var(--line); }
.plain th, .plain td { padding: 7px 10px; overflow-wrap: anywhere; }
@media (max-width: 1240px) { .w3 { display: none; } }
@media (max-width: 1000px) { .w2 { display: none; } }
@media (max-width: 680px) {
  main { padding: 12px; }
  .bar { padding: 6px 12px; gap: 8px; }
  .w1 { display: none; }
  .locks td { height: 60px; }
  .sub { display: block; }
  .tiles { grid-template-columns: repeat(3, 1fr); gap: 6px; }
  #list-tiles { display: flex; flex-wrap: wrap; gap: 2px 14px; }
  #list-tiles .tile { display: flex; gap: 5px; align-items: baseline; padding: 0; border: 0; background: none; }
  #lock-tiles { grid-template-columns: repeat(6, 1fr); }
  #lock-tiles .tile { grid-column: span 2; }
  #lock-tiles .tile:nth-child(n+4) { grid-column: span 3; }
  .tile { padding: 6px 8px; }
  .tile dt { font-size: 12px; line-height: 1.25; }
  .tile dd { font-size: 14px; white-space: nowrap; }
  .axis .times > span:nth-child(even), .axis .times > span:last-child span:first-child { visibility: hidden; }
  .axis, .lane { grid-template-columns: 1fr; gap: 2px; }
  .lane { padding-top: 4px; }
  .axis .who { display: none; }
  .quiet { padding: 4px 8px; }
  .queue .tag { white-space: normal; }
  .queue bdi { overflow-wrap: anywhere; font-weight: 600; }
  .queue thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  .queue tr { display: grid; grid-template-columns: 1fr auto; border-top: 1px solid var(--faint); padding: 7px 14px; }
  .queue td:not(.w1):not(.w2) { padding: 0; border: 0; }
  .queue td.number { display: none; }
  .queue td.who { display: contents; }
  .queue td.who > :first-child { order: -2; }
  .queue td.who > .tag { justify-self: start; }
  .queue td.who > .sub { grid-column: 1 / 3; order: 1; }
  .queue td[data-when] { order: -1; }
  .queue td.what { grid-column: 1 / 3; }
  .card > .head { gap: 6px; }
  .head .choice { margin-left: 0; }
  h1 { font-size: 17px; }
}
@media (forced-colors: active) { .strip i, .track i { forced-color-adjust: none; } }
</style>
</head>
<body>
<a class="skip" href="#main" id="skip"></a>
<header>
<div class="bar">
<a class="brand" href="#/"><svg viewBox="0 0 16 16" aria-hidden="true"><path
 d="M4 7V5a4 4 0 0 1 8 0v2h1v8H3V7zm2 0h4V5a2 2 0 0 0-4 0z"/></svg>zklock</a>
<div class="status" id="status" role="status" data-state="wait"><span id="status-text"></span></div>
<div class="push">
<button class="quiet" id="language" type="button"></button>
<button class="quiet" id="theme" type="button"></button>
</div>
</div>
</header>
<main id="main" tabindex="-1">
<div class="notice" id="notice" hidden></div>
<div class="notice bad" id="deadlocks" hidden></div>
<section id="list">
<h1 data-text="locks"></h1>
<dl class="tiles" id="list-tiles"></dl>
<div class="tools">
<label for="search" data-text="search"></label>
<input id="search" type="search" autocomplete="off" spellcheck="false">
<div class="choice" id="filter" role="group"></div>
<span class="count" id="count" aria-live="polite"></span>
</div>
<div class="card">
<table class="locks" id="locks"><thead><tr id="columns"></tr></thead><tbody id="rows"></tbody></table>
<div id="skeleton" aria-hidden="true"><div class="loading"></div><div class="loading"></div><div class="loading"></div></div>
<div class="blank" id="blank" hidden><strong id="blank-title"></strong><span id="blank-text"></span></div>
</div>
</section>
<section id="lock" hidden>
<p class="row"><a href="#/" data-text="all" id="back"></a>
<button class="quiet danger" id="revoke" type="button" hidden data-text="revoke"></button></p>
<h1 class="path" id="lock-path"></h1>
<div class="tags" id="lock-tags"></div>
<div class="card blank" id="none" hidden><strong id="none-title"></strong><span data-text="missingText"></span></div>
<dl class="tiles" id="lock-tiles"></dl>
<div class="card" id="lanes-card"><div class="head"><h2 data-text="lanes"></h2><p id="lanes-note"></p>
<div class="choice" id="span" role="group"></div></div>
<div id="lanes" role="img"></div><button class="quiet fold" id="fold" type="button" hidden></button>
<div class="legend" id="legend"></div></div>
<div class="card" id="queue-card"><div class="head"><h2 data-text="queue"></h2><p id="queue-note"></p></div>
<table class="queue"><thead class="plain-head"><tr id="queue-columns"></tr></thead><tbody id="queue-rows"></tbody></table>
<p id="queue-empty" hidden></p></div>
<div class="card" id="ended-card"><div class="head"><h2 data-text="ended"></h2><p id="ended-note"></p></div>
<table class="queue"><thead class="plain-head"><tr id="ended-columns"></tr></thead><tbody id="ended-rows"></tbody></table></div>
</section>
<div class="card" id="own" hidden><div class="head"><h2 id="own-title"></h2><p data-text="ownNote"></p></div>
<p id="own-text"></p></div>
</main>
<footer><p id="hints"></p><p id="source"></p></footer>
<dialog id="confirm" aria-labelledby="confirm-title"><h2 id="confirm-title" data-text="revoke"></h2><p id="confirm-text"></p>
<div class="row"><button class="quiet" id="confirm-no" type="button" data-text="cancel"></button>
<button class="quiet danger" id="confirm-yes" type="button" data-text="ask"></button></div></dialog>
<script>
"use strict";
const TEXTS = {
en: {
  skip: "Skip to content", locks: "Locks", search: "Search by path, kind or holder", all: "← All locks", language: "中文",
  languageLabel: "切换到中文", theme: { auto: "Theme: auto", light: "Theme: light", dark: "Theme: dark" },
  live: "Live", loading: "Loading…", away: "Disconnected from the server", stale: "ZooKeeper is out of reach", closed: "Ended",
  reading: "Waiting for ZooKeeper", login: "Token needed",
  awayNote: "This page has no connection to its server. It tries again by itself.", closedNote: "The server has ended this view.",
  staleNote: "The server has no answer from ZooKeeper: {0}.", seen: "What you see is from {0}.",
  states: { connecting: "it is connecting", suspended: "the connection is lost", auth_failed: "the credentials are refused" },
  full: "Too many viewers", fullNote: "The server has no room for another viewer. This page tries again by itself.",
  loginNote: "Open the address that zklock ui has printed. Its token can be used once.",
  truncated: "There are too many directories, or their names are too long: some locks are not shown.",
  columns: { path: "Lock", kind: "Kind", state: "State", holder: "Held by", since: "For", waiters: "Waiting", rate: "Grants/s",
    wait: "Wait p99", hold: "Hold p99", strip: "Last 5 minutes" },
  kinds: { mutex: "mutex", rwlock: "read/write", semaphore: "semaphore", latch: "latch", free: "–", none: "–" },
  trouble: { deadlock: "deadlock", lost: "lost", away: "away", stray: "stray", long: "long" },
  deadlock: "Deadlock, unless one of them waits in a thread of its own:", deadlockStep: "{0} holds {1} and waits for {2}",
  deadlockMore: "and {0} more",
  free: "free", held: "held", holding: "{0} hold", of: "{0} of {1}", leftOf: "{0} of {1} left", open: "open", more: "+{0}",
  filters: { any: "All", held: "Held", queue: "With a queue", bad: "Trouble" },
  tiles: { locks: "Locks", held: "Held", waiting: "Waiting", rate: "Grants per second", lost: "Lost in 5 minutes",
  long: "Held for long" },
  shown: "{0} of {1}", noLocks: "No locks below {0}",
  noLocksText: "A lock appears here as soon as a program asks for it.", noMatch: "Nothing matches",
  noMatchText: "Escape clears the search.",
  waitingCount: "{0} waiting", long: "held for longer than 99 % of its holds", lostTag: "lost {0} ago",
  awayTag: "a holder's client is not connected", strays: "{0} strays",
  holdFor: "Held for", queueLength: "Waiting", waitTile: "Wait: median / p99", holdTile: "Hold: median / p99",
  rateTile: "Grants per second",
  observed: "Seen since {0}, at most one reading a second: shorter holds can be missed.",
  lanes: "Who held when", span: "Time that is shown", fold: "▸ {0} ended", unfold: "▾ {0} ended",
  legend: { hold: "holds", wait: "waits", lost: "lost", gone: "ended: released or lost" },
  lanesLabel: "Lanes of {0} contenders. The tables below say the same in words.", nowMark: "now",
  ago: "−{0}",
  queue: "Queue", queueNote: "{0} contenders, the first {1} are shown", nobody: "Nobody holds this lock, and nobody waits for it.",
  missing: "no lock", none: "There is no lock {0}", missingText: "It appears here as soon as a program asks for it.",
  queueColumns: ["No.", "State", "Identity", "Since", "Session", "Node"], holds: "holds", pending: "prepared",
  next: "next", ahead: "{0} ahead", after: "after {0}", expected: "about {0}",
  waitsPermit: "next: waits for a permit", reads: "shared", permits: "permits: {0}", asked: "asked to release",
  sessions: { connected: "connected", disconnected: "not connected", unknown: "unknown", gone: "ended" },
  stray: { persistent: "stray: persistent node", gone: "stray: its session has ended" },
  ended: "Ended", endedNote: "Who gave the lock back, gave up, or lost it, since {0}.",
  endedColumns: ["End", "Identity", "Waited", "Held", "When"],
  fates: { left: "gave up waiting", brief: "held too briefly to be seen, or gave up", served: "got its permits",
  released: "released", pending: "ended", lost: "lost: its session ended while it held",
    ended: "ended: released or lost is unknown", unseen: "ended while nobody looked" },
  agoText: "{0} ago", unknown: "(unknown)", revoke: "Ask to release", cancel: "Cancel", ask: "Ask the holders",
  confirm: "Ask the holders of {0} to release it? A program may ignore this, or stop its work in the middle of it.",
  asked_n: "{0} holders were asked to release {1}.", refused: "Not asked: {0}",
  own: "Only in the process {0}", ownNote: "What no other process can see: locks of the program that serves this page.",
  ownText: "holds {0}, waits for {1}, handoffs {2}, losses {3}", lease: "lease of {0}: {1} left",
  hints: ["search", "next, previous", "back"], source: "Served by {0} · viewers: {1} · read at {2}", sessionsUnknown:
    "The servers do not tell about sessions (words cons, dump): a lost lock looks like a released one.",
  unreadable: "Directories that may not be read: {0}",
  units: ["{0} ms", "{0} s", "{0} min", "{0} h", "{0} d"]
},
zh: {
  skip: "跳到正文", locks: "锁", search: "按路径、类型或持有者搜索", all: "← 所有锁", language: "EN", languageLabel: "Switch to English",
  theme: { auto: "主题：自动", light: "主题：浅色", dark: "主题：深色" },
  live: "实时", loading: "加载中…", away: "与服务器断开", stale: "无法连接 ZooKeeper", closed: "已结束", reading: "等待 ZooKeeper", login: "需要令牌",
  awayNote: "本页与服务器断开，正在自动重连。", closedNote: "服务器已结束此视图。",
  staleNote: "服务器收不到 ZooKeeper 的回答：{0}。", seen: "显示的是 {0} 的内容。",
  states: { connecting: "正在连接", suspended: "连接已断开", auth_failed: "凭据被拒绝" },
  full: "查看者过多", fullNote: "服务器没有空位给更多查看者。本页会自动重试。",
  loginNote: "请打开 zklock ui 输出的地址。其中的令牌只能使用一次。",
  truncated: "目录过多或名称过长：部分锁未显示。",
  columns: { path: "锁", kind: "类型", state: "状态", holder: "持有者", since: "时长", waiters: "等待", rate: "授予/秒", wait: "等待 p99",
    hold: "持有 p99", strip: "最近 5 分钟" },
  kinds: { mutex: "互斥锁", rwlock: "读写锁", semaphore: "信号量", latch: "门闩", free: "–", none: "–" },
  trouble: { deadlock: "死锁", lost: "丢失", away: "离线", stray: "遗留", long: "过久" },
  deadlock: "死锁（除非其中一个在单独的线程里等待）：", deadlockStep: "{0} 持有 {1}，等待 {2}", deadlockMore: "另有 {0} 个",
  free: "空闲", held: "被持有", holding: "{0} 个持有", of: "{0} / {1}", leftOf: "剩 {0} / {1}", open: "已打开", more: "+{0}",
  filters: { any: "全部", held: "被持有", queue: "有排队", bad: "异常" },
  tiles: { locks: "锁", held: "被持有", waiting: "等待", rate: "每秒授予", lost: "5 分钟内丢失", long: "持有过久" },
  shown: "{0} / {1}", noLocks: "{0} 之下没有锁", noLocksText: "一旦有程序请求锁，就会出现在这里。", noMatch: "没有匹配项", noMatchText: "按 Esc 清除搜索。",
  waitingCount: "{0} 个等待", long: "比 99 % 的持有更久", lostTag: "{0} 前丢失", awayTag: "有持有者的客户端未连接",
  strays: "{0} 个遗留节点", holdFor: "已持有", queueLength: "等待", waitTile: "等待：中位数 / p99", holdTile: "持有：中位数 / p99", rateTile: "每秒授予",
  observed: "自 {0} 起观察，每秒最多读取一次：更短的持有可能看不到。",
  lanes: "谁何时持有", span: "显示的时间", fold: "▸ 已结束 {0} 个", unfold: "▾ 已结束 {0} 个",
  legend: { hold: "持有", wait: "等待", lost: "丢失", gone: "结束：释放或丢失" },
  lanesLabel: "{0} 个竞争者的时间线。下方表格有相同内容。", nowMark: "现在", ago: "−{0}",
  queue: "队列", queueNote: "{0} 个竞争者，显示前 {1} 个", nobody: "没有持有者，也没有等待者。",
  missing: "没有锁", none: "没有 {0} 这把锁", missingText: "一旦有程序请求锁，就会出现在这里。",
  queueColumns: ["编号", "状态", "标识", "时间", "会话", "节点"], holds: "持有", pending: "已预备", waitsPermit: "队首：等待许可",
  next: "下一个", ahead: "前面 {0} 个", after: "在 {0} 之后", expected: "约 {0}", reads: "共享", permits: "许可：{0}", asked: "已被请求释放",
  sessions: { connected: "已连接", disconnected: "未连接", unknown: "未知", gone: "已结束" },
  stray: { persistent: "遗留：持久节点", gone: "遗留：会话已结束" },
  ended: "已结束", endedNote: "自 {0} 起，谁释放、放弃或丢失了锁。", endedColumns: ["结局", "标识", "等待", "持有", "何时"],
  fates: { left: "放弃等待", brief: "持有太短未被看到，或已放弃", served: "获得许可", released: "已释放", pending: "已结束", lost: "丢失：持有期间会话结束",
  ended: "结束：不知是释放还是丢失", unseen: "结束时无人观察" },
  agoText: "{0} 前", unknown: "（未知）", revoke: "请求释放", cancel: "取消", ask: "请求持有者",
  confirm: "请求 {0} 的持有者释放它？程序可以忽略请求，也可能中途停止工作。", asked_n: "已请求 {0} 个持有者释放 {1}。", refused: "未请求：{0}",
  own: "仅进程 {0} 可见", ownNote: "其他进程看不到的内容：提供本页的程序自己的锁。", ownText: "持有 {0}，等待 {1}，移交 {2}，丢失 {3}",
  lease: "{0} 的租约：剩余 {1}", hints: ["搜索", "下一个、上一个", "返回"], source: "由 {0} 提供 · 查看者：{1} · 读取于 {2}",
  sessionsUnknown: "服务器不提供会话信息（cons、dump）：丢失的锁与释放的锁看起来一样。",
  unreadable: "无权读取的目录：{0}",
  units: ["{0} 毫秒", "{0} 秒", "{0} 分", "{0} 小时", "{0} 天"]
}};

const WINDOW = 300, SILENCE = 25000, $ = (id) => document.getElementById(id);
const store = {
  get(key) { try { return localStorage.getItem("zklock-" + key); } catch { return null; } },
  set(key, value) { try { localStorage.setItem("zklock-" + key, value); } catch { /* private mode */ } }
};
let language = store.get("language") || (/^zh/i.test(navigator.language || "") ? "zh" : "en"), T = TEXTS[language] || TEXTS.en;
const fill = (text, ...values) => text.replace(/\{(\d)\}/g, (_, index) => String(values[index]));

function make(tag, className, ...content) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...content);
  return element;
}
function write(element, text) { if (element.textContent !== text) element.textContent = text; }
// A path with what is invisible, or changes the direction of text, replaced. Links need it as it is.
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;
const clean = (path) => path.replace(HIDDEN, "\ufffd");
const name = (text) => make("bdi", "", text);

function duration(seconds) {
  if (seconds === undefined || seconds === null) return "–";
  const s = Math.max(0, seconds);
  if (s < 1) return fill(T.units[0], Math.round(s * 1000));
  if (s < 10) return fill(T.units[1], s.toFixed(1));
  if (s < 120) return fill(T.units[1], Math.floor(s));
  if (s < 7200) return fill(T.units[2], Math.floor(s / 60));
  if (s < 172800) return fill(T.units[3], Math.floor(s / 3600));
  return fill(T.units[4], Math.floor(s / 86400));
}
const clockText = (seconds) => seconds ? new Date(seconds * 1000).toLocaleTimeString(language === "zh" ? "zh-CN" : "en-GB") : "–";
const rateText = (rate) => rate === 0 ? "0" : rate >= 10 ? String(Math.round(rate)) : rate >= 0.095 ? rate.toFixed(1) : "<0.1";

// What is known ---------------------------------------------------------------------------------------------------------

const locks = new Map();
let frame = null, frameAt = 0, loaded = false, link = "loading", heardAt = 0, shownPath = null, lock = null;
const now = () => frame ? frame.now + (performance.now() - frameAt) / 1000 : Date.now() / 1000;

const isLong = (item) => item.figures.long !== undefined && item.since !== undefined && now() - item.since > item.figures.long;
const isLost = (item) => item.lost !== undefined && now() - item.lost < WINDOW;
const concerns = (path) => (one) => one.steps.some((step) => step.holds === path);
const isDeadlocked = (item) => frame !== null && frame.deadlocks.some(concerns(item.path));
const isBad = (item) => isDeadlocked(item) || isLost(item) || isLong(item) || item.strays > 0 || item.away === true;

function stateText(item) {
  if (item.kind === "latch") return item.left === 0 ? T.open : fill(T.leftOf, item.left, item.count);
  if (item.kind === "semaphore" && item.limit !== undefined) return fill(T.of, item.holders, item.limit);
  if (item.holders === 0) return T.free;
  return item.holders === 1 ? T.held : fill(T.holding, item.holders);
}
function holderText(item) {
  return item.names.join(", ") + (item.more > 0 ? " " + fill(T.more, item.more) : "");
}

// The connection --------------------------------------------------------------------------------------------------------

let events = null, retry = 0;
function connect() {
  clearTimeout(retry);
  if (events) events.close();
  const path = shownPath;
  heardAt = performance.now();
  events = new EventSource("?events" + (path === null ? "" : "&lock=" + encodeURIComponent(path)));
  const take = (handler) => (event) => {
    heardAt = performance.now();
    const data = JSON.parse(event.data);
    frame = data.frame; frameAt = performance.now(); link = "open";
    handler(data);
    schedule();
  };
  const show = (all) => take((data) => {
    if (path !== null) {
      lock = data.locks[0] || lock; loaded = true;
      if (data.locks[0]) addPast(data.locks[0].ended);
      return;
    }
    if (all) locks.clear();
    for (const item of data.locks) locks.set(item.path, item);
    for (const gone of data.gone) locks.delete(gone);
    loaded = true; order = null;
  });
  if (path !== null) loadPast(path);
  events.addEventListener("snapshot", show(true));
  events.addEventListener("change", show(false));
  events.addEventListener("beat", take(() => {}));
  events.addEventListener("error", () => { if (events) away(events.readyState === EventSource.CLOSED); });
}
function away(ended) {
  if (link !== "login" && link !== "full") link = "away";
  schedule();
  if (!ended) return;
  clearTimeout(retry);
  retry = setTimeout(async () => {
    try {
      const answer = await fetch("?events", { method: "HEAD" });
      link = answer.status === 401 ? "login" : answer.headers.get("X-Zklock") === "full" ? "full" : "away";
    } catch { link = "away"; }
    schedule();
    if (link !== "login") connect();
  }, 2000);
}
async function begin() {
  const token = /^#token=([0-9a-f]+)$/.exec(location.hash);
  if (token) {
    history.replaceState(null, "", location.pathname);
    await fetch("?login", { method: "POST", body: token[1] }).catch(() => {});
  }
  route();
}

// Drawing ---------------------------------------------------------------------------------------------------------------

let scheduled = false;
function schedule() {
  if (!scheduled) { scheduled = true; requestAnimationFrame(() => { scheduled = false; draw(); }); }
}
function draw() {
  drawStatus(); drawDeadlocks();
  if (shownPath === null) drawList(); else drawLock();
  drawOwn();
}

function drawStatus() {
  let state = "wait", text = T.loading, note = "", bad = false;
  const at = clockText(frame && frame.read_at), seen = frame && frame.read_at ? " " + fill(T.seen, at) : "";
  if (link === "login") { state = "away"; text = T.login; note = T.loginNote; bad = true;
  } else if (link === "full") { state = "away"; text = T.full; note = T.fullNote + seen; bad = true;
  } else if (link === "away") { state = "away"; text = T.away; note = T.awayNote + seen; bad = true;
  } else if (frame && frame.state === "closed") { state = "away"; text = T.closed; note = T.closedNote + seen; bad = true;
  } else if (frame && (frame.problem || frame.state !== "connected")) {
    state = "stale"; text = T.stale;
    note = fill(T.staleNote, frame.problem || T.states[frame.state] || frame.state) + seen;
  } else if (frame && !frame.read_at) { text = T.reading;
  } else if (frame && loaded) { state = "live"; text = T.live; }
  if (!note && frame && frame.truncated) note = T.truncated;
  $("status").dataset.state = state;
  write($("status-text"), text);
  if (!note && toast) note = toast;
  $("notice").hidden = !note;
  $("notice").classList.toggle("bad", bad);
  write($("notice"), note);
  document.body.classList.toggle("old", state === "away" || state === "stale");
  const parts = frame ? [fill(T.source, frame.process, frame.viewers, at)] : [];
  if (frame && frame.unreadable) parts.push(fill(T.unreadable, frame.unreadable));
  if (frame && frame.sessions === "unknown") parts.push(T.sessionsUnknown);
  write($("source"), parts.join(" · "));
}
function drawDeadlocks() {
  const shown = (frame ? frame.deadlocks : []).filter((one) => shownPath === null || concerns(shownPath)(one));
  $("deadlocks").hidden = shown.length === 0;
  const describe = (step) => fill(T.deadlockStep, step.program, clean(step.holds), clean(step.waits_for));
  const lines = shown.map((one) => [T.deadlock, ...one.steps.map(describe), ...(one.more ? [fill(T.deadlockMore, one.more)] : [])]);
  if ($("deadlocks").dataset.key === JSON.stringify(lines)) return;
  $("deadlocks").dataset.key = JSON.stringify(lines);
  $("deadlocks").replaceChildren(...lines.map(([title, ...steps]) => {
    return make("div", "", title, make("ul", "", ...steps.map((step) => make("li", "", step))));
  }));
}
function tile(parent, key, label, value, className) {
  let box = parent.querySelector(`[data-key="${key}"]`);
  if (!box) {
    box = make("div", "tile", make("dt"), make("dd")); box.dataset.key = key;
    parent.append(box);
  }
  box.className = "tile" + (className ? " " + className : "");
  write(box.firstChild, label); write(box.lastChild, value);
}

// The list

const COLUMNS = [
  ["path", "", "", (a) => a.path], ["kind", "96px", "w3", (a) => a.kind], ["state", "156px", "w1", (a) => a.holders],
  ["holder", "16%", "w1", (a) => a.names[0] || "\uffff"], ["since", "84px", "w1", (a) => a.since ?? Infinity],
  ["waiters", "80px", "num", (a) => -a.waiters], ["rate", "78px", "num w2", (a) => -a.figures.rate],
  ["wait", "84px", "num w2", (a) => -(a.figures.wait.p99 ?? -1)], ["hold", "84px", "num w2", (a) => -(a.figures.hold.p99 ?? -1)],
  ["strip", "12%", "w1", null]
];
let sortKey = store.get("sort") || "path", sortDown = store.get("down") === "1", filter = "any", order = null;

function buildColumns() {
  const row = $("columns");
  row.replaceChildren();
  for (const [key, width, className, value] of COLUMNS) {
    const cell = make("th", className);
    cell.scope = "col"; cell.style.width = width;
    const button = make("button", "", T.columns[key]);
    if (value) {
      button.type = "button";
      button.addEventListener("click", () => {
        sortDown = sortKey === key ? !sortDown : false; sortKey = key;
        store.set("sort", key); store.set("down", sortDown ? "1" : "0");
        markSort(); order = null; schedule();
      });
    } else button.disabled = true;
    cell.append(button); row.append(cell);
  }
  markSort();
}
function markSort() {
  COLUMNS.forEach(([key], index) => {
    const cell = $("columns").children[index];
    if (key === sortKey) cell.setAttribute("aria-sort", sortDown ? "descending" : "ascending");
    else cell.removeAttribute("aria-sort");
  });
}
// A group of buttons of which one is chosen: pairs of value and text.
function buildChoice(group, label, pairs, chosen, choose) {
  group.setAttribute("aria-label", label);
  group.replaceChildren(...pairs.map(([value, text]) => {
    const button = make("button", "", text);
    button.type = "button"; button.setAttribute("aria-pressed", String(value === chosen));
    button.addEventListener("click", () => {
      choose(value); buildChoice(group, label, pairs, value, choose);
      group.querySelector("[aria-pressed=true]").focus(); schedule();
    });
    return button;
  }));
}
const FILTERS = { any: () => true, held: (a) => a.holders > 0, queue: (a) => a.waiters > 0, bad: isBad };

function arrange() {
  const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const kept = [];
  for (const item of locks.values()) {
    if (!FILTERS[filter](item)) continue;
    if (words.length) {
      const text = (item.path + " " + item.kind + " " + (T.kinds[item.kind] || "") + " " + item.names.join(" ")).toLowerCase();
      if (!words.every((word) => text.includes(word))) continue;
    }
    kept.push(item);
  }
  const value = (COLUMNS.find(([key]) => key === sortKey) || COLUMNS[0])[3], sign = sortDown ? -1 : 1;
  const keys = new Map(kept.map((item) => [item, value(item)]));
  kept.sort((a, b) => {
    const x = keys.get(a), y = keys.get(b);
    return x < y ? -sign : x > y ? sign : a.path < b.path ? -1 : 1;
  });
  return kept;
}

const rows = new Map();
function makeRow(item) {
  const row = { item: null, tr: make("tr"), cells: {} };
  for (const [key, , className] of COLUMNS) {
    const cell = make("td", className + (key === "path" ? " path" : ""));
    row.cells[key] = cell; row.tr.append(cell);
  }
  const anchor = make("a", "", name(clean(item.path)));
  anchor.href = "#/lock/" + encodeURIComponent(item.path); anchor.title = clean(item.path);
  row.text = make("span"); row.small = make("span", "red"); row.strip = make("div", "strip");
  row.cells.path.append(anchor, make("span", "sub", row.small, row.text)); row.cells.strip.append(row.strip);
  row.cells.holder.append(name("")); row.tag = make("span", "tag"); row.bad = make("span", "tag lost");
  row.cells.state.append(row.tag, " ", row.bad);
  return row;
}
function updateRow(row, item) {
  const age = item.since === undefined ? "–" : duration(now() - item.since), holders = holderText(item);
  write(row.cells.since, age);
  write(row.text, stateText(item) + (item.holders ? " · " + age + " · " + holders : ""));
  const trouble = isDeadlocked(item) ? "deadlock" : isLost(item) ? "lost" : item.away ? "away" : item.strays ? "stray"
    : isLong(item) ? "long" : "";
  drawStrip(row.strip, item.strip);
  row.tag.className = "tag" + (item.holders ? " hold" : "");
  write(row.tag, stateText(item));
  row.bad.hidden = !trouble;
  write(row.bad, trouble ? T.trouble[trouble] : "");
  write(row.small, trouble ? T.trouble[trouble] + " · " : "");
  if (row.item === item) return;
  row.item = item;
  write(row.cells.kind, T.kinds[item.kind] || item.kind);
  write(row.cells.holder.firstChild, holders || "–"); row.cells.holder.title = holders;
  write(row.cells.waiters, item.waiters ? String(item.waiters) : "–");
  write(row.cells.rate, rateText(item.figures.rate));
  write(row.cells.wait, duration(item.figures.wait.p99));
  write(row.cells.hold, duration(item.figures.hold.p99));
}
function place(element, from, to, time, span) {
  const left = Math.max(0, 100 * (1 - (time - from) / span)), right = Math.min(100, 100 * (1 - (time - to) / span));
  element.hidden = right <= 0;
  element.style.left = left + "%"; element.style.width = Math.max(0, right - left) + "%";
}
function drawStrip(strip, intervals) {
  const time = now();
  while (strip.childNodes.length > intervals.length) strip.lastChild.remove();
  while (strip.childNodes.length < intervals.length) strip.append(make("i"));
  intervals.forEach(([from, to, lost], index) => {
    const piece = strip.childNodes[index];
    piece.className = lost ? "lost" : "";
    place(piece, from, to || time, time, WINDOW);
  });
}
function drawList() {
  const all = [...locks.values()];
  let held = 0, waiting = 0, rate = 0, lost = 0, long = 0;
  for (const item of all) {
    held += item.holders > 0 ? 1 : 0; waiting += item.waiters; rate += item.figures.rate;
    lost += isLost(item) ? 1 : 0; long += isLong(item) ? 1 : 0;
  }
  const none = !loaded || !frame || !frame.read_at, tiles = $("list-tiles"), text = (value) => none ? "–" : String(value);
  tile(tiles, "locks", T.tiles.locks, text(all.length)); tile(tiles, "held", T.tiles.held, text(held));
  tile(tiles, "waiting", T.tiles.waiting, text(waiting)); tile(tiles, "rate", T.tiles.rate, none ? "–" : rateText(rate));
  tile(tiles, "long", T.tiles.long, text(long)); tile(tiles, "lost", T.tiles.lost, text(lost), lost ? "bad" : "");
  $("skeleton").hidden = !none;
  $("locks").hidden = none || all.length === 0;
  if (order === null) order = arrange();
  $("blank").hidden = none || order.length > 0;
  if (!$("blank").hidden) {
    const empty = all.length === 0;
    write($("blank-title"), empty ? fill(T.noLocks, (frame.paths || []).join(", ")) : T.noMatch);
    write($("blank-text"), empty ? T.noLocksText : T.noMatchText);
  }
  write($("count"), none || !all.length ? "" : fill(T.shown, order.length, all.length));
  drawRows();
}

// Only the rows in the window exist: a thousand locks scroll like ten.
const above = make("tr", "space"), below = make("tr", "space");
for (const row of [above, below]) {
  row.append(make("td")); row.setAttribute("aria-hidden", "true");
}
function drawRows() {
  const body = $("rows"), top = body.getBoundingClientRect().top;
  const rowHeight = matchMedia("(max-width: 680px)").matches ? 61 : 45;
  const first = Math.max(0, Math.floor(-top / rowHeight) - 8);
  const last = Math.min(order.length, Math.ceil((innerHeight - top) / rowHeight) + 8);
  const kept = new Set(), wanted = [];
  const focused = document.activeElement && document.activeElement.closest ? document.activeElement.closest("tr") : null;
  for (let index = first; index < last; index++) {
    const item = order[index];
    let row = rows.get(item.path);
    if (!row) { row = makeRow(item); rows.set(item.path, row); }
    row.tr.setAttribute("aria-rowindex", String(index + 2));
    updateRow(row, item); kept.add(item.path); wanted.push(row.tr);
  }
  for (const [path, row] of rows) if (!kept.has(path) && row.tr !== focused) { row.tr.remove(); rows.delete(path); }
  above.firstChild.style.height = first * rowHeight + "px";
  below.firstChild.style.height = Math.max(0, order.length - last) * rowHeight + "px";
  above.hidden = first === 0; below.hidden = last >= order.length;
  $("locks").setAttribute("aria-rowcount", String(order.length + 1));
  let at = body.firstChild;
  for (const tr of [above, ...wanted, below]) {
    if (tr === at) { at = at.nextSibling; } else { body.insertBefore(tr, at); }
  }
  while (at) { const next = at.nextSibling; if (at !== focused) at.remove(); at = next; }
}

// The page of a lock

function columns(parent, labels, optional) {
  parent.replaceChildren(...labels.map((label, index) => {
    const cell = make("th", optional[index] || "", label);
    cell.scope = "col";
    return cell;
  }));
}
const identityOf = (item) => item.identity || (item.library ? `(${item.library})` : T.unknown);
function whenCell(...content) { const cell = make("td", "", ...content); cell.dataset.when = ""; return cell; }
// The time since then, which drawLock keeps up to date.
function ageSince(at, form = "") {
  const age = make("span");
  age.dataset.at = String(at); age.dataset.form = form;
  return age;
}
function tag(text, className) { return make("span", "tag" + (className ? " " + className : ""), text); }

let drawnLock = null, drawnPast = -1;
// Contenders of the shown lock that have ended, by their nodes: what the server remembers, and what has ended since.
const past = new Map(), DAY = 86400, PAST = 2000, SPANS = [[60, 2, 1], [300, 2, 5], [900, 2, 15], [3600, 3, 1], [DAY, 4, 1]];
let span = Number(store.get("span")) || 300, folded = true;
async function loadPast(path) {
  const answer = await fetch("?history&lock=" + encodeURIComponent(path)).catch(() => null);
  if (answer && answer.ok && path === shownPath) { addPast((await answer.json()).ended); schedule(); }
}
function addPast(list) {
  for (const one of list) past.set(one.node, one);
  for (const node of past.keys()) if (past.size > PAST) past.delete(node);
}
// The latest first.
const pastSince = (since) => [...past.values()].filter((one) => one.ended > since).sort((a, b) => b.ended - a.ended);
function drawLock() {
  const item = lock;
  write($("lock-path"), clean(shownPath));
  document.title = clean(shownPath) + " – zklock";
  $("revoke").hidden = !(frame && frame.revoke && item && item.holders > 0);
  if (!item) return;
  const none = item.missing === true && past.size === 0;
  $("none").hidden = !none;
  write($("none-title"), fill(T.none, clean(shownPath)));
  for (const part of ["lock-tiles", "lanes-card", "queue-card"]) $(part).hidden = none;
  const tags = item.missing ? [tag(T.missing)]
    : [tag(T.kinds[item.kind] || item.kind), tag(stateText(item), item.holders ? "hold" : "")];
  if (item.waiters) tags.push(tag(fill(T.waitingCount, item.waiters), "wait"));
  if (isDeadlocked(item)) tags.push(tag(T.trouble.deadlock, "lost"));
  if (isLong(item)) tags.push(tag(T.long, "lost"));
  if (item.away) tags.push(tag(T.awayTag, "lost"));
  if (item.strays) tags.push(tag(fill(T.strays, item.strays), "lost"));
  if (isLost(item)) tags.push(tag(fill(T.lostTag, duration(now() - item.lost)), "lost"));
  const key = tags.map((one) => one.textContent).join("|");
  if ($("lock-tags").dataset.key !== key) { $("lock-tags").dataset.key = key; $("lock-tags").replaceChildren(...tags); }
  const pair = (figure) => figure.count ? `${duration(figure.p50)} / ${duration(figure.p99)}` : "–", tiles = $("lock-tiles");
  tile(tiles, "for", T.holdFor, item.since === undefined ? "–" : duration(now() - item.since), isLong(item) ? "bad" : "");
  tile(tiles, "queue", T.queueLength, String(item.waiters)); tile(tiles, "rate", T.rateTile, rateText(item.figures.rate));
  tile(tiles, "wait", T.waitTile, pair(item.figures.wait)); tile(tiles, "hold", T.holdTile, pair(item.figures.hold));
  drawLanes(item);
  if (drawnLock !== item || drawnPast !== past.size) {
    drawQueue(item); drawEnded(); drawnLock = item; drawnPast = past.size;
  }
  for (const cell of document.querySelectorAll("[data-at]")) {
    write(cell, fill(cell.dataset.form === "ago" ? T.agoText : "{0}", duration(now() - Number(cell.dataset.at))));
  }
}
function drawQueue(item) {
  columns($("queue-columns"), T.queueColumns, ["", "", "", "", "w1", "w2"]);
  const byNode = new Map(item.contenders.map((one) => [one.node, one]));
  const permits = new Map(), permitsOf = (one) => [one.session, identityOf(one), one.holder, one.stray].join("|");
  for (const one of item.contenders) if (one.mode === "lease") permits.set(permitsOf(one), (permits.get(permitsOf(one)) || 0) + 1);
  const isShown = (one) => one.mode !== "lease" || item.contenders.find((other) => other.mode === "lease"
    && permitsOf(other) === permitsOf(one)) === one;
  $("queue-rows").replaceChildren(...item.contenders.filter(isShown).map((one) => {
    const state = make("td", "what"), identity = make("td", "who", name(identityOf(one)));
    if (one.holder) state.append(tag(T.holds, "hold"));
    else if (one.mode === "lease") state.append(tag(T.pending));
    else if (one.waits_for) {
      const other = byNode.get(one.waits_for);
      state.append(tag(one.ahead > 1 ? fill(T.ahead, one.ahead) : T.next, "wait"));
      if (other) state.append(" ", make("span", "muted", fill(T.after, identityOf(other))));
    } else state.append(tag(T.waitsPermit, "wait"));
    if (one.expected !== undefined) state.append(" ", make("span", "muted", "· " + fill(T.expected, duration(one.expected))));
    if (one.mode === "shared") state.append(" ", tag(T.reads));
    if (one.mode === "lease") state.append(" ", tag(fill(T.permits, permits.get(permitsOf(one)))));
    if (one.revoked) identity.append(" ", tag(T.asked, "wait"));
    if (one.stray) identity.append(" ", tag(T.stray[one.stray], "lost"));
    const sessionText = (T.sessions[one.session_state] || "–") + (one.address ? " · " + one.address : "");
    const session = one.session_state === "disconnected" ? tag(T.sessions.disconnected, "lost") : make("span", "", sessionText);
    identity.append(make("span", "sub", sessionText));
    return make("tr", "", make("td", "muted number", String(one.number)), state, identity,
      whenCell(ageSince(one.holder ? one.held : one.from)), make("td", "w1", session),
      make("td", "w2", make("span", "mono muted", one.name)));
  }));
  $("queue-rows").parentNode.hidden = item.contenders.length === 0;
  $("queue-empty").hidden = item.contenders.length > 0;
  write($("queue-empty"), T.nobody);
  write($("queue-note"), item.total > item.contenders.length ? fill(T.queueNote, item.total, item.contenders.length) : "");
}
const ENDED = 200;
function drawEnded() {
  columns($("ended-columns"), T.endedColumns, ["", "", "w1", "w1", ""]);
  const list = pastSince(now() - span).slice(0, ENDED);
  $("ended-card").hidden = list.length === 0;
  write($("ended-note"), list.length ? fill(T.endedNote, clockText(list[list.length - 1].ended)) : "");
  $("ended-rows").replaceChildren(...list.map((one) => {
    const fate = one.fate === "lost" ? tag(T.fates.lost, "lost") : make("span", "", T.fates[one.fate] || one.fate);
    const when = whenCell(clockText(one.ended), " · ", ageSince(one.ended, "ago"));
    when.title = [one.from, one.held, one.ended].map(clockText).join(" – ");
    return make("tr", "", make("td", "what", fate), make("td", "who", name(identityOf(one))),
      make("td", "w1", duration((one.held ?? one.ended) - one.from)),
      make("td", "w1", one.held === undefined ? "–" : duration(one.ended - one.held)), when);
  }));
}
// A lane shows all that one contender has done: a client has a new node for each time that it queues.
const LANES = 60, lanes = new Map();
function lanesOf(item, ended) {
  const found = new Map();
  const add = (one) => {
    const key = one.identity || one.node;
    if (!found.has(key) && found.size < LANES) found.set(key, []);
    if (found.has(key)) found.get(key).push(one);
  };
  item.contenders.forEach(add);
  ended.filter((one) => one.fate === "lost").forEach(add); // before all others that are gone
  ended.filter((one) => one.fate !== "lost").forEach(add);
  return found;
}
function drawLane(lane, pieces, time, length) {
  const { track, parts } = lane;
  const wanted = new Set();
  for (const one of pieces) {
    const end = one.ended === undefined ? time : one.ended;
    for (const kind of ["wait", "hold", "mark"]) {
      if (kind === "wait" ? one.held !== undefined && one.held - one.from < 0.2 : one.held === undefined) continue;
      if (kind === "mark" && one.fate !== "lost") continue;
      const id = one.node + kind;
      wanted.add(id);
      let part = parts.get(id);
      if (!part) {
        part = kind === "mark" ? make("b", "", "✕ " + T.legend.lost) : make("i");
        parts.set(id, part); track.append(part);
      }
      if (kind === "mark") {
        const at = 100 * (1 - (time - end) / length);
        part.hidden = at < 0;
        part.style.left = at > 90 ? "auto" : at + "%"; part.style.right = at > 90 ? 100 - at + "%" : "auto";
        continue;
      }
      part.className = kind === "wait" ? "wait" : { lost: "lost", ended: "gone", unseen: "gone" }[one.fate] || "";
      place(part, kind === "wait" ? one.from : one.held, kind === "wait" && one.held !== undefined ? one.held : end, time, length);
    }
  }
  for (const [id, part] of parts) if (!wanted.has(id)) { part.remove(); parts.delete(id); }
}
// All marks of the axis have the unit of the longest one.
function markText(s, longest) {
  if (longest <= 120) return fill(T.units[1], s);
  if (longest > 7200) return fill(T.units[3], Math.round(s / 360) / 10);
  return longest % 300 ? Math.floor(s / 60) + ":" + String(s % 60).padStart(2, "0") : fill(T.units[2], s / 60);
}
function drawLanes(item) {
  const time = now(), box = $("lanes"), ended = pastSince(time - span), all = lanesOf(item, ended);
  // From the first that was seen, if that is not too long ago.
  const first = Math.min(time - 10, ...item.contenders.map((one) => one.from), ...ended.map((one) => one.from));
  const length = Math.min(span, time - first);
  // What has ended a while ago is folded.
  const isOld = (pieces) => pieces.every((one) => one.ended < time - length / 5 && one.fate !== "lost");
  const found = new Map([...all].filter(([, pieces]) => !folded || !isOld(pieces))), old = [...all.values()].filter(isOld).length;
  $("fold").hidden = old === 0;
  write($("fold"), fill(folded ? T.fold : T.unfold, old));
  $("fold").setAttribute("aria-expanded", String(!folded));
  if (!box.firstChild) {
    const times = make("div", "times");
    for (let part = 5; part > 0; part--) times.append(make("span"));
    times.append(make("span", "", times.lastChild, make("span", "", T.nowMark)));
    box.append(make("div", "axis", make("span", "who"), times));
    const spans = SPANS.map(([seconds, unit, count]) => [seconds, fill(T.units[unit], count)]);
    buildChoice($("span"), T.span, spans, span, (seconds) => {
      span = seconds; store.set("span", String(seconds)); drawnPast = -1;
    });
    $("legend").replaceChildren(...Object.keys(T.legend).map((key) => make("span", key, T.legend[key])));
  }
  const marks = box.firstChild.querySelectorAll(".times > span:not(:last-child), .times > span:last-child span:first-child");
  marks.forEach((mark, index) => write(mark, fill(T.ago, markText(Math.round(length * (5 - index) / 5), Math.round(length)))));
  box.setAttribute("aria-label", fill(T.lanesLabel, all.size));
  write($("lanes-note"), fill(T.observed, clockText(item.began)));
  let at = box.firstChild.nextSibling;
  for (const [key, pieces] of found) {
    let lane = lanes.get(key);
    if (!lane) {
      const who = make("div", "who", name(identityOf(pieces[0]))), track = make("div", "track");
      who.title = identityOf(pieces[0]);
      lane = { element: make("div", "lane", who, track), track, parts: new Map() };
      lanes.set(key, lane);
    }
    lane.element.classList.toggle("past", pieces.every((one) => one.ended !== undefined));
    drawLane(lane, pieces, time, length);
    if (lane.element === at) at = at.nextSibling; else box.insertBefore(lane.element, at);
  }
  for (const [key, lane] of lanes) if (!found.has(key)) { lane.element.remove(); lanes.delete(key); }
}
function drawOwn() {
  const own = frame && frame.own;
  $("own").hidden = !own;
  if (!own) return;
  write($("own-title"), fill(T.own, frame.process));
  const parts = [fill(T.ownText, own.held, own.waiting, own.handoffs, own.losses)];
  for (const lease of own.leases) {
    const left = lease.remaining === undefined ? "∞" : duration(lease.remaining - (performance.now() - frameAt) / 1000);
    const path = lease.node.slice(0, lease.node.lastIndexOf("/"));
    if (shownPath === null || path === shownPath || path === shownPath + "/leases") parts.push(fill(T.lease, clean(path), left));
  }
  write($("own-text"), parts.slice(0, 20).join(" · "));
}

// Texts, keys, routes ---------------------------------------------------------------------------------------------------

let toast = "";
function say(text) { toast = text; schedule(); setTimeout(() => { if (toast === text) { toast = ""; schedule(); } }, 8000); }

// What is drawn only when it changes is drawn anew.
function forgetDrawn() {
  drawnLock = null; rows.clear(); lanes.clear();
  $("rows").replaceChildren(); $("lanes").replaceChildren();
}
function applyLanguage() {
  T = TEXTS[language] || TEXTS.en;
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
  for (const element of document.querySelectorAll("[data-text]")) write(element, T[element.dataset.text]);
  write($("skip"), T.skip); write($("language"), T.language);
  $("language").setAttribute("aria-label", T.languageLabel); $("language").lang = language === "zh" ? "en" : "zh-CN";
  $("search").placeholder = T.search;
  const hints = [];
  [["/"], ["j", "k"], ["Esc"]].forEach((keys, index) => {
    hints.push(make("span", "", ...keys.flatMap((key) => [make("kbd", "", key), " "]), T.hints[index]));
  });
  $("hints").replaceChildren(...hints);
  buildChoice($("filter"), T.columns.state, Object.entries(T.filters), filter, (key) => { filter = key; order = null; });
  applyTheme(); buildColumns(); forgetDrawn(); schedule();
}
let theme = store.get("theme") || "auto";
function applyTheme() {
  if (theme === "auto") delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = theme;
  write($("theme"), T.theme[theme]);
}
$("language").addEventListener("click", () => { language = language === "zh" ? "en" : "zh"; store.set("language", language);
  applyLanguage(); });
$("theme").addEventListener("click", () => {
  theme = { auto: "light", light: "dark", dark: "auto" }[theme]; store.set("theme", theme); applyTheme();
});
$("skip").addEventListener("click", (event) => { event.preventDefault(); $("main").focus(); });
$("search").addEventListener("input", () => { order = null; schedule(); });

function route() {
  const match = /^#\/lock\/(.+)$/.exec(location.hash);
  let path = null;
  try { path = match ? decodeURIComponent(match[1]) : null; } catch { /* not a link of this page */ }
  const changed = path !== shownPath || !events;
  shownPath = path;
  $("list").hidden = path !== null; $("lock").hidden = path === null;
  if (changed) {
    lock = null; folded = true; past.clear(); locks.clear(); forgetDrawn();
    order = null; loaded = false; $("lock-tags").replaceChildren(); delete $("lock-tags").dataset.key;
    $("lock-tiles").replaceChildren(); $("queue-rows").replaceChildren(); $("ended-rows").replaceChildren();
    document.title = path === null ? "zklock" : clean(path) + " – zklock";
    scrollTo(0, path === null ? listScroll : 0);
    connect();
  }
  schedule();
}
let listScroll = 0;
addEventListener("hashchange", route);
addEventListener("scroll", () => { if (shownPath === null) { listScroll = scrollY; schedule(); } }, { passive: true });
addEventListener("resize", () => schedule());

function step(by) {
  const links = [...document.querySelectorAll("#rows a")];
  const at = links.indexOf(document.activeElement);
  const next = links[at < 0 ? 0 : at + by];
  if (next) { next.focus(); next.scrollIntoView({ block: "nearest" }); }
}
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || $("confirm").open) return;
  const typing = event.target === $("search");
  if (event.key === "Escape") {
    if (shownPath !== null) location.hash = "#/";
    else { $("search").value = ""; $("search").blur(); order = null; schedule(); }
  } else if (typing) { if (event.key === "Enter" || event.key === "ArrowDown") { event.preventDefault(); step(1); }
  } else if (event.key === "/" && shownPath === null) { event.preventDefault(); $("search").focus(); $("search").select();
  } else if (event.key === "j" && shownPath === null) step(1);
  else if (event.key === "k" && shownPath === null) step(-1);
});

$("revoke").addEventListener("click", () => {
  write($("confirm-text"), fill(T.confirm, clean(shownPath))); $("confirm").showModal();
});
$("fold").addEventListener("click", () => { folded = !folded; schedule(); });
$("confirm-no").addEventListener("click", () => $("confirm").close());
$("confirm-yes").addEventListener("click", async () => {
  const path = shownPath;
  $("confirm").close();
  try {
    const answer = await fetch("?revoke", { method: "POST", headers: { "X-Zklock-Token": frame.revoke },
      body: new URLSearchParams({ lock: path, confirm: path }) });
    const text = await answer.text();
    say(answer.ok ? fill(T.asked_n, JSON.parse(text).asked, clean(path)) : fill(T.refused, text.trim()));
  } catch (problem) { say(fill(T.refused, problem.message)); }
});

// A page that nobody sees needs no events: a browser has few connections for one server, and keeps left pages for a while.
let hiding = 0;
function pause() { clearTimeout(retry); clearTimeout(hiding); if (events) events.close(); events = null; }
addEventListener("pagehide", pause);
addEventListener("pageshow", (event) => { if (event.persisted) connect(); });
document.addEventListener("visibilitychange", () => {
  clearTimeout(hiding);
  if (document.visibilityState === "hidden") hiding = setTimeout(pause, 30000); else if (!events) connect();
});

setInterval(() => {
  if (events && link === "open" && performance.now() - heardAt > SILENCE) { away(false); connect(); }
  schedule();
}, 1000);
applyLanguage();
begin();
</script>
</body>
</html>
]==]
