/* SPDX-License-Identifier: Apache-2.0
 *
 * The page as a whole: its head, the first table, the commands.
 */
#include <math.h>
#include <time.h>

#include "runtime/cli/page/html.h"
#include "runtime/cli/page/style.h"

/* --- the table --- */

/* A figure, and where its command stands. */
static void cell(FILE *f, const json_t *row, const char *key, const char *fmt, double v, double scale) {
  if (isnan(v)) {
    fputs("<td class=soft>&ndash;</td>", f);
    return;
  }
  fprintf(f, "<td><a href=\"#%s.%s\">", page_string(row, "id"), key);
  fprintf(f, fmt, v * scale);
  fputs("</a></td>", f);
}

static const char *title_of(const char *group) {
  return strcmp(group, "floats") == 0    ? "weights as stored"
         : strcmp(group, "rounded") == 0 ? "rounded to nearest"
                                         : "calibrated (tenon quantize)";
}

static bool is_base(const json_t *row) { return strcmp(page_string(row, "id"), "f32") == 0; }

static double packed_bytes(const json_t *row) {
  const double v = page_number(row, "pack.total.bytes");
  return isnan(v) ? page_number(row, "inspect.memory.weights_bytes") : v;
}

static void table_row(FILE *f, const json_t *row) {
  char format[64];
  const double kl = is_base(row) && json_object_get(row, "eval") ? 0 : page_number(row, "eval.kl_divergence");
  page_format(row, format, sizeof format);
  fprintf(f, "<tr><td><span class=dot style=\"background:var(--%s)\"></span>", page_string(row, "group"));
  tni_put_markup(page_string(row, "label"), f);
  if (strcmp(page_string(row, "group"), "floats") != 0 && json_object_get(row, "check") &&
      strncmp(page_string(row, "label"), format, strlen(format)) != 0) {
    fputs(" <small>", f);
    tni_put_markup(format, f);
    fputs("</small>", f);
  }
  fputs("</td>", f);
  cell(f, row, "pack", "%.2f", page_bits(row), 1);
  cell(f, row, json_object_get(row, "pack") ? "pack" : "inspect", "%.2f", packed_bytes(row), 1e-6);
  cell(f, row, "eval", kl >= 1e-3 ? "%.4f" : kl > 0 ? "%.1e" : "%.0f", kl, 1);
  cell(f, row, "eval", "%.1f", is_base(row) ? (double)NAN : page_number(row, "eval.top1_agreement"), 100);
  cell(f, row, "eval", "%.3f", page_number(row, "eval.perplexity"), 1);
  cell(f, row, "bench", "%.0f", page_rate(row, "pp"), 1);
  cell(f, row, "bench", "%.1f", page_rate(row, "tg"), 1);
  cell(f, row, "bench", "%.1f", page_number(row, "bench.peak_rss_bytes"), 1e-6);
  fputs("</tr>\n", f);
}

static void write_table(const page_asker *a, const json_t *rows, FILE *f) {
  const char *group = "";
  size_t i;
  json_t *row;
  fputs(
      "<section id=table><h2>Formats side by side</h2><p>KL divergence, the share of equal first choices and perplexity are "
      "of the text below, against the model in f32. Tap a figure for the command that makes it again.</p>"
      "<div class=scroll><table><thead><tr><th>weights<th>bits<br>a weight<th>weights,<br>MB<th>KL<th>same<br>"
      "first, %<th>perplexity",
      f);
  fprintf(f, "<th>prefill %d,<br>tokens/s<th>decode %d,<br>tokens/s<th>peak<br>memory, MB</tr></thead><tbody>\n",
          a->with->n_prompt, a->with->n_gen);
  json_array_foreach(rows, i, row) {
    if (strcmp(group, page_string(row, "group")) != 0) {
      group = page_string(row, "group");
      fprintf(f, "<tr class=group><td colspan=1>%s<td colspan=8></tr>\n", title_of(group));
    }
    table_row(f, row);
  }
  fputs("</tbody></table></div>", f);
  if (!a->with->text) fputs("<p>No quality: <code>--text FILE</code> was not given.</p>", f);
  if (!a->with->calibration) fputs("<p>Nothing calibrated: <code>--calibrate FILE</code> was not given.</p>", f);
  fputs("</section>\n", f);
}

/* --- commands --- */

