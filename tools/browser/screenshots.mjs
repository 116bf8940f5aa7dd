// The pictures of the live view in the documentation: screenshots.mjs DIRECTORY. Takes three minutes, in which the scene is played.

import { close, link, open, startScene, startView, until } from "./world.mjs";
import { setTimeout as sleep } from "node:timers/promises";

const directory = process.argv[2], minutes = 2.5;
const view = await startView(["/locks"], { words: ["--allow-revoke"] });
await startScene("/locks");
await sleep(minutes * 60000);

async function picture(name, hash, settings = {}) {
  const page = await open(view.url + hash, settings);
  if (!(await page.evaluate(() => document.documentElement.lang)).startsWith(settings.language || "en")) { await page.click("#language"); }
  await until(page, "the locks", () => document.querySelector(location.hash === "#/" ? "#rows a" : "#lanes .lane"));
  await page.evaluate(() => document.activeElement.blur());
  await page.screenshot({ path: `${directory}/live-view-${name}.png` });
  await page.close();
}

await picture("list", "#/", { width: 1280, height: 600 });
await picture("list-chinese", "#/", { width: 1280, height: 600, language: "zh" });
await picture("lock", link("/locks/orders/checkout"), { width: 1280, height: 760 });
await picture("lost", link("/locks/deploy"), { width: 1280, height: 640, scheme: "dark" });
await picture("narrow", "#/", { width: 360, height: 700 });
await picture("chinese", link("/locks/mail/connections"), { width: 1280, height: 760, language: "zh" });
await close();
process.exit(0);
