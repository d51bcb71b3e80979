/** The look of all pages: one style sheet, light and dark, for screens from 360 px and for paper. */

const LIGHT = `
--paper:#fdfdfc;--card:#ffffff;--ink:#1b1e23;--soft:#555c66;--rule:#dcdfe3;--accent:#1f5fa8;--good:#1c6b3c;
--bad:#a8321f;--fill:31,95,168;--wrong:168,50,31;--code:#f4f5f6;--c1:#1f5fa8;--c2:#c4570e;--c3:#2c7d4f;--c4:#7b4fa3;--c5:#8a6d00;--grid:#e6e8eb;`;

const DARK = `
--paper:#15171a;--card:#1c1f23;--ink:#e6e8eb;--soft:#a3abb5;--rule:#343940;--accent:#7db4f0;--good:#7fcf9b;
--bad:#f29b8b;--fill:95,155,225;--wrong:225,115,95;--code:#22262b;--c1:#7db4f0;--c2:#f0a566;--c3:#7fcf9b;--c4:#c2a0e8;--c5:#d9c15c;--grid:#2b3036;`;

export const STYLE = `
:root{color-scheme:light dark;${LIGHT}}
@media (prefers-color-scheme:dark){:root:not([data-scheme=light]){${DARK}}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;scroll-padding-top:1rem}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","Liberation Sans","DejaVu Sans",sans-serif;font-variant-numeric:tabular-nums;overflow-wrap:break-word}
main,header.top,footer{max-width:1120px;margin:0 auto;padding:0 1.5rem}
header.top{padding-top:2.75rem}
h1{font-size:2rem;line-height:1.2;letter-spacing:-.015em;margin:0 0 .4rem;font-weight:650}
h2{font-size:1.3rem;line-height:1.3;margin:0 0 .8rem;font-weight:650;letter-spacing:-.005em}
h3{font-size:1rem;margin:1.6rem 0 .4rem;font-weight:650}
p{margin:0 0 .9rem;max-width:72ch}
a{color:var(--accent)}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
section{padding:2.2rem 0 1.2rem;border-top:1px solid var(--rule)}
.lead{font-size:1.125rem;line-height:1.6;max-width:70ch}
.byline{color:var(--soft);margin-bottom:1.4rem}
nav ul{list-style:none;display:flex;flex-wrap:wrap;gap:.3rem 1.2rem;padding:0;margin:0 0 1.6rem;font-size:.925rem}
nav a{text-decoration:none}nav a:hover{text-decoration:underline}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(190px,1fr));gap:1px;background:var(--rule);border:1px solid var(--rule);margin:1.4rem 0}
.tiles>div{background:var(--card);padding:.9rem 1.1rem}
.tiles dt{font-size:.875rem;color:var(--soft)}
.tiles dd{margin:0}
.tiles .big{font-size:1.9rem;line-height:1.25;font-weight:600;letter-spacing:-.02em}
.tiles .small{display:block;font-size:.85rem;color:var(--soft)}
.facts{display:grid;grid-template-columns:max-content 1fr;gap:.3rem 1.4rem;margin:0 0 1rem}
.facts dt{color:var(--soft)}.facts dd{margin:0;min-width:0}
code,pre{font-family:ui-monospace,"SF Mono",Menlo,Consolas,"Liberation Mono","DejaVu Sans Mono",monospace;font-size:.86em}
pre{background:var(--code);border:1px solid var(--rule);padding:.75rem .9rem;margin:0 0 1rem;overflow:auto;white-space:pre-wrap;overflow-wrap:anywhere;line-height:1.5;unicode-bidi:isolate;max-height:22rem}
.scroll{overflow-x:auto;margin:0 0 1.4rem}
table{border-collapse:collapse;font-size:.925rem;width:100%}
.caption{margin:0 0 .5rem}caption,.caption{text-align:left;color:var(--soft);font-size:.875rem;padding:0 0 .5rem}
th,td{padding:.5rem .7rem;text-align:right;vertical-align:top;border-bottom:1px solid var(--rule)}
thead th{border-bottom:1.5px solid var(--ink);vertical-align:bottom;font-weight:600;white-space:nowrap}
th:first-child{text-align:left;padding-left:0}
tbody th{font-weight:500}
.mean,.ci,.required{display:block;white-space:nowrap}
.mean{font-weight:600}.ci{font-size:.8rem;color:var(--soft)}
.required{font-size:.8rem}
.met{color:var(--good);font-weight:600}.missed{color:var(--bad);font-weight:600;text-decoration:underline;text-underline-offset:2px}
.note{display:block;font-size:.8rem;line-height:1.4;color:var(--soft);font-weight:400;max-width:38ch}
.results{table-layout:fixed;min-width:860px}.results thead th,.types thead th{white-space:normal}
.results th:first-child{width:34%}
.scroll th:first-child{position:sticky;left:0;background:var(--paper);z-index:1}
.types{table-layout:fixed;min-width:720px}.types th:first-child{width:20%}.types th:nth-child(2){width:9%}
.types caption{color:var(--ink);font-weight:600;font-size:.95rem}
.none{color:var(--soft)}
.count{color:var(--soft)}
.whisker{display:block;width:100%;min-width:84px;height:10px;margin:.2rem 0 .1rem;overflow:visible}
.whisker line{vector-effect:non-scaling-stroke}
.whisker .axis{stroke:var(--rule);stroke-width:1}
.whisker .range{stroke:var(--accent);stroke-width:3;stroke-opacity:.45}
.whisker .dot{stroke:var(--accent);stroke-width:3}
.whisker .floor{stroke:var(--ink);stroke-width:1}
.shaded{background:color-mix(in srgb,rgb(var(--fill)) calc(var(--share)*.28),transparent)}
.confusion{width:auto}
.confusion td{min-width:5.5rem;text-align:center}
.confusion thead th{white-space:normal;text-align:center}
.confusion thead th:first-child{text-align:left}
.confusion .wrong{background:color-mix(in srgb,rgb(var(--wrong)) calc(var(--share)*.5),transparent)}
.confusion .ungraded{background:color-mix(in srgb,var(--soft) calc(var(--share)*.25),transparent)}
.confusion .right{font-weight:600}
.zero{color:var(--soft);opacity:.6}
.gains{width:auto}
.record{width:100%}
.record td,.record th{text-align:left}.record td{overflow-wrap:anywhere}
.spans{min-width:560px}.spans tbody th{color:var(--ink);font-weight:500}.spans thead th{color:var(--ink);font-weight:600;white-space:normal}
.record th{color:var(--soft);font-weight:400;width:16rem;min-width:9rem}
.study{font-size:.85rem}.study thead th{white-space:normal}.study th,.study td{padding:.4rem .22rem}
.study th:first-child{min-width:7rem;padding-left:0}.study .ci{font-size:.69rem}.study .whisker{min-width:60px}
.legend{display:flex;flex-wrap:wrap;gap:.4rem;margin:0 0 1.2rem}
.legend button{display:flex;align-items:center;gap:.45rem;font:inherit;font-size:.875rem;color:var(--ink);background:var(--card);border:1px solid var(--rule);padding:.2rem .6rem;cursor:pointer}
.legend button[aria-pressed=false]{color:var(--soft);opacity:.55;text-decoration:line-through}
.legend svg{width:26px;height:8px;flex:none}.legend line{stroke-width:2.2}
.curves{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,330px),1fr));gap:1.6rem 1.8rem}
.curves figure{margin:0;min-width:0}
.curves figcaption h3{margin:0}
.curves figcaption{font-size:.85rem;color:var(--soft)}
.curves figcaption h3{color:var(--ink);font-size:.95rem}
.curve{height:230px}
.ends{font-size:.8rem;color:var(--soft);margin:.1rem 0 0}
.failure{color:var(--bad)}
.example{background:var(--card);border:1px solid var(--rule);padding:1.1rem 1.2rem 1.2rem;margin:0 0 1.4rem}
.example h3{margin:0;font-size:1rem}
.example .verdict{margin:.1rem 0 .7rem;max-width:none;font-size:.925rem}
.example .chosen{color:var(--soft);font-weight:400;font-size:.875rem;margin-left:.6rem}
.example h4{font-size:.85rem;color:var(--soft);font-weight:600;margin:0 0 .3rem}
.plot{margin:0 0 .6rem;background:#fff;border:1px solid var(--rule);padding:.3rem;overflow-x:auto}
.plot svg{display:block;width:100%;height:auto;min-width:520px}
.seen{margin:0 0 .8rem}
.seen img{display:block;width:100%;max-width:560px;height:auto;image-rendering:pixelated;border:1px solid var(--rule);background:#fff}
.seen.whole img{width:auto;max-width:100%;max-height:36rem;image-rendering:auto}
.seen figcaption{font-size:.8rem;color:var(--soft)}
.pair{display:grid;grid-template-columns:2fr 3fr;gap:1.2rem}
.pair>*{min-width:0}
.example pre{margin:0}header .plot{margin-bottom:1.6rem}
pre.prose{font-family:inherit;font-size:.875rem;line-height:1.5}.example pre.prose{max-height:none}
.parts{display:flex;flex-wrap:wrap;gap:.2rem 1.3rem;margin:.2rem 0 .9rem;font-size:.875rem}
.parts div{display:flex;gap:.4rem}.parts dt{color:var(--soft)}.parts dd{margin:0;font-weight:600}
.list{margin:0 0 .9rem;padding-left:1.2rem;max-width:72ch}.list li{margin:.25rem 0}
details{margin:0 0 1rem}summary{cursor:pointer;color:var(--accent)}
details[open] summary{margin-bottom:.7rem}
footer{color:var(--soft);font-size:.85rem;padding-top:1.2rem;padding-bottom:3rem;border-top:1px solid var(--rule)}
bdi{unicode-bidi:isolate}
@media (max-width:640px){
body{font-size:15px}main,header.top,footer{padding-left:1rem;padding-right:1rem}header.top{padding-top:1.6rem}
h1{font-size:1.55rem}.lead{font-size:1.03rem}.pair{grid-template-columns:1fr}
.tiles{grid-template-columns:1fr 1fr}.tiles .big{font-size:1.5rem}.tiles>div{padding:.7rem .8rem}
.facts{grid-template-columns:1fr;gap:0}.facts dd{margin-bottom:.5rem}
.results{min-width:640px}.results th:first-child{width:24%}.results .note{display:none}.types{min-width:600px}.plot svg{min-width:560px}
th,td{padding:.45rem .5rem}.example{padding:.9rem .8rem}.record th{width:auto}
}
@media print{
:root{${LIGHT}}body{background:#fff;font-size:10.5pt}main,header.top,footer{max-width:none;padding:0}nav{display:none}
section{break-inside:auto;padding-top:1rem}.example,.curves figure,tr,.tiles{break-inside:avoid}h2,h3{break-after:avoid}
pre{max-height:none;overflow:visible}.scroll,.plot{overflow:visible}.plot svg{min-width:0}
}
@media (prefers-reduced-motion:no-preference){html{scroll-behavior:smooth}}
`.replaceAll('\n', '');