static void write_commands(const page_asker *a, const json_t *rows, FILE *f) {
  size_t i;
  json_t *c, *row;
  fputs(
      "<section id=commands><h2>Commands</h2><p>Each prints one JSON object; the figures above are in it. Profiles that a "
      "command names are these:</p><ol class=cmd>\n",
      f);
  json_array_foreach(rows, i, row) {
    if (!json_object_get(row, "yaml")) continue;
    fputs("<li><code>echo '", f);
    tni_put_markup(page_string(row, "yaml"), f);
    fputs("' &gt; ", f);
    tni_put_markup(page_string(row, "profile"), f);
    fputs("</code></li>\n", f);
  }
  fputs("</ol><h3>In the order they ran</h3><ol class=cmd>\n", f);
  json_array_foreach(a->commands, i, c) {
    fprintf(f, "<li id=\"%s\"><code>", page_string(c, "id"));
    tni_put_markup(page_string(c, "line"), f);
    fputs("</code>", f);
    if (json_object_get(c, "why")) {
      fputs("<span class=why>failed: ", f);
      tni_put_markup(page_string(c, "why"), f);
      fputs("</span>", f);
    }
    fputs("</li>\n", f);
  }
  fputs("</ol></section>\n", f);
}

static int count_failed(const page_asker *a) {
  int n = 0;
  for (size_t i = 0; i < json_array_size(a->commands); i++)
    n += json_object_get(json_array_get(a->commands, i), "why") != NULL;
  return n;
}

/* --- all --- */

static void write_head(const page_asker *a, const json_t *rows, FILE *f) {
  const json_t *base = json_array_get(rows, 0), *machine = json_object_get(json_object_get(base, "bench"), "machine");
  const time_t now = time(NULL);
  struct tm t;
  char date[32] = "";
  if (gmtime_r(&now, &t)) strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", &t);
  fputs(
      "<!doctype html>\n<html lang=en><head><meta charset=utf-8><meta name=viewport "
      "content=\"width=device-width,initial-scale=1\"><title>",
      f);
  tni_put_markup(a->with->model, f);
  fprintf(f, ": weight formats</title><style>%s</style></head>\n<body><header><h1>", page_style);
  tni_put_markup(a->with->model, f);
  fputs("</h1><p>", f);
  tni_put_markup(page_string(machine, "cpu"), f);
  fprintf(f, ", %.0f processors, %.1f GB memory, Linux ", page_number(machine, "processors"),
          page_number(machine, "memory_bytes") / 1e9);
  tni_put_markup(page_string(machine, "kernel"), f);
  fprintf(f, ". Tenon %s, %s.", tn_version(), date);
  if (a->with->text) {
    fputs(" Text: ", f);
    tni_put_markup(a->with->text, f);
    fprintf(f, ", %.0f tokens.", page_number(base, "eval.tokens"));
  }
  if (a->with->calibration) {
    fputs(" Calibrated on ", f);
    tni_put_markup(a->with->calibration, f);
    fputs(".", f);
  }
  fputs(
      "</p><nav><a href=\"#table\">Formats</a><a href=\"#charts\">Charts</a><a href=\"#heat\">Layers</a>"
      "<a href=\"#samples\">Samples</a><a href=\"#memory\">Memory</a><a href=\"#placement\">Placement</a>"
      "<a href=\"#commands\">Commands</a></nav></header>\n<main>\n",
      f);
}

void page_write(const page_asker *a, const json_t *rows, FILE *f) {
  write_head(a, rows, f);
  write_table(a, rows, f);
  page_charts(rows, f);
  page_heat(a, rows, f);
  page_samples(a, rows, f);
  page_memory(rows, f);
  page_placement(rows, f);
  write_commands(a, rows, f);
  fputs("</main></body></html>\n", f);
}

static void set_figure(json_t *o, const char *key, double v) {
  if (!isnan(v)) json_object_set_new(o, key, json_real(v));
}

json_t *page_figures(const page_asker *a, const json_t *rows) {
  json_t *list = json_array(), *row;
  size_t i;
  json_array_foreach(rows, i, row) {
    json_t *o = json_pack("{s:s, s:s}", "label", page_string(row, "label"), "group", page_string(row, "group"));
    set_figure(o, "bits_per_weight", page_bits(row));
    set_figure(o, "weights_bytes", packed_bytes(row));
    set_figure(o, "kl_divergence", page_number(row, "eval.kl_divergence"));
    set_figure(o, "top1_agreement", page_number(row, "eval.top1_agreement"));
    set_figure(o, "perplexity", page_number(row, "eval.perplexity"));
    set_figure(o, "prefill_tokens_per_s", page_rate(row, "pp"));
    set_figure(o, "decode_tokens_per_s", page_rate(row, "tg"));
    set_figure(o, "peak_rss_bytes", page_number(row, "bench.peak_rss_bytes"));
    json_array_append_new(list, o);
  }
  return json_pack("{s:s, s:o, s:i}", "page", a->with->out, "rows", list, "failed", count_failed(a));
}
