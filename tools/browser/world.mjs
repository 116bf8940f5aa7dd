// What the tests and the pictures of the live view have in common: processes of zklock, chromium with one page, waiting.

import { spawn, execFileSync } from "node:child_process";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const require = createRequire(process.env.ZKLOCK_BUILD + "/browser/");
const puppeteer = require("puppeteer-core");
export const axe = require("axe-core").source;

export const servers = process.env.ZOOKEEPER;
const lua = process.env.ZKLOCK_LUA, children = new Set();

// Starts a program. Its lines of output are in `lines`; line() waits for the next one.
export function start(command, words, environment = {}) {
  const child = spawn(command, words, { env: { ...process.env, ZKLOCK_SERVERS: servers, ...environment }, stdio: ["pipe", "pipe", "inherit"] });
  const lines = [], waiting = [];
  children.add(child);
  createInterface({ input: child.stdout }).on("line", (line) => (waiting.length ? waiting.shift()(line) : lines.push(line)));
  child.on("exit", () => { children.delete(child); child.over = true; while (waiting.length) waiting.shift()(null); });
  child.stdin.on("error", () => {});
  child.line = () => new Promise((done) => (lines.length ? done(lines.shift()) : child.over ? done(null) : waiting.push(done)));
  child.ended = () => new Promise((done) => (child.over ? done() : child.on("exit", done)));
  return child;
}

const cli = (words, environment) => start(lua, ["lua/zklock/cli/main.lua", ...words], environment);

// Starts `zklock ui`; returns the process with its `url`.
export async function startView(paths, { port = 0, words = [], at = servers } = {}) {
  const view = cli(["ui", "--listen", "127.0.0.1:" + port, ...words, ...paths], { ZKLOCK_SERVERS: at });
  view.url = await view.line();
  if (!/^http:/.test(view.url)) throw new Error("zklock ui does not start: " + view.url);
  return view;
}

const opened = []; // functions that end what tidy() ends

// Closes the pages that were opened, and releases the locks: in the order in which they were taken.
export async function tidy() {
  for (const end of opened.splice(0)) await end();
}

// Holds a lock until release() or kill(). It is queued when this returns; `held` resolves when it has the lock.
export function hold(path, identity, words = []) {
  const holder = cli(["hold", ...words, path], { ZKLOCK_IDENTITY: identity });
  holder.held = holder.line();
  holder.release = () => { holder.stdin.end(); return holder.ended(); };
  opened.push(holder.release);
  return holder;
}

// Deletes or creates nodes as an administrator would.
export const query = (code) => execFileSync(lua, ["-e", `
  local zklock = require "zklock"
  local client = assert(zklock.connect(os.getenv "ZOOKEEPER", { wait = "blocking", connect_timeout = 20 }))
  ${code}
  client:close()`]).toString();

export const startScene = async (root, ...words) => {
  const scene = start(lua, ["tools/browser/scene.lua", servers, root, ...words]);
  await scene.line();
  return scene;
};

const profile = mkdtempSync(join(tmpdir(), "zklock-browser-"));
const browser = await puppeteer.launch({
  executablePath: "/usr/bin/chromium", headless: true, userDataDir: profile, env: { ...process.env, TMPDIR: profile },
  args: ["--disable-gpu", "--disable-extensions", ...(process.getuid() === 0 ? ["--no-sandbox"] : [])]
});

// Milliseconds after which something hangs: a busy machine may need minutes.
const PATIENCE = 200000;

export const problems = [];

// Opens a page. Errors of its console are added to `problems`.
export async function open(url, { width = 1200, height = 800, scheme = "light", language = "en", javascript = true } = {}) {
  const page = await browser.newPage();
  opened.push(() => page.isClosed() || page.close());
  page.setDefaultTimeout(PATIENCE);
  await page.setViewport({ width, height });
  await page.setJavaScriptEnabled(javascript);
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  await page.evaluateOnNewDocument((chosen) => localStorage.setItem("zklock-language", localStorage.getItem("zklock-language") || chosen), language);
  page.on("console", (message) => { if (message.type() === "error" || message.type() === "warn") problems.push(message.text()); });
  page.on("pageerror", (error) => problems.push(error.message));
  page.on("dialog", (dialog) => { problems.push("a dialog: " + dialog.message()); dialog.dismiss(); });
  await page.goto(url, { waitUntil: "domcontentloaded" });
  return page;
}

export const link = (path) => "#/lock/" + encodeURIComponent(path);

// Waits until a function is true in the page.
export async function until(page, what, fn, ...values) {
  try {
    await page.waitForFunction(fn, { polling: 50, timeout: PATIENCE }, ...values);
  } catch (error) {
    throw new Error(`${what}: does not come; the page: ${await page.evaluate(() => document.body.innerText.slice(0, 1500))}`, { cause: error });
  }
}
export const isState = (page, state) => until(page, "state " + state, (wanted) => document.querySelector("#status").dataset.state === wanted, state);

export async function close() {
  await browser.close();
  for (const child of children) { child.kill("SIGTERM"); await child.ended(); }
  rmSync(profile, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
}
