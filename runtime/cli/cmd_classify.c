/* SPDX-License-Identifier: Apache-2.0
 *
 * The classes of images, best first; with --labels and a CLIP model the labels that fit best.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tasks.h>

#include "runtime/cli/cli.h"

typedef struct classify_opts {
  char *labels, *labels_file, *prompt, *preprocessor, *pixels;
  char **images;
  int top;
} classify_opts;

typedef struct class_names {
  const char **v;
  uint32_t n;
  char *text; /* cut up in place */
} class_names;

static void cut_names(class_names *l, const char *ends) {
  char *save = NULL;
  for (char *p = strtok_r(l->text, ends, &save); p; p = strtok_r(NULL, ends, &save)) {
    while (*p == ' ') p++;
    size_t n = strlen(p);
    while (n && p[n - 1] == ' ') p[--n] = '\0';
    const char **v = n ? realloc(l->v, (l->n + 1) * sizeof *v) : NULL;
    if (!v) continue;
    l->v = v;
    l->v[l->n++] = p;
  }
}

static tn_status read_labels(cli *c, const classify_opts *o, class_names *l) {
  size_t n;
  if (o->labels) {
    l->text = strdup(o->labels);
    if (l->text) cut_names(l, ",");
  } else if (o->labels_file) {
    tn_status st = cli_read(o->labels_file, &l->text, &n, &c->err);
    if (st != TN_OK) return st;
    cut_names(l, "\r\n");
  }
  if ((o->labels || o->labels_file) && !l->n) {
    return cli_error(&c->err, TN_E_INVALID, o->labels_file, "--labels: there is none");
  }
  return TN_OK;
}

typedef struct ranked_class {
  float p;
  size_t i;
} ranked_class;

static int best_first(const void *a, const void *b) {
  const ranked_class *x = a, *y = b;
  return x->p != y->p ? (x->p < y->p ? 1 : -1) : x->i < y->i ? -1 : x->i > y->i;
}

static int list_classes(const tn_classifier *k, const char *image, const float *p, size_t n, size_t top, cli_table *t) {
  ranked_class *v = malloc((n ? n : 1) * sizeof *v);
  if (!v) return -1;
  for (size_t i = 0; i < n; i++) v[i] = (ranked_class){p[i], i};
  qsort(v, n, sizeof *v, best_first);
  for (size_t i = 0; i < n && i < top; i++) {
    char probability[32], id[32];
    const char *label = tn_classifier_label(k, v[i].i);
    snprintf(probability, sizeof probability, "%.6f", (double)v[i].p);
    snprintf(id, sizeof id, "%zu", v[i].i);
    cli_table_add(t, image, probability, id, label ? label : "");
  }
  free(v);
  return 0;
}

static void stop_classifier(void *k) { tn_classifier_cancel(k); }

static tn_status classify_one(cli *c, tn_classifier *k, const char *file, const classify_opts *o, cli_table *t) {
  tn_image *im = NULL;
  tn_tensor *pixels = NULL;
  float *p = NULL;
  size_t n = 0;
  tn_status st = tn_image_load(file, &im, &c->err);
  if (st == TN_OK && o->pixels) {
    st = tn_classifier_pixels(k, im, &pixels, &c->err);
    if (st == TN_OK) st = cli_saved(c, tn_tensor_save(pixels, o->pixels, &c->err));
    tn_free(pixels);
  }
  cli_cancel_by(stop_classifier, k);
  if (st == TN_OK) st = tn_classify(k, im, &p, &n, &c->err);
  cli_cancel_by(stop_classifier, NULL);
  if (st == TN_OK && list_classes(k, file, p, n, (size_t)o->top, t) != 0) st = TN_E_NO_MEMORY;
  if (st != TN_OK && !strstr(c->err.where, file)) snprintf(c->err.where, sizeof c->err.where, "%s", file);
  tn_free(p);
  tn_free(im);
  return st;
}

static int classify_images(cli *c, const char *model, const classify_opts *o, const class_names *l) {
  static const char *const header[] = {"image", "probability", "class", "label"};
  const tn_classify_opts co = {
      .h = {sizeof co, 1, 0}, .preprocessor = o->preprocessor, .labels = l->v, .n_labels = l->n, .prompt = o->prompt};
  tn_classifier *k = NULL;
  cli_table t;
  cli_table_init(&t, header, 4);
  cli_cancel_load(c->rt);
  tn_status st = tn_classifier_load(c->rt, model, &co, &k, &c->err);
  cli_cancel_load(NULL);
  if (st == TN_OK) cli_note_placement(c, tn_classifier_model(k));
  for (char **p = o->images; st == TN_OK && *p; p++) st = classify_one(c, k, *p, o, &t);
  tn_classifier_destroy(k);
  return cli_table_end(c, &t, st);
}

int cmd_classify(int argc, const char **argv) {
  cli c = {.command = "classify"};
  classify_opts o = {.top = 5};
  class_names l = {0};
  const opt_row own[] = {
      {"image", 0, OPT_LIST, &o.images, "FILE", NULL, "a PNG or JPEG file", NULL},
      {"top", 0, OPT_INT, &o.top, "N", "1..", "classes that are shown", NULL},
      {"labels", 0, OPT_TEXT, &o.labels, "A,B,...", NULL, "class names, or the texts of a CLIP model", NULL},
      {"labels-file", 0, OPT_TEXT, &o.labels_file, "FILE", NULL, "the same from a file, one per line", NULL},
      {"prompt", 0, OPT_TEXT, &o.prompt, "TEXT", NULL, "CLIP: what is made of a label ('a photo of a {}')", NULL},
      {"preprocessor", 0, OPT_TEXT, &o.preprocessor, "FILE", NULL, "another preprocessor_config.json", NULL},
      {"save-pixels", 0, OPT_TEXT, &o.pixels, "FILE", NULL, "write what the model is fed as .npy or .pb", NULL},
      OPT_ROWS_END};
  int rc = cli_parse(&c, argc, argv,
                     &(cli_use){.usage = "MODEL --image FILE [--labels A,B,...]", .operand = "MODEL", .own = own});
  if (!rc && !o.images) rc = cli_usage(&c, "which --image?");
  if (!rc && o.pixels && o.images[1]) rc = cli_usage(&c, "--save-pixels is for one --image");
  if (!rc && o.labels && o.labels_file) rc = cli_usage(&c, "--labels and --labels-file");
  if (!rc) {
    const tn_status st = read_labels(&c, &o, &l);
    if (st != TN_OK) rc = cli_fail(&c, st);
  }
  if (!rc) rc = cli_open(&c, 0);
  if (!rc) rc = classify_images(&c, c.operand, &o, &l);
  free(l.v), free(l.text);
  cli_finish(&c);
  return rc;
}
