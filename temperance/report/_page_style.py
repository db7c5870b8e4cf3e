"""The style of a page: one column, large type, light and dark."""

STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #55606e; --line: #dfe3e8; --paper: #ffffff;
  --back: #f5f6f8; --accent: #005a8d; --best: #e3f1fa; --shade: #8895a580; --warn: #fdf3dd; --warnline: #d18a00; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ee; --soft: #a4aeba; --line: #343c48; --paper: #1d232c;
  --back: #12161c; --accent: #6cb8ea; --best: #143a52; --shade: #000000b0; --warn: #33290f; --warnline: #d6a030; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--back); color: var(--ink);
  font: 1rem/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 64rem; margin: 0 auto; padding: 1.5rem 1rem 2rem; }
h1 { font-size: clamp(1.5rem, 4.5vw, 2.2rem); line-height: 1.2; margin: .5rem 0 1.25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 0 0 .9rem; }
h3 { font-size: 1rem; margin: 0 0 .3rem; }
section { background: var(--paper); border: 1px solid var(--line); border-radius: .75rem;
  padding: 1.25rem clamp(1rem, 3vw, 1.75rem); margin: 0 0 1.1rem; }
.summary p { max-width: 44rem; margin: .35rem 0; }
.summary .answer { font-size: 1.1rem; margin: 0 0 .6rem; color: var(--soft); }
.answer strong { font-size: clamp(1.9rem, 7vw, 2.8rem); line-height: 1.1; color: var(--accent); margin-right: .5rem; }
.notes { background: var(--warn); border-left: .3rem solid var(--warnline); border-radius: .4rem;
  padding: .7rem 1rem; margin-top: 1rem; }
.notes ul { margin: 0; padding-left: 1.1rem; }
figure { margin: 0 0 1.5rem; }
figure:last-child { margin-bottom: 0; }
.paper { background: #ffffff; border-radius: .5rem; padding: .5rem; border: 1px solid var(--line); }
.paper svg, .paper img { display: block; width: 100%; height: auto; margin: 0 auto; overflow: visible; }
@media (prefers-color-scheme: dark) { .paper { background: #1f1f1f; }
  .paper svg, .paper img, .paper svg image { filter: invert(.88) hue-rotate(180deg); } }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); gap: 1.5rem; }
.figures figure { margin: 0; }
figcaption { color: var(--soft); font-size: .93rem; margin-top: .5rem; max-width: 46rem; }
figcaption strong { color: var(--ink); }
.wide { overflow-x: auto; border-radius: .4rem; background-repeat: no-repeat;
  background-image: linear-gradient(to right, var(--paper) 30%, transparent),
    linear-gradient(to left, var(--paper) 30%, transparent), linear-gradient(to right, var(--shade), transparent),
    linear-gradient(to left, var(--shade), transparent);
  background-position: left, right, left, right; background-size: 2.5rem 100%, 2.5rem 100%, .9rem 100%, .9rem 100%;
  background-attachment: local, local, scroll, scroll; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; font-variant-numeric: tabular-nums; }
caption { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
th, td { padding: .38rem .7rem; text-align: left; white-space: nowrap; border-bottom: 1px solid var(--line); }
th { font-weight: 600; color: var(--soft); }
.number { text-align: right; }
td:first-child, th:first-child { text-align: left; }
tr.best td { background: var(--best); font-weight: 600; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .3rem 1.1rem; margin: 0; font-size: .93rem; }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
@media (max-width: 34rem) { dl { grid-template-columns: 1fr; } dd { margin-bottom: .5rem; }
  th, td { padding: .34rem .5rem; } td:last-child:not(.number) { white-space: normal; min-width: 11rem; }
  .paper { padding: .15rem; } }
pre { margin: 0; padding: .9rem 1rem; overflow-x: auto; background: var(--back); border-radius: .5rem;
  font: .88rem/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
.skip { position: absolute; left: -99rem; }
.skip:focus { left: 1rem; top: 1rem; background: var(--paper); padding: .5rem 1rem; z-index: 1; }
.map { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)); gap: 1.25rem; }
.map svg { width: 100%; height: auto; border: 1px solid var(--line); border-radius: .5rem; }
.map circle { fill: var(--accent); fill-opacity: .28; stroke: var(--accent); cursor: pointer; }
.map g.found circle { fill: var(--warnline); stroke: var(--warnline); fill-opacity: .5; }
.map g[aria-pressed=true] circle { fill-opacity: 1; stroke-width: 2.5; }
.map svg g[aria-pressed=true] text { fill: var(--paper); font-weight: bold; }
.map svg text { fill: var(--ink); font-size: 16px; text-anchor: middle; pointer-events: none; }
.map label { display: block; margin: 0 0 .6rem; color: var(--soft); font-size: .93rem; }
.map input { font: inherit; width: 100%; color: var(--ink); background: var(--back); border: 1px solid var(--line);
  border-radius: .4rem; padding: .3rem .5rem; accent-color: var(--accent); }
.map ol { list-style: none; margin: .4rem 0 0; padding: 0; font-size: .92rem; }
.map li { display: grid; grid-template-columns: 9rem 1fr 3.2rem; gap: .5rem; align-items: center; }
.map li span:first-child { overflow-wrap: anywhere; }
.map li i { display: block; height: .8rem; background: var(--accent); border-radius: .15rem; }
.map li span:last-child { text-align: right; color: var(--soft); font-variant-numeric: tabular-nums; }
blockquote { margin: .3rem 0 .8rem; padding-left: .8rem; border-left: .2rem solid var(--line); color: var(--soft);
  overflow-wrap: anywhere; }
footer { max-width: 64rem; margin: 0 auto; padding: 0 1rem 2rem; color: var(--soft); font-size: .88rem; }
@media print { body { background: #fff; } section { border: 0; padding: 0; break-inside: avoid; } }
"""
