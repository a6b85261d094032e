/* SPDX-License-Identifier: Apache-2.0
 *
 * Maps of products: a row for each layer, a column for each kind of product. Both are read from names: the first number
 * is the layer, the rest the kind.
 */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>

#include "runtime/cli/page/html.h"

enum { MOST_KINDS = 24, MOST_LAYERS = 512, NAME = 160 };

typedef struct entry {
  const char *name, *title;
  double v;
  int layer, kind;
} entry;

typedef struct map {
  entry *e;
  size_t n;
  char kinds[MOST_KINDS][NAME];
  int n_kinds, layers; /* layers -1 .. layers - 1; -1: names without a number */
  bool rest;           /* some have no number */
  double low, high;
} map;

/* The first whole number of a name and what is left without it. */
static int split(const char *name, char *kind) {
  size_t at = 0, n = 0;
  int layer = -1;
  while (name[at] && !(isdigit((unsigned char)name[at]) && (at == 0 || strchr("./_", name[at - 1])))) at++;
  const size_t begin = at;
  for (; isdigit((unsigned char)name[at]); at++)
    layer = layer < 0 ? name[at] - '0' : layer < 10000 ? 10 * layer + name[at] - '0' : layer;
  for (size_t i = 0; name[i] && n + 1 < NAME; i++)
    if (i < begin || i >= at) kind[n++] = name[i];
  kind[n] = '\0';
  return layer;
}

static int find_kind(map *m, const char *kind) {
  for (int i = 0; i < m->n_kinds; i++)
    if (strcmp(m->kinds[i], kind) == 0) return i;
  if (m->n_kinds == MOST_KINDS) return -1;
  snprintf(m->kinds[m->n_kinds], NAME, "%s", kind);
  return m->n_kinds++;
}

/* Names that say too little stand one after another. */
static void place(map *m) {
  bool plain = false;
  for (size_t i = 0; i < m->n && !plain; i++) {
    char kind[NAME];
    m->e[i].layer = split(m->e[i].name, kind);
    m->e[i].kind = find_kind(m, kind);
    plain = m->e[i].kind < 0 || m->e[i].layer >= MOST_LAYERS;
  }
  if (plain) m->n_kinds = 0;
  if (plain) (void)find_kind(m, "product");
  m->low = INFINITY;
  for (size_t i = 0; i < m->n; i++) {
    entry *e = &m->e[i];
    if (plain) *e = (entry){e->name, e->title, e->v, (int)(i < MOST_LAYERS ? i : MOST_LAYERS - 1), 0};
    if (e->layer + 1 > m->layers) m->layers = e->layer + 1;
    m->rest = m->rest || e->layer < 0;
    if (e->v > 0) m->low = fmin(m->low, e->v);
    m->high = fmax(m->high, e->v);
  }
  m->low = fmin(m->low, m->high / 4); /* small differences stay pale */
}

/* The last part of a kind that is no operator's name: "q_proj" of "/model/layers./self_attn/q_proj/MatMul". */
static void short_name(const char *kind, char *out) {
  char text[NAME], *save = NULL;
  snprintf(text, sizeof text, "%s", kind);
  snprintf(out, NAME, "%s", kind);
  for (char *p = strtok_r(text, "/.", &save); p; p = strtok_r(NULL, "/.", &save))
    if (strncmp(p, "MatMul", 6) != 0 && strncmp(p, "Gemm", 4) != 0 && strcmp(p, "weight") != 0)
      snprintf(out, NAME, "%s", p);
}

static void print_value(double v, FILE *f) {
  fprintf(f, v >= .01 ? "%.3f" : v >= .0001 ? "%.5f" : v > 0 ? "%.1e" : "%.0f", v);
}

/* From light to dark on a scale of ratios. */
static void print_cell(const map *m, const entry *e, FILE *f) {
  const double wide = m->high > m->low ? log(e->v / m->low) / log(m->high / m->low) : .5;
  const double t = e->v > 0 ? fmin(fmax(wide, 0), 1) : 0;
  fprintf(f, "<td class=v style=\"background:rgb(%d,%d,%d);color:%s\" title=\"", (int)(240 - 208 * t),
          (int)(246 - 190 * t), (int)(255 - 105 * t), t > .5 ? "#fff" : "#1b1f27");
  tni_put_markup(e->title, f);
  fputs("\">", f);
  print_value(e->v, f);
  fputs("</td>", f);
}

static const entry *entry_at(const map *m, int layer, int kind) {
  for (size_t i = 0; i < m->n; i++)
    if (m->e[i].layer == layer && m->e[i].kind == kind) return &m->e[i];
  return NULL;
}

static void print_layer(const map *m, int layer, FILE *f) {
  bool any = false;
  for (int k = 0; k < m->n_kinds; k++) any = any || entry_at(m, layer, k);
  if (!any) return;
  if (layer < 0)
    fputs("<tr><td>others</td>", f);
  else
    fprintf(f, "<tr><td>%d</td>", layer);
  for (int k = 0; k < m->n_kinds; k++) {
    const entry *e = entry_at(m, layer, k);
    if (e)
      print_cell(m, e, f);
    else
      fputs("<td></td>", f);
  }
  fputs("</tr>\n", f);
}

