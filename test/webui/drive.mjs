// Drives the system's Chromium through Temporal's Web UI, as an operator would, and through pages of ours.
//
//   node drive.mjs signal URL WORKFLOWID NAME JSON OUT.png [--size WxH]
//       sends a signal by the page's own dialog; the picture is the dialog,
//       filled in, before it is submitted
//   node drive.mjs shot URL WORKFLOWID OUT.png [--size WxH]
//       the workflow's page with its running activity unfolded
//   node drive.mjs details URL WORKFLOWID OUT.png [--size WxH]
//       the workflow's current details
//
//   node drive.mjs page URL [--size WxH]
//       a page of ours: does what the lines of standard input say, {ACTION: ARGUMENTS}
//       (the actions are below), and prints a line of JSON behind each
//
// shot and details print the text of the page, for readers without the picture.
//
// The browser is `chromium` of the PATH, or what SOJOURN_CHROMIUM names; the
// namespace is TEMPORAL_NAMESPACE or default. Exit status: 0 done, 1 failed,
// 2 wrong usage.
import { accessSync, constants, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { createInterface } from 'node:readline';

const usage = `usage: drive.mjs signal URL WORKFLOWID NAME JSON OUT.png [--size WxH]
       drive.mjs shot URL WORKFLOWID OUT.png [--size WxH]
       drive.mjs details URL WORKFLOWID OUT.png [--size WxH]
       drive.mjs page URL [--size WxH]`;

// patience bounds every wait. No result depends on it.
const patience = 60_000;

const flags = [
  '--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
  '--disable-background-networking', '--disable-component-update', '--disable-sync',
];

const commands = {
  signal: { size: '1200x900', operands: 5, run: signal },
  shot: { size: '1400x960', operands: 3, run: again(shot) },
  details: { size: '1400x760', operands: 3, run: again(details) },
  page: { size: '1400x860', operands: 1, run: obey },
};

async function signal(page, [url, workflow, name, json, out]) {
  await open(page, url, workflow);
  await page.getByRole('button', { name: 'More Actions' }).click();
  await page.getByRole('menuitem', { name: 'Send a Signal' }).click();
  const dialog = page.getByRole('dialog', { name: 'Send a Signal' });
  await dialog.getByTestId('signal-select-button').click();
  await dialog.getByRole('option', { name, exact: true }).click();
  await fill(page, dialog.getByRole('textbox', { name: 'Data' }), json);
  await page.screenshot({ path: out });
  await dialog.getByTestId('confirm-modal-button').click();
  await dialog.waitFor({ state: 'hidden' });
}

// fill inserts the whole text at once: the editor would close brackets that are typed.
async function fill(page, editor, text) {
  await editor.click();
  await page.keyboard.insertText(text);
  const shown = (await editor.innerText()).trim();
  if (shown !== text) throw new Error(`the dialog's editor shows ${shown}`);
}

// again looks anew when a look fails. On a busy machine the page, which refreshes itself,
// may lose a row's attempt, or be refused by the server, until it is opened again.
function again(look) {
  return async (page, operands) => {
    for (let more = 2; ; more--) {
      try {
        return await look(page, operands);
      } catch (err) {
        if (more === 0) throw err;
        console.error(`webui: looks again: ${err.message}`);
      }
    }
  };
}

async function shot(page, [url, workflow, out]) {
  await open(page, url, workflow);
  const row = page.getByRole('button', { name: /^Event / }).filter({ hasText: 'Attempt' }).first();
  // Beside its icon, as the label is a frame of its own that swallows clicks.
  await row.click({ position: { x: 6, y: 12 } });
  await page.getByText('Heartbeat Details', { exact: true }).waitFor();
  await page.getByText('Activity Task Scheduled', { exact: true }).first().waitFor();
  await report(page, out);
}

async function details(page, [url, workflow, out]) {
  await open(page, url, workflow);
  await page.getByRole('tab', { name: 'User Metadata' }).or(page.getByRole('link', { name: 'User Metadata' })).first().click();
  await page.getByText('Current Details', { exact: true }).waitFor();
  await report(page, out);
}

// actions are what obey does on a page; what one returns is printed.
const actions = {
  click: (page, [name]) => page.getByRole('button', { name, exact: true }).click(),
  choose: (page, [label, value]) => page.getByLabel(label, { exact: true }).selectOption(value),
  say: async (page, [label, text]) => {
    await page.getByLabel(label, { exact: true }).fill(text);
    await page.keyboard.press('Enter');
  },
  // see waits until some text is in what a selector names; follow clicks it.
  see: (page, [selector, text]) => page.locator(selector, { hasText: text }).first().waitFor(),
  miss: (page, [selector, text]) => page.locator(selector, { hasText: text }).first().waitFor({ state: 'hidden' }),
  follow: (page, [selector, text]) => page.locator(selector, { hasText: text }).first().click(),
  texts: (page, [selector]) => page.locator(selector).allInnerTexts(),
  picture: async (page, [path]) => void (await page.screenshot({ path })),
};

async function obey(page, [url]) {
  page.on('pageerror', (error) => console.error(`webui: the page: ${error.message}`));
  await page.goto(url);
  for await (const line of createInterface({ input: process.stdin })) {
    const [[action, args]] = Object.entries(JSON.parse(line));
    try {
      console.log(JSON.stringify({ is: await actions[action](page, args) }));
    } catch (error) {
      throw new Error(`${line}: ${error.message}\nthe page says ${await text(page)}`);
    }
  }
}

// report takes the picture and prints the page's text.
async function report(page, out) {
  await page.mouse.move(1, 1);
  await settled(page);
  await page.screenshot({ path: out });
  const shown = await text(page);
  if (shown.includes('We are having technical difficulties')) throw new Error(`the page says ${shown}`);
  console.log(shown);
}

async function open(page, url, workflow) {
  const namespace = process.env.TEMPORAL_NAMESPACE || 'default';
  await page.goto(`${url}/namespaces/${namespace}/workflows/${workflow}`);
  await page.getByRole('button', { name: 'More Actions' }).waitFor();
}

// settled waits for the Markdown on the page: summaries are frames, which the
// server renders one by one.
async function settled(page) {
  await page.waitForLoadState('networkidle', { timeout: 5_000 }).catch(() => {
    // A page that refreshes itself may never be idle.
  });
  for (const frame of page.frames()) await frame.waitForLoadState('load');
}

// text returns the page's text, its Markdown included.
async function text(page) {
  const parts = [];
  for (const frame of page.frames()) {
    parts.push(await frame.evaluate(() => document.body.innerText).catch(() => ''));
  }
  return parts.join('\n');
}

function browser() {
  const name = process.env.SOJOURN_CHROMIUM || 'chromium';
  const places = name.includes('/') ? [name] : (process.env.PATH || '').split(delimiter).map((dir) => join(dir, name));
  const found = places.find((path) => {
    try {
      accessSync(path, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
  if (!found) throw new Error(`no browser ${name}\nhint: apt-get install chromium, or name one in SOJOURN_CHROMIUM`);
  return found;
}

function parse(argv) {
  const operands = [...argv];
  const command = commands[operands.shift()];
  let size = command?.size;
  const at = operands.indexOf('--size');
  if (at >= 0) [, size] = operands.splice(at, 2);
  const [, width, height] = /^(\d+)x(\d+)$/.exec(size ?? '') ?? [];
  if (!command || !width || operands.length !== command.operands) return null;
  return { command, operands, viewport: { width: Number(width), height: Number(height) } };
}

async function main(argv) {
  const asked = parse(argv);
  if (!asked) {
    console.error(usage);
    return 2;
  }
  const { chromium } = await import('playwright-core');
  const profile = mkdtempSync(join(tmpdir(), 'webui-'));
  try {
    const context = await chromium.launchPersistentContext(profile, {
      executablePath: browser(), args: flags, viewport: asked.viewport, locale: 'en-GB', timezoneId: 'UTC',
    });
    context.setDefaultTimeout(patience);
    await asked.command.run(await context.newPage(), asked.operands).finally(() => context.close());
  } finally {
    rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
  }
  return 0;
}

// Standard input may be open still: it does not keep the program.
process.exit(await main(process.argv.slice(2)).catch((error) => {
  console.error(`webui: ${error.message}`);
  return 1;
}));
