/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints what check_ops.py and check_dtypes.py compare with PyPI's onnx, numpy and ml_dtypes.
 *   print_tables ops      one JSON object a line, per row of the op table
 *   print_tables dtypes   one line a result: WHAT CODE BITS
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/graph/graph.h"

static void print_attr(const tni_attr_spec *a) {
  printf("{\"name\": \"%s\", \"type\": %u, \"required\": %s, \"default\": ", a->name, a->type,
         a->required ? "true" : "false");
  if (a->required || a->absent)
    printf("null");
  else if (a->type == TN_ATTR_INT)
    printf("%" PRId64, a->dflt.i);
  else if (a->type == TN_ATTR_FLOAT)
    printf("%.17g", a->dflt.f);
  else if (a->type == TN_ATTR_STRING)
    printf("\"%s\"", a->dflt.s);
  else
    printf("null");
  printf("}");
}

static void print_ops(void) {
  uint32_t n;
  const tni_op *t = tni_op_table(&n);
  for (uint32_t i = 0; i < n; i++) {
    printf(
        "{\"domain\": \"%s\", \"name\": \"%s\", \"id\": %u, \"since\": %u, \"until\": %u, \"in\": [%u, %u], "
        "\"out\": [%u, %u], \"attrs\": [",
        t[i].domain, t[i].name, t[i].id, t[i].since, t[i].until, t[i].in_min, t[i].in_max, t[i].out_min, t[i].out_max);
    for (uint32_t k = 0; k < t[i].n_attrs; k++) {
      if (k) printf(", ");
      print_attr(&t[i].attrs[k]);
    }
    printf("]}\n");
  }
}

static uint32_t bits_of(float f) {
  uint32_t b;
  memcpy(&b, &f, sizeof b);
  return b;
}

/* All codes of every dtype of at most 16 bits. */
static void print_decodings(void) {
  for (uint32_t dt = 1; dt < TN_DT_COUNT; dt++) {
    uint32_t bits = tni_dtype_bits(dt);
    if (bits == 0 || bits > 16) continue;
    for (uint32_t code = 0; code < 1u << bits; code++) {
      uint16_t cell = (uint16_t)code;
      float f;
      tni_tensor t = {.dtype = dt, .rank = 1, .dims = {1}, .data = &cell, .bytes = 2};
      tni_tensor_to_f32(&t, 0, 1, &f);
      printf("%s %u %u\n", tni_dtype_name(dt), code, bits_of(f));
    }
  }
}

/* Floats over the whole range of bit patterns, the step prime so that mantissas vary. */
static void print_encodings(void) {
  for (uint64_t b = 0; b <= UINT32_MAX; b += 16411) {
    uint32_t bits = (uint32_t)b;
    float f;
    memcpy(&f, &bits, sizeof f);
    printf("f16 %u %u\nbf16 %u %u\n", bits, tni_f32_to_f16(f), bits, tni_f32_to_bf16(f));
  }
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "ops") == 0) {
    print_ops();
  } else if (argc == 2 && strcmp(argv[1], "dtypes") == 0) {
    print_decodings();
    print_encodings();
  } else {
    fprintf(stderr, "usage: print_tables ops|dtypes\n");
    return 2;
  }
  return 0;
}