static void print_map(map *m, FILE *f) {
  place(m);
  fputs("<div class=scroll><table class=heat><thead><tr><th>layer</th>", f);
  for (int k = 0; k < m->n_kinds; k++) {
    char name[NAME];
    short_name(m->kinds[k], name);
    fputs("<th>", f);
    tni_put_markup(name, f);
    fputs("</th>", f);
  }
  fputs("</tr></thead><tbody>\n", f);
  for (int layer = 0; layer < m->layers; layer++) print_layer(m, layer, f);
  if (m->rest) print_layer(m, -1, f);
  fputs("</tbody></table></div>", f);
}

/* --- errors of weights --- */

static bool errors_of(const json_t *row, map *m) {
  const json_t *list = json_object_get(json_object_get(row, "pack"), "tensors");
  size_t i;
  json_t *t;
  *m = (map){.e = calloc(json_array_size(list) + 1, sizeof *m->e)};
  if (!m->e) tni_json_lacked();
  json_array_foreach(list, i, t) {
    const char *node = page_string(t, "node");
    const double v = page_number(t, "rms");
    if (!m->e || !(v >= 0)) continue;
    m->e[m->n++] = (entry){.name = *node ? node : page_string(t, "name"), .title = page_string(t, "name"), .v = v};
    if (v > m->high) m->high = v;
  }
  return m->n > 0 && m->high > 0;
}

static void print_errors(const json_t *rows, FILE *f) {
  size_t i, shown = 0;
  json_t *row;
  map m;
  json_array_foreach(rows, i, row) {
    if (errors_of(row, &m)) {
      m.high = 0;
      fprintf(f, "<details%s><summary>", shown++ ? "" : " open");
      tni_put_markup(page_string(row, "label"), f);
      fprintf(f, ": rms %.4f of all</summary>", page_number(row, "pack.total.rms"));
      print_map(&m, f);
      fprintf(f, "<p><a class=soft href=\"#%s.pack\">command</a></p></details>\n", page_string(row, "id"));
    }
    free(m.e);
  }
  if (!shown) fputs("<p>Every weight is as the model stores it.</p>", f);
}

/* --- sensitivities --- */

/* quantize.json of the folder, NULL: there is none. */
static json_t *notes_of(const char *folder) {
  char path[PAGE_PATH];
  tni_file file;
  tn_error ignored;
  tni_error_init(&ignored);
  snprintf(path, sizeof path, "%s/quantize.json", folder);
  if (tni_file_read(path, &file, &ignored) != TN_OK) return NULL;
  json_t *j = file.bytes ? json_loadb(file.data, file.bytes, 0, NULL) : NULL;
  tni_file_unmap(&file);
  return j;
}

/* Of the formats that losses are of, the one in the middle. */
static void print_losses(const json_t *notes, FILE *f) {
  const json_t *products = json_object_get(notes, "products"), *formats = json_object_get(notes, "formats");
  const size_t n = json_array_size(products), at = json_array_size(formats) / 2;
  map m = {.e = calloc(n + 1, sizeof *m.e)};
  if (!m.e) tni_json_lacked();
  for (size_t i = 0; m.e && i < n; i++) {
    const json_t *p = json_array_get(products, i), *v = json_array_get(json_object_get(p, "losses"), at);
    if (!json_is_number(v)) continue;
    m.e[m.n++] = (entry){.name = page_string(p, "name"), .title = page_string(p, "format"), .v = json_number_value(v)};
  }
  fprintf(f, "<p>%s of the whole model with one product alone in <code>", page_string(notes, "loss_is"));
  tni_put_markup(json_string_value(json_array_get(formats, at)), f);
  fprintf(f, "</code>, measured for %.0f of %zu products on %.0f tokens. Held over a cell: the format that it got.</p>",
          page_number(notes, "measured"), n, page_number(notes, "tokens"));
  print_map(&m, f);
  free(m.e);
}

void page_heat(const page_asker *a, const json_t *rows, FILE *f) {
  size_t i;
  json_t *row, *notes = notes_of(a->with->model);
  fputs("<section id=heat><h2>Layers</h2><h3>Sensitivity</h3>", f);
  json_array_foreach(rows, i, row) {
    if (!notes && json_object_get(row, "bits")) notes = notes_of(page_string(row, "model"));
  }
  if (notes)
    print_losses(notes, f);
  else
    fputs("<p>Not measured: <code>--calibrate FILE</code> measures it.</p>", f);
  json_decref(notes);
  fputs("<h3>Errors of weights</h3><p>Root mean square of the error over that of the weights, as packed.</p>", f);
  print_errors(rows, f);
  fputs("</section>\n", f);
}
