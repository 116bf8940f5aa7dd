// The live view in chromium, against real ZooKeeper servers and nginx. Ends with "N passed, N failed".

import { axe, close, hold, isState, link, open, problems, query, start, startScene, startView, tidy, until } from "./world.mjs";
import { execFileSync } from "node:child_process";

let passed = 0, failed = 0;
const only = new RegExp(process.argv[2] || "");
// After a test its pages are closed, and its locks released.
async function test(title, fn) {
  if (!only.test(title)) return;
  problems.length = 0;
  try {
    await fn();
    if (problems.length) throw new Error("errors in the page: " + problems.join(" | "));
    passed++;
    console.log("ok     " + title);
  } catch (error) {
    failed++;
    console.log(`not ok ${title}\n${error.stack}`);
  } finally {
    await tidy();
  }
}
function check(holds, message) { if (!holds) throw new Error(message); }
const has = (selector, text) => [...document.querySelectorAll(selector)].some((one) => one.textContent.includes(text));

async function accessible(page) {
  await page.evaluate(axe);
  const result = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  const found = result.violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.target + " " + node.failureSummary).join("; ")}`);
  check(found.length === 0, found.join("\n"));
}

// Nothing is cut off: cards hide what is wider than they are. The columns of the list leave no empty space.
async function fits(page) {
  const wide = await page.evaluate(() => {
    const found = [...document.querySelectorAll(".tile dd, .tile dt, .tag, h1")].filter((one) => one.scrollWidth > one.clientWidth + 1
      && getComputedStyle(one).display !== "inline").map((one) => one.textContent);
    for (const table of document.querySelectorAll(".card table")) {
      if (table.offsetWidth > table.parentNode.clientWidth + 1) found.push(table.tHead.textContent + table.tBodies[0].textContent);
    }
    const list = document.querySelector("#locks"), shown = [...list.tHead.rows[0].cells].filter((one) => one.offsetWidth > 0);
    const columns = shown.reduce((sum, one) => sum + one.offsetWidth, 0);
    if (columns < list.offsetWidth - 2) found.push(`the columns of the list, ${columns} of ${list.offsetWidth} pixels`);
    return found;
  });
  check(wide.length === 0, "do not fit into their places: " + wide.join(" | "));
  check(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "the page is wider than the window");
}

const view = await startView(["/t"], { words: ["--allow-revoke"] });

await test("a queue appears, and a release moves it", async () => {
  const first = hold("/t/moves", "one:1");
  await first.held;
  const second = hold("/t/moves", "two:2");
  const page = await open(view.url);
  await until(page, "a waiter in the list", () => document.querySelector("#rows tr td.num")?.textContent === "1");
  await page.click("#rows a");
  await until(page, "both lanes", () => document.querySelectorAll("#lanes .lane").length === 2);
  check(await page.evaluate(() => location.hash) === link("/t/moves"), "the lock's page has a link of its own");
  await until(page, "what waits for what", has, "#queue-rows tr", "after one:1");
  const began = Date.now();
  await first.release();
  await until(page, "the second one holds", () => document.querySelector("#queue-rows tr")?.textContent.includes("two:2")
    && document.querySelector("#queue-rows tr .tag.hold"));
  console.log(`       shown ${Date.now() - began} ms after the command to release`);
  await page.goBack();
  await until(page, "the list again", has, "#rows td", "two:2");
});

await test("a killed holder turns red", async () => {
  const victim = hold("/t/killed", "victim:1", ["--session-timeout", "8"]);
  await victim.held;
  const heir = hold("/t/killed", "heir:2");
  const page = await open(view.url + link("/t/killed"));
  await until(page, "the victim", has, "#queue-rows tr", "victim:1");
  victim.kill("SIGKILL");
  await until(page, "its client is away", has, "#lock-tags .tag", "not connected");
  await until(page, "it is lost", has, "#ended-rows tr", "lost");
  await until(page, "a red piece in its lane", () => document.querySelector("#lanes .lane .lost"));
  await until(page, "the heir holds", has, "#queue-rows tr", "heir:2");
  await page.goto(view.url, { waitUntil: "domcontentloaded" });
  await until(page, "red in the list, too", has, "#rows .tag.lost", "lost");
});

await test("programs that wait for each other are named, in the list and on the pages of their locks", async () => {
  const holders = [hold("/t/dead/a", "one:1"), hold("/t/dead/b", "two:2")];
  for (const one of holders) await one.held;
  const waiters = [hold("/t/dead/a", "two:2"), hold("/t/dead/b", "one:1")];
  const page = await open(view.url);
  await until(page, "the deadlock", has, "#deadlocks li", "one:1 holds /t/dead/a and waits for /t/dead/b");
  await until(page, "its locks", has, "#rows .tag.lost", "deadlock");
  await page.goto(view.url + link("/t/dead/b"), { waitUntil: "domcontentloaded" });
  await until(page, "the tag", has, "#lock-tags .tag", "deadlock");
  for (const one of waiters) { one.kill("SIGTERM"); await one.ended(); }
  await until(page, "no deadlock any more", () => document.querySelector("#deadlocks").hidden);
});

await test("hostile names and identities are only text", async () => {
  const evil = "<img src=x onerror=alert(1)>";
  const holder = hold("/t/" + evil, `${evil}\u202e"'&`);
  await holder.held;
  const page = await open(view.url);
  await until(page, "the name as it is", has, "#rows a", evil);
  await until(page, "the identity as it is", has, "#rows td", evil);
  await page.goto(view.url + link("/t/" + evil), { waitUntil: "domcontentloaded" });
  await until(page, "the page of the lock", has, "#queue-rows td", evil);
  check(await page.evaluate(() => document.querySelectorAll("img").length) === 0, "an element was made");
  await holder.release();
  // A name with characters that are invisible, or change the direction of the text.
  const odd = "\u202e\u200bhidden\u2066name";
  const other = hold("/t/" + odd, "odd:1");
  await other.held;
  await page.goto(view.url, { waitUntil: "domcontentloaded" });
  await until(page, "the name without what is hidden", has, "#rows a", "/t/\ufffd\ufffdhidden\ufffdname");
  await page.goto(view.url + link("/t/" + odd), { waitUntil: "domcontentloaded" });
  await until(page, "the page of that lock", has, "#queue-rows td", "odd:1");
  await until(page, "the button", () => !document.querySelector("#revoke").hidden);
  await page.click("#revoke");
  check(await page.evaluate(() => !/[\u202e\u200b\u2066]/.test(document.body.innerText + document.title + document.body.outerHTML.replace(
    /<script>[^]*/, ""))), "what is hidden gets into the page");
  await page.click("#confirm-no");
});

