import { summaryOf, worstFirst, type CheckResult, type CheckVerdict, type DoctorReport } from './report.ts';

const labels = {
  ok: 'ok',
  'not-checked': 'not checked',
  advice: 'advice',
  warning: 'warning',
  fault: 'fault',
} as const satisfies Record<CheckVerdict, string>;

const marks = {
  ok: '✓',
  'not-checked': '–',
  advice: 'i',
  warning: '!',
  fault: '✕',
} as const satisfies Record<CheckVerdict, string>;

/** A report as one HTML file without anything from elsewhere: for a merchant, on a phone or on paper. */
export function reportAsHtml(report: DoctorReport): string {
  const { url, run, startedAt, durationMs, requests, kit, verdict, counts, checks } = report;
  const shown = worstFirst(checks);
  const of = (...verdicts: readonly CheckVerdict[]) =>
    shown.filter((check) => verdicts.includes(check.verdict));
  const [open, unknown, good] = [of('fault', 'warning', 'advice'), of('not-checked'), of('ok')];
  const seconds = Math.round(durationMs / 1_000);
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Webhook endpoint report: ${escaped(new URL(url).host)}</title>
<style>${STYLE}</style>
</head>
<body>
<main>
<header class="${verdict}">
<p class="kind">Webhook endpoint report</p>
<h1>${escaped(summaryOf(report))}</h1>
<p class="url">${escaped(url)}</p>
<ul class="counts">${tally(counts)}</ul>
</header>
${open.length === 0 ? '' : `<section aria-label="What was found">\n${open.map(card).join('\n')}\n</section>`}
${table('Not checked', unknown)}
${table('In order', good)}
<footer>
<p>Examined ${escaped(startedAt.slice(0, 16).replace('T', ' '))} UTC with ${requests} requests in ${seconds} s${
    kit === undefined ? '' : `; the receiver is ${escaped(kit)}`
  }. All of them were test events: their ids begin with <code>${escaped(run)}</code>. No payment was touched.</p>
<p>Made by hookladder doctor. This report contains no secret.</p>
</footer>
</main>
</body>
</html>
`;
}

function tally(counts: DoctorReport['counts']): string {
  return (['fault', 'warning', 'advice', 'not-checked', 'ok'] as const)
    .filter((verdict) => counts[verdict] > 0)
    .map((verdict) => `<li class="${verdict}"><b>${counts[verdict]}</b> ${labels[verdict]}</li>`)
    .join('');
}

function table(heading: string, checks: readonly CheckResult[]): string {
  if (checks.length === 0) return '';
  return `<section class="list"><h2>${heading}</h2>\n<table>${checks.map(row).join('\n')}</table></section>`;
}

function card({ id, title, verdict, sent, seen, remedy, see }: CheckResult): string {
  const facts = [
    ['Sent', sent === 'nothing' ? undefined : sent],
    ['Seen', seen],
    ['What to do', remedy],
  ].filter((fact): fact is [string, string] => fact[1] !== undefined);
  return `<article class="${verdict}">
<h2><span class="mark" aria-hidden="true">${marks[verdict]}</span>${escaped(title)}<span class="label">${labels[verdict]}</span></h2>
<dl>${facts.map(([name, text]) => `<dt>${name}</dt><dd>${escaped(text)}</dd>`).join('')}</dl>
<p class="see"><code>${escaped(id)}</code> ${link(see)}</p>
</article>`;
}

function row({ id, title, verdict, seen, remedy }: CheckResult): string {
  const more = remedy === undefined ? '' : `. ${remedy}`;
  return `<tr><td class="mark ${verdict}" aria-hidden="true">${marks[verdict]}</td><td>${escaped(title)}<small><code>${escaped(id)}</code> ${escaped(seen + more)}</small></td></tr>`;
}

function link(see: string): string {
  return /^https?:/.test(see) ? `<a href="${escaped(see)}">${escaped(see)}</a>` : escaped(see);
}

/** What strangers answer is shown too. */
function escaped(text: string): string {
  const entities: Record<string, string> = {
    '&': '&amp;',
    '<': '&lt;',
    '>': '&gt;',
    '"': '&quot;',
    "'": '&#39;',
  };
  return text.replaceAll(/[&<>"']/g, (character) => entities[character] ?? '');
}

const STYLE = `
:root{--page:#f5f6f8;--card:#fff;--ink:#1b2430;--soft:#5b6675;--line:#e1e5ea;--fault:#c02626;--warning:#a65b00;--advice:#1f5fbf;--ok:#19764a;--not-checked:#6b7280}
@media (prefers-color-scheme:dark){:root{--page:#12161c;--card:#1b2129;--ink:#e7ebf0;--soft:#9aa6b4;--line:#2d3540;--fault:#ff7b72;--warning:#f0b04a;--advice:#79b4ff;--ok:#56d08f;--not-checked:#98a2b0}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;-webkit-text-size-adjust:100%}
main{max-width:46rem;margin:0 auto;padding:1.5rem 1rem 2.5rem}
header,article,.list{background:var(--card);border:1px solid var(--line);border-radius:12px}
header{padding:1.25rem 1.4rem;border-top:5px solid var(--tone)}
header.ok{--tone:var(--ok)}header.warning{--tone:var(--warning)}header.fault{--tone:var(--fault)}
.kind{margin:0;color:var(--soft);font-size:.85rem}
h1{margin:.1rem 0 .3rem;font-size:1.5rem;line-height:1.25}
.url{margin:0;font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:.9rem;overflow-wrap:anywhere}
.counts{display:flex;flex-wrap:wrap;gap:.45rem;list-style:none;margin:1rem 0 0;padding:0}
.counts li,.label{border:1px solid currentColor;border-radius:999px;padding:.05rem .7rem;font-size:.85rem;color:var(--tone);white-space:nowrap}
article{margin-top:.8rem;padding:1rem 1.4rem;border-left:5px solid var(--tone)}
.fault{--tone:var(--fault)}.warning{--tone:var(--warning)}.advice{--tone:var(--advice)}.ok{--tone:var(--ok)}.not-checked{--tone:var(--not-checked)}
article h2{display:flex;align-items:baseline;gap:.6rem;margin:0;font-size:1.05rem;line-height:1.35}
article h2 .label{margin-left:auto;font-weight:400}
.mark{color:var(--tone);font-weight:700;width:1rem;text-align:center;flex:none}
dl{display:grid;grid-template-columns:6.2rem 1fr;gap:.3rem .8rem;margin:.7rem 0 .5rem;font-size:.95rem}
dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere;min-width:0}
.see{margin:0;color:var(--soft);font-size:.8rem;overflow-wrap:anywhere}
code{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:.92em}
a{color:var(--advice)}
.list{margin-top:.8rem;padding:1rem 1.4rem}
.list h2{margin:0 0 .4rem;font-size:1.05rem}
table{border-collapse:collapse;width:100%;font-size:.95rem}
td{padding:.4rem 0;border-top:1px solid var(--line);vertical-align:top;overflow-wrap:anywhere}
tr:first-child td{border-top:0}
td.mark{width:1.8rem;text-align:left}
small{display:block;color:var(--soft);font-size:.8rem}
footer{margin-top:1.2rem;color:var(--soft);font-size:.82rem}
footer p{margin:.3rem 0}
@media (max-width:34rem){main{padding:.8rem .6rem 2rem}header,article,.list{padding:.9rem 1rem}dl{grid-template-columns:1fr;gap:0}dd{margin-bottom:.4rem}h1{font-size:1.25rem}}
@media print{:root{--page:#fff;--card:#fff;--ink:#000;--soft:#444;--line:#bbb;--fault:#a11;--warning:#850;--advice:#14a;--ok:#163;--not-checked:#555}main{max-width:none;padding:0}article,header,tr{break-inside:avoid}}
`;
