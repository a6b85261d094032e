/* SPDX-License-Identifier: Apache-2.0
 *
 * Forms of opsets 1 to 5. Most differ from those of opset 6 by `consumed_inputs` alone, a hint of where results may
 * lie. What is not listed keeps its version: the op table knows it, or has no row for it and nobody takes it.
 */
#include <string.h>

#include "runtime/onnx/convert.h"

static const char *const hinted_ops[] = {"Abs",
                                         "Add",
                                         "BatchNormalization",
                                         "Ceil",
                                         "Clip",
                                         "Div",
                                         "Dropout",
                                         "Elu",
                                         "Exp",
                                         "Floor",
                                         "Gemm",
                                         "HardSigmoid",
                                         "InstanceNormalization",
                                         "LeakyRelu",
                                         "Log",
                                         "Max",
                                         "Mean",
                                         "Min",
                                         "Mul",
                                         "Neg",
                                         "PRelu",
                                         "Reciprocal",
                                         "Relu",
                                         "Selu",
                                         "Sigmoid",
                                         "Sqrt",
                                         "Sub",
                                         "Sum",
                                         "Tanh"};

/* The type was a name: "FLOAT". */
static void first_cast(tni_draft *d) {
  static const char *const names[] = {"",       "FLOAT",  "UINT8",     "INT8",      "UINT16",  "INT16",
                                      "INT32",  "INT64",  "STRING",    "BOOL",      "FLOAT16", "DOUBLE",
                                      "UINT32", "UINT64", "COMPLEX64", "COMPLEX128"};
  tni_raw_attr *to = tni_draft_attr(d, "to");
  if (!to || to->a.type != TN_ATTR_STRING) return; /* typing says so */
  for (int64_t t = 1; t < (int64_t)(sizeof names / sizeof *names); t++) {
    if (to->a.n != strlen(names[t]) || memcmp(to->a.u.s, names[t], to->a.n)) continue;
    to->a = (tn_attr){.h = {sizeof(tn_attr), 1, 0}, .type = TN_ATTR_INT, .n = 1};
    to->a.u.i = t;
    d->version = 6;
    return;
  }
}

/* Without an axis: 1. */
static void first_concat(tni_draft *d) {
  if (!tni_draft_attr(d, "axis")) {
    tni_raw_attr *axis = &d->raw[d->n_raw++];
    *axis = (tni_raw_attr){.name = "axis", .a = {.h = {sizeof(tn_attr), 1, 0}, .type = TN_ATTR_INT, .n = 1}};
    axis->a.u.i = 1;
  }
  d->version = 4;
}

void tni_upgrade_first(tni_draft *d) {
  if (d->version >= 6) return;
  if (!strcmp(d->type, "Cast")) first_cast(d);
  if (!strcmp(d->type, "Concat") && d->version < 4) first_concat(d);
  if (!strcmp(d->type, "Pad") && d->version < 2 && tni_draft_attr(d, "paddings"))
    tni_draft_attr(d, "paddings")->name = "pads";
  for (size_t i = 0; i < sizeof hinted_ops / sizeof *hinted_ops; i++) {
    if (strcmp(d->type, hinted_ops[i])) continue;
    tni_draft_drop_attr(d, "consumed_inputs");
    d->version = 6;
  }
}