await test("a path without a lock says so, in both languages, until there is one", async () => {
  const page = await open(view.url + link("/t/never"));
  await until(page, "no lock", has, "#lock-tags .tag", "no lock");
  await until(page, "what that means", has, "#none", "There is no lock /t/never");
  await page.click("#language");
  await until(page, "the same in Chinese", has, "#none", "没有 /t/never 这把锁");
  await page.click("#language");
  const holder = hold("/t/never", "one:1");
  await until(page, "the holder", has, "#queue-rows tr", "one:1");
  check(await page.evaluate(() => !document.querySelector("#lock-tags").textContent.includes("no lock")), "there is a lock now");
});

await test("a holder of several permits has one row", async () => {
  const holders = [hold("/t/permits", "three:1", ["-p", "3/4"]), hold("/t/permits", "one:2", ["-p", "1/4"])];
  for (const one of holders) await one.held;
  const page = await open(view.url + link("/t/permits"));
  await until(page, "its permits", has, "#queue-rows tr", "permits: 3");
  check(await page.evaluate(() => document.querySelectorAll("#queue-rows tr").length) === 2, "a row for each holder");
  await page.goto(view.url, { waitUntil: "domcontentloaded" });
  await until(page, "the same in the list", has, "#rows td", "three:1 ×3");
});

await test("lanes begin when the first was seen, show the time that is chosen, and fold what has ended", async () => {
  const page = await open(view.url + link("/t/lanes"));
  const first = hold("/t/lanes", "first:1");
  await first.held;
  await until(page, "its lane", has, "#lanes .lane", "first:1");
  check(await page.evaluate(() => /^−\d+ s/.test(document.querySelector("#lanes .times").textContent)), "not from the first on");
  check(await page.evaluate(() => [149, 89, 60].map((s) => markText(s, 149)).join()) === "2:29,1:29,1:00", "the marks have several units");
  await first.release();
  const second = hold("/t/lanes", "second:2");
  await second.held;
  await until(page, "what has ended is folded", () => document.querySelector("#fold").textContent === "▸ 1 ended"
    && document.querySelectorAll("#lanes .lane").length === 1);
  await page.click("#fold");
  await until(page, "both lanes", () => document.querySelectorAll("#lanes .lane").length === 2);
  await page.evaluate(() => [...document.querySelectorAll("#span button")].find((one) => one.textContent === "1 d").click());
  await page.reload({ waitUntil: "domcontentloaded" });
  await until(page, "the choice is kept", () => document.querySelector("#span [aria-pressed=true]")?.textContent === "1 d");
  await until(page, "what the server remembers", has, "#ended-rows tr", "first:1");
  await page.evaluate(() => [...document.querySelectorAll("#span button")].find((one) => one.textContent === "5 min").click());
});

