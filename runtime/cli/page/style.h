/* SPDX-License-Identifier: Apache-2.0
 *
 * What the page looks like: one column that fits a phone, wide tables that scroll inside their frame, both colour schemes.
 */
#ifndef TENON_CLI_PAGE_STYLE_H
#define TENON_CLI_PAGE_STYLE_H

static const char page_style[] =
    ":root{--bg:#f5f6f8;--card:#fff;--ink:#1b1f27;--soft:#667085;--line:#e3e6ec;--rounded:#2563eb;--calibrated:#0d9455;"
    "--floats:#8a5cf0;--mark:#fff3c4}"
    "@media(prefers-color-scheme:dark){:root{--bg:#12151b;--card:#1b1f28;--ink:#e8eaf0;--soft:#9aa3b5;--line:#2e3442;"
    "--rounded:#6ea0ff;--calibrated:#4cc98f;--floats:#b39afa;--mark:#4b4015}}"
    "*{box-sizing:border-box}"
    "body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}"
    "main,header{max-width:1060px;margin:0 auto;padding:0 16px}"
    "header{padding-top:28px}h1{font-size:26px;margin:0 0 4px;overflow-wrap:anywhere}"
    "h2{font-size:18px;margin:0 0 4px}h3{font-size:15px;margin:14px 0 6px}"
    "p{margin:4px 0 10px;color:var(--soft);max-width:72ch}"
    "nav{display:flex;flex-wrap:wrap;gap:8px;margin:14px 0}"
    "nav a{padding:4px 12px;border:1px solid var(--line);border-radius:999px;background:var(--card);color:var(--ink);"
    "text-decoration:none;font-size:14px}"
    "section{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:16px;margin:14px 0}"
    ".scroll{overflow-x:auto;margin:0 -4px}"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:14px;min-width:100%}"
    "th,td{padding:6px 10px;text-align:right;white-space:nowrap;border-bottom:1px solid var(--line)}"
    "th{color:var(--soft);font-weight:600;vertical-align:bottom}"
    "th:first-child,td:first-child{text-align:left;position:sticky;left:0;background:var(--card)}"
    "tr.group td{color:var(--soft);font-size:12px;text-transform:uppercase;letter-spacing:.05em;padding-top:14px}"
    "td a{color:inherit;text-decoration:none;border-bottom:1px dotted var(--soft)}"
    ".dot{display:inline-block;width:9px;height:9px;border-radius:50%;margin-right:7px}"
    ".charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(290px,1fr));gap:14px}"
    "svg{width:100%;height:auto;display:block}svg text{fill:var(--soft);font-size:12px}svg .name{fill:var(--ink)}"
    ".heat td,.heat th{padding:0;text-align:center;border:0;font-size:12px}"
    ".heat th{padding:2px 6px;font-weight:500}.heat td:first-child,.heat th:first-child{padding:0 8px 0 0;color:var(--soft)}"
    ".heat td.v{min-width:52px;height:26px;border:1px solid var(--card);border-radius:4px}"
    "details{border-top:1px solid var(--line);padding:8px 0}summary{cursor:pointer;font-weight:600}"
    ".samples{display:grid;grid-template-columns:repeat(auto-fill,minmax(270px,1fr));gap:12px}"
    ".sample{border:1px solid var(--line);border-radius:10px;padding:10px 12px;overflow-wrap:anywhere}"
    ".sample b{display:block;margin-bottom:4px}.sample i{font-style:normal;color:var(--soft)}"
    ".sample mark{background:var(--mark);color:inherit;border-radius:3px}"
    ".bar{display:flex;height:12px;border-radius:4px;overflow:hidden;min-width:150px;background:var(--line)}.bar span{height:100%}"
    ".key{display:flex;flex-wrap:wrap;gap:4px 16px;font-size:13px;color:var(--soft);margin:6px 0}"
    ".key i{display:inline-block;width:10px;height:10px;border-radius:3px;margin-right:6px}"
    "code{font:12.5px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}"
    "ol.cmd{list-style:none;margin:0;padding:0}ol.cmd li{padding:5px 8px;border-bottom:1px solid var(--line);"
    "overflow-wrap:anywhere;border-radius:6px}ol.cmd li:target{background:var(--mark)}ol.cmd .why{color:#d13b3b;display:block}"
    ".soft{color:var(--soft)}small{color:var(--soft);font-size:12px}";

#endif
