/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples, memory and placement.
 */
#include <math.h>

#include "runtime/cli/page/html.h"

/* --- samples --- */

/* Bytes that two texts begin with alike, whole letters. */
static size_t common_bytes(const char *a, const char *b) {
  size_t n = 0;
  while (a[n] && a[n] == b[n]) n++;
  while (n && ((unsigned char)a[n] & 0xc0) == 0x80) n--;
  return n;
}

static void sample(const page_asker *a, const json_t *row, const char *base, FILE *f) {
  const char *text = page_string(json_object_get(row, "run"), "text");
  const size_t n = common_bytes(text, base);
  char head[4096];
  snprintf(head, sizeof head, "%.*s", (int)(n < sizeof head - 1 ? n : sizeof head - 1), text);
  fputs("<div class=sample><b>", f);
  tni_put_markup(page_string(row, "label"), f);
  fputs("</b><i>", f);
  tni_put_markup(a->with->prompt, f);
  fputs("</i>", f);
  tni_put_markup(head, f);
  if (text[n]) {
    fputs("<mark>", f);
    tni_put_markup(text + n, f);
    fputs("</mark>", f);
  }
  fprintf(f, " <a class=soft href=\"#%s.run\">command</a></div>\n", page_string(row, "id"));
}

void page_samples(const page_asker *a, const json_t *rows, FILE *f) {
  const char *base = page_string(json_object_get(json_array_get(rows, 0), "run"), "text");
  size_t i;
  json_t *row;
  fputs(
      "<section id=samples><h2>Samples</h2><p>Greedy, from one prompt. Marked: what is no longer the text of the model in "
      "f32.</p><div class=samples>\n",
      f);
  json_array_foreach(rows, i, row) {
    if (json_object_get(row, "run")) sample(a, row, base, f);
  }
  fputs("</div></section>\n", f);
}

/* --- memory --- */

static const struct {
  const char *key, *name, *color;
} kinds[] = {{"packed_bytes", "packed weights", "#2563eb"}, {"weights_bytes", "weights as stored", "#8a5cf0"},
             {"kv_bytes", "caches", "#0d9455"},             {"arena_bytes", "arena", "#e08a1e"},
             {"scratch_bytes", "scratch", "#d13b7d"},       {"base_bytes", "program and plugins", "#8b95a5"}};
enum { KINDS = sizeof kinds / sizeof *kinds };

static double sum_of(const json_t *memory) {
  double sum = 0;
  for (int k = 0; k < KINDS; k++) sum += fmax(0, page_number(memory, kinds[k].key));
  return sum;
}

static void memory_row(const json_t *row, double most, FILE *f) {
  const json_t *memory = json_object_get(json_object_get(row, "inspect"), "memory");
  fputs("<tr><td>", f);
  tni_put_markup(page_string(row, "label"), f);
  fputs("</td><td><div class=bar>", f);
  for (int k = 0; k < KINDS; k++)
    fprintf(f, "<span style=\"width:%.2f%%;background:%s\"></span>",
            100 * fmax(0, page_number(memory, kinds[k].key)) / most, kinds[k].color);
  fputs("</div></td>", f);
  for (int k = 0; k < KINDS; k++)
    fprintf(f, "<td><a href=\"#%s.inspect\">%.2f</a></td>", page_string(row, "id"),
            page_number(memory, kinds[k].key) / 1e6);
  fputs("</tr>\n", f);
}

void page_memory(const json_t *rows, FILE *f) {
  size_t i;
  json_t *row;
  double most = 1;
  json_array_foreach(rows, i, row) most =
      fmax(most, sum_of(json_object_get(json_object_get(row, "inspect"), "memory")));
  const double context = page_number(json_array_get(rows, 0), "inspect.context");
  fputs("<section id=memory><h2>Memory</h2><p>What <code>tenon inspect</code> states", f);
  if (context > 0) fprintf(f, " for a context of %.0f tokens", context);
  fputs(
      ", in MB. Weights as stored lie in a mapped file where a format does not replace them.</p><div class=scroll><table>"
      "<thead><tr><th>weights<th>",
      f);
  for (int k = 0; k < KINDS; k++)
    fprintf(f, "<th><span class=dot style=\"background:%s\"></span>%s", kinds[k].color, kinds[k].name);
  fputs("</tr></thead><tbody>\n", f);
  json_array_foreach(rows, i, row) {
    if (json_object_get(row, "inspect")) memory_row(row, most, f);
  }
  fputs("</tbody></table></div></section>\n", f);
}

/* --- placement --- */

static void phase_text(const json_t *phase, FILE *f) {
  const char *device;
  json_t *count;
  bool more = false;
  json_object_foreach(json_object_get(phase, "placement"), device, count) {
    if (more) fputs(", ", f);
    tni_put_markup(device, f);
    fprintf(f, " %lld", (long long)json_integer_value(count));
    more = true;
  }
}

void page_placement(const json_t *rows, FILE *f) {
  size_t i;
  json_t *row;
  fputs(
      "<section id=placement><h2>Placement</h2><p>Nodes on each device, and products with constant weights that fell back to "
      "the host.</p><div class=scroll><table><thead><tr><th>weights<th>prefill<th>decode<th>products<th>fell back</tr>"
      "</thead><tbody>\n",
      f);
  json_array_foreach(rows, i, row) {
    const json_t *check = json_object_get(row, "check"), *decode = json_object_get(check, "decode");
    if (!check) continue;
    fputs("<tr><td>", f);
    tni_put_markup(page_string(row, "label"), f);
    fprintf(f, "</td><td><a href=\"#%s.check\">", page_string(row, "id"));
    phase_text(check, f);
    fputs("</a></td><td>", f);
    if (decode)
      phase_text(decode, f);
    else
      fputs("the same", f);
    fprintf(f, "</td><td>%.0f</td><td>%.0f</td></tr>\n", fmax(0, page_number(check, "weight_products")),
            fmax(0, page_number(check, "fell_back")));
  }
  fputs("</tbody></table></div></section>\n", f);
}