await test("search, sort and keys", async () => {
  const holders = ["alpha", "beta", "gamma"].map((name) => hold("/t/keys/" + name, name + ":1"));
  for (const one of holders) await one.held;
  const page = await open(view.url);
  await until(page, "three locks", has, "#rows a", "gamma");
  await page.keyboard.press("/");
  await page.keyboard.type("keys bet");
  await until(page, "one of them", () => document.querySelectorAll("#rows a").length === 1);
  await page.keyboard.press("Enter");
  await page.keyboard.press("Enter");
  await until(page, "its page", () => document.querySelector("#lock-path").textContent === "/t/keys/beta");
  await page.keyboard.press("Escape");
  await until(page, "back", () => !document.querySelector("#list").hidden);
  await page.keyboard.press("/");
  await page.keyboard.press("Escape");
  await until(page, "the search is empty", () => document.querySelectorAll("#rows a").length >= 3);
  await page.click("#columns th button");
  await until(page, "the other direction", () => document.querySelector("#columns th").getAttribute("aria-sort") === "descending"
    && document.querySelector("#rows a").textContent > [...document.querySelectorAll("#rows a")].at(-1).textContent);
  await page.click("#columns th button");
});

await test("asks a holder to release, after a question", async () => {
  const holder = hold("/t/revoke", "asked:1");
  await holder.held;
  const page = await open(view.url + link("/t/revoke"));
  await until(page, "the button", () => !document.querySelector("#revoke").hidden);
  await page.click("#revoke");
  await page.click("#confirm-no");
  await page.click("#revoke");
  await page.click("#confirm-yes");
  await until(page, "the answer", has, "#notice", "1 holders were asked");
  await until(page, "the holder is asked, and still named", () => document.querySelector("#queue-rows tr").textContent.includes("asked:1")
    && document.querySelector("#queue-rows tr .tag.wait")?.textContent === "asked to release");
  check(query(`for _, name in ipairs(assert(client:children "/t/revoke")) do print(client:get("/t/revoke/" .. name)) end`)
    .includes("__REVOKE__"), "nobody was asked");
});

await test("shows that another client has asked a holder to release", async () => {
  const holder = hold("/t/asked", "theirs:1");
  await holder.held;
  const page = await open(view.url + link("/t/asked"));
  await until(page, "the holder", has, "#queue-rows tr", "theirs:1");
  query(`client:mutex("/t/asked"):revoke()`);
  await until(page, "the request", has, "#queue-rows tr .tag.wait", "asked to release");
  await until(page, "its name", has, "#queue-rows tr", "theirs:1");
});

await test("both languages have all texts, and Chinese is shown", async () => {
  const page = await open(view.url);
  await isState(page, "live");
  await page.click("#language");
  check(await page.evaluate(() => document.querySelector("#list h1").textContent) === "锁", "it is not Chinese");
  const different = await page.evaluate(() => {
    const keys = (value, prefix) => typeof value === "object"
      ? Object.entries(value).flatMap(([name, inner]) => keys(inner, prefix + "." + name)) : [prefix];
    const english = keys(TEXTS.en, ""), chinese = new Set(keys(TEXTS.zh, ""));
    return english.filter((key) => !chinese.has(key)).concat(english.length === chinese.size ? [] : ["the numbers differ"]);
  });
  check(different.length === 0, "missing: " + different.join(", "));
  await page.click("#language");
  check(await page.evaluate(() => document.querySelector("#list h1").textContent) === "Locks", "it is not English again");
});

await test("it says that there are too many viewers, and gets a place when there is one", async () => {
  const viewers = [];
  for (let count = 0; count < 100; count++) {
    const stop = new AbortController(), answer = await fetch(view.url + "?events", { signal: stop.signal });
    if (answer.ok) viewers.push({ stop, answer }); // an answer that is forgotten is closed
  }
  const page = await open(view.url);
  await until(page, "what is wrong", () => document.querySelector("#status-text").textContent === "Too many viewers");
  for (const one of viewers) one.stop.abort();
  await isState(page, "live");
  problems.length = 0; // a request that is refused is an error in the console
});

await test("without JavaScript there is a table", async () => {
  const holder = hold("/t/plain", "<b>bold</b>");
  await holder.held;
  const page = await open(view.url, { javascript: false });
  await page.waitForSelector("table");
  await page.waitForFunction(() => true).catch(() => {});
  for (let tries = 0; tries < 100 && !(await page.content()).includes("&lt;b&gt;bold&lt;/b&gt;"); tries++) {
    await page.goto(view.url + "?table", { waitUntil: "domcontentloaded" });
  }
  check((await page.content()).includes("&lt;b&gt;bold&lt;/b&gt;"), "the lock is not in the table");
});

