/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cli/mixed/mixed.h"

#include <stdbool.h>

static int whole(const json_t *j, const char *key) { return (int)json_integer_value(json_object_get(j, key)); }

static double real(const json_t *j, const char *key) { return json_number_value(json_object_get(j, key)); }

static const char *text(const json_t *j, const char *key) {
  const char *s = json_string_value(json_object_get(j, key));
  return s ? s : "";
}

static int count(const json_t *products, const json_t *format) {
  int n = 0;
  for (size_t i = 0; i < json_array_size(products); i++)
    n += json_equal(json_object_get(json_array_get(products, i), "format"), format);
  return n;
}

/* The mix beside one format for all; the one that loses less was taken. */
static void show_checked(const json_t *j, FILE *f) {
  const json_t *c = json_object_get(j, "whole");
  if (!c) return;
  fprintf(f, "checked on the whole, rounded: the mix %.4g", real(c, "mix"));
  if (json_object_get(c, "alone"))
    fprintf(f, ", %s alone %.4g%s", text(c, "format"), real(c, "alone"),
            real(c, "alone") < real(c, "mix") ? ", which is taken" : "");
  fputc('\n', f);
}

static void show_embeddings(const json_t *e, FILE *f) {
  if (!e) return;
  const char *lender = text(e, "codes_of");
  fprintf(f, "embeddings: %s%s%s\n", text(e, "format"), *lender ? ", the codes of " : "", lender);
}

void cli_mixed_show(const json_t *j, FILE *f) {
  const json_t *products = json_object_get(j, "products"), *formats = json_object_get(j, "formats");
  fprintf(f, "%s: %.4f bits a weight in the file, %s %.4g by the sum of its parts\n", text(j, "folder"),
          real(j, "bits"), text(j, "loss_is"), real(j, "loss"));
  show_checked(j, f);
  for (size_t i = 0; i < json_array_size(formats); i++) {
    const json_t *format = json_array_get(formats, i);
    const int n = count(products, format);
    if (n) fprintf(f, "%4d products: %s\n", n, json_string_value(format));
  }
  show_embeddings(json_object_get(j, "embeddings"), f);
  fprintf(f, "measured: %d of %d products on %d tokens; errors of outputs rank them with correlation %.3f\n",
          whole(j, "measured"), (int)json_array_size(products), whole(j, "tokens"), real(j, "rank_correlation"));
}

void cli_mixed_show_fold(const json_t *j, FILE *f) {
  static const char *const keys[] = {"norms", "factors", "values", "rotated"};
  static const char *const names[] = {"norms", "factors", "values", "values turned"};
  const json_t *fold = json_object_get(j, "fold");
  bool any = false;
  if (!fold) return;
  for (int i = 0; i < 4; i++) {
    if (!whole(fold, keys[i])) continue;
    fprintf(f, "%s%d %s", any ? ", " : "folded: ", whole(fold, keys[i]), names[i]);
    any = true;
  }
  fprintf(f, any ? "\n" : "folded: nothing, the graph has no place for it\n");
}
