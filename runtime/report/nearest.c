/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/report/nearest.h"

#include <stdio.h>
#include <string.h>

#include "runtime/onnx/onnx.h"
#include "runtime/ops/kernel/kernel.h"
#include "runtime/profile/profile.h"

enum { NAMES = 1024 };

/* Operators that are left out on purpose. */
static const struct {
  const char *domain, *prefix, *why;
} left_out[] = {
    {"ai.onnx.ml", "", "traditional machine learning is not run: keep this part in the application"},
    {"ai.onnx.preview.training", "", "training is not run: export the model for inference"},
    {"", "String", "texts are not run: prepare them in the application and feed numbers"},
    {"", "RegexFullMatch", "texts are not run: prepare them in the application and feed numbers"},
    {"", "TfIdfVectorizer", "texts are not run: prepare them in the application and feed numbers"},
    {"", "ImageDecoder", "files are not decoded in a graph: feed pixels (tenon classify decodes PNG and JPEG)"},
};

static const char *shown_domain(const char *domain) { return *domain ? domain : "ai.onnx"; }

static bool other_version(const tni_node *n, char *buf, size_t size) {
  uint32_t rows;
  const tni_op *op = tni_op_table(&rows);
  for (uint32_t i = 0; i < rows; i++) {
    if (strcmp(op[i].name, n->type) != 0 || strcmp(op[i].domain, n->pub.domain) != 0) continue;
    if (n->version < op[i].since)
      snprintf(buf, size, "%s runs from version %u on: export with opset %u or later", n->type, op[i].since,
               op[i].since);
    else
      snprintf(buf, size, "%s runs up to version %u", n->type, op[i].until);
    return true;
  }
  return false;
}

/* The name in another domain, or the nearest name in any. */
static void other_name(const tni_node *n, char *buf, size_t size) {
  const char *names[NAMES], *domains[NAMES], *type;
  uint32_t rows, count = 0;
  const tni_op *op = tni_op_table(&rows);
  for (uint32_t i = 0; i < rows && count < NAMES; i++) {
    names[count] = op[i].name;
    domains[count++] = shown_domain(op[i].domain);
  }
  for (uint32_t i = 0; (type = tni_contrib_name(i)) != NULL && count < NAMES; i++) {
    names[count] = type;
    domains[count++] = "com.microsoft";
  }
  const char *found = tni_nearest(n->type, names, count);
  for (uint32_t i = 0; found && i < count; i++)
    if (names[i] == found) {
      snprintf(buf, size, "%s.%s runs%s", domains[i], found, strcmp(found, n->type) ? ", if that is meant" : "");
      return;
    }
}

/* Dtypes that the host takes where it does not take these: the same node with every float, then integer operand
 * changed. */
static bool other_dtype(const tni_graph *g, const tni_node *n, char *buf, size_t size) {
  static const tn_dtype tried[] = {TN_DT_F32, TN_DT_F16, TN_DT_I64, TN_DT_I32, TN_DT_I8, TN_DT_U8, TN_DT_BOOL};
  enum { MANY = 16 };
  const tn_value *in[MANY];
  tn_value copy[MANY];
  size_t at = 0;
  char why[256];
  if (n->pub.n_in > MANY || !n->op) return false;
  for (uint32_t i = 0; i < n->pub.n_in; i++)
    in[i] = n->pub.in[i] == TN_NONE ? NULL : &tni_graph_value(g, n->pub.in[i])->pub;
  if (tni_ops_accepts(&n->pub, in, n->pub.n_in, why, sizeof why)) return false;
  for (uint32_t i = 0; i < n->pub.n_in; i++) {
    if (!in[i]) continue;
    const tn_value *was = in[i];
    copy[i] = *was;
    in[i] = &copy[i];
    for (size_t k = 0; k < sizeof tried / sizeof *tried; k++) {
      copy[i].dtype = tried[k];
      if (tried[k] == was->dtype || !tni_ops_accepts(&n->pub, in, n->pub.n_in, why, sizeof why)) continue;
      const int len = snprintf(buf + at, size - at, "%s%s", at ? ", " : "", tni_dtype_name(tried[k]));
      if (len < 0 || (size_t)len >= size - at) break;
      at += (size_t)len;
    }
    if (at) {
      char list[256];
      snprintf(list, sizeof list, "%s", buf);
      snprintf(buf, size, "input %u as %s: put a Cast in front of it", i, list);
      return true;
    }
    in[i] = was;
  }
  return false;
}

void tni_nearest_node(const tni_graph *g, const tni_node *n, char *buf, size_t size) {
  buf[0] = '\0';
  for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++)
    if (strcmp(left_out[i].domain, n->pub.domain) == 0 &&
        strncmp(n->type, left_out[i].prefix, strlen(left_out[i].prefix)) == 0 && !n->op) {
      snprintf(buf, size, "%s", left_out[i].why);
      return;
    }
  if (n->op) {
    if (!other_dtype(g, n, buf, size)) buf[0] = '\0';
  } else if (!other_version(n, buf, size)) {
    other_name(n, buf, size);
  }
}