const scene = await startScene("/t/scene", "many");

await test("the page of a lost lock fits into 360 pixels", async () => {
  const page = await open(view.url + link("/t/scene/deploy"), { width: 360 });
  await until(page, "a lost lock", () => document.querySelector("#ended-rows .tag.lost"));
  await until(page, "its lanes", () => document.querySelectorAll("#lanes .lane").length > 1);
  await fits(page);
});

await test("a thousand locks scroll at ease", async () => {
  const page = await open(view.url);
  await until(page, "a thousand locks", () => /\d{4}/.test(document.querySelector("#count").textContent));
  const seen = await page.evaluate(async () => {
    const names = new Set();
    let most = 0, longest = 0, last = performance.now();
    for (let y = 0; y <= document.documentElement.scrollHeight; y += 300) {
      scrollTo(0, y);
      const drawn = () => [150, innerHeight - 5].every((at) => {
        const box = document.querySelector("#rows").getBoundingClientRect();
        return at < box.top || at > box.bottom || document.elementFromPoint(200, at)?.closest("#rows tr:not(.space)");
      });
      do await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))); while (!drawn());
      longest = Math.max(longest, performance.now() - last);
      last = performance.now();
      most = Math.max(most, document.querySelectorAll("#rows tr").length);
      for (const anchor of document.querySelectorAll("#rows a")) names.add(anchor.title);
    }
    return { names: names.size, most, longest };
  });
  console.log(`       ${seen.names} locks, at most ${seen.most} rows at a time, longest step ${Math.round(seen.longest)} ms`);
  check(seen.names >= 1000, `only ${seen.names} were reached`);
  check(seen.most < 80, `${seen.most} rows at a time`);
});

for (const [scheme, width] of [["light", 1200], ["dark", 1200], ["light", 360], ["dark", 360]]) {
  await test(`axe-core finds nothing to complain about: ${scheme}, ${width} pixels wide`, async () => {
    const page = await open(view.url, { scheme, width });
    await until(page, "the locks", has, "#rows a", "/t/scene");
    await accessible(page);
    await fits(page);
    await page.goto(view.url + link("/t/scene/orders/checkout"), { waitUntil: "domcontentloaded" });
    await until(page, "a lane", () => document.querySelectorAll("#lanes .lane").length > 2);
    await until(page, "a contender that has ended", () => document.querySelector("#ended-rows tr"));
    await accessible(page);
    await fits(page);
  });
}
scene.kill("SIGKILL");
await scene.ended();

await test("nginx serves the same, and a reload does not end it", async () => {
  const server = start("luajit", ["tools/browser/serve.lua", process.env.ZOOKEEPER, "/t"],
    { LUA_CPATH: process.env.ZKLOCK_BUILD + "/luajit/?.so;;" });
  const url = await server.line();
  const holder = hold("/t/nginx", "behind:1");
  await holder.held;
  const page = await open(url);
  await until(page, "the lock", has, "#rows td", "behind:1");
  server.stdin.write("reload\n");
  check(await server.line() === "reloaded", "nginx does not reload");
  await isState(page, "live");
  await holder.release();
  const next = hold("/t/nginx", "after:2");
  await next.held;
  await until(page, "what came after the reload", has, "#rows td", "after:2");
  await next.release();
  await page.close();
  server.stdin.end();
  const complaint = await server.line();
  check(complaint === null, "nginx complains: " + complaint);
  problems.length = 0; // the stream that the reload has ended
});

await test("it says that it is stale while ZooKeeper is away, and that its server is away, and comes back from both", async () => {
  const holder = hold("/t/away", "one:1", ["--session-timeout", "60"]);
  await holder.held;
  const page = await open(view.url + link("/t/away"));
  await until(page, "the holder", has, "#queue-rows tr", "one:1");
  execFileSync("tools/zookeeper", ["kill", "1"]);
  await isState(page, "stale");
  check(await page.evaluate(() => document.querySelector("#queue-rows").textContent.includes("one:1")), "what was seen is gone");
  await accessible(page);
  execFileSync("tools/zookeeper", ["restart", "1"]);
  await isState(page, "live");
  const port = new URL(view.url).port;
  view.kill("SIGKILL");
  await view.ended();
  await isState(page, "away");
  const again = await startView(["/t"], { port });
  await isState(page, "live");
  await until(page, "the holder again", has, "#queue-rows tr", "one:1");
  problems.length = 0; // a connection that is refused is an error in the console
  await holder.release();
  await page.close();
  again.kill("SIGTERM");
});

await close();
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
