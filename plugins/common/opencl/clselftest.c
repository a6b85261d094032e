/* SPDX-License-Identifier: Apache-2.0
 *
 * One small case for each kind, with the types of the launch that asked for the kernel: sizes that are no multiple of
 * any tile, values of both signs, seeded.
 */
#include <math.h>
#include <string.h>

#include "plugins/common/formats/formats.h"
#include "plugins/common/opencl/clkern.h"
#include "plugins/common/opencl/clrun.h"

enum { MAX_BYTES = 1 << 19 };

typedef struct self_tester {
  tni_cl_kernels *k;
  const tni_cl_program *p;
  tni_cl_shape s;
  uint64_t bytes[8];
  uint32_t out; /* operand that is written */
  uint64_t seed;
} self_tester;

static uint32_t next_self_test_value(self_tester *t) {
  t->seed = t->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(t->seed >> 33);
}

static uint32_t size_of(uint32_t type) {
  return type == TN_DT_I64 ? 8 : type == TN_DT_F16 ? 2 : type == TN_DT_BOOL ? 1 : 4;
}

static void fill_self_test(self_tester *t, uint32_t i, unsigned char *p) {
  const uint32_t type = t->s.types[i], n = (uint32_t)(t->bytes[i] / size_of(type));
  for (uint32_t e = 0; e < n; e++) {
    const float f = (float)((int32_t)(next_self_test_value(t) % 2001) - 1000) / 500.0f;
    const uint16_t h = tni_cm_f32_to_f16(f);
    const int64_t l = next_self_test_value(t) % (t->s.kind == TNI_CLK_ATTN ? 71 : 5);
    const int32_t w = (int32_t)l;
    const void *from = type == TN_DT_F16   ? (const void *)&h
                       : type == TN_DT_I64 ? (const void *)&l
                       : type == TN_DT_I32 ? (const void *)&w
                                           : &f;
    if (type == TN_DT_BOOL)
      p[e] = next_self_test_value(t) % 4 != 0;
    else
      memcpy(p + (size_t)e * size_of(type), from, size_of(type));
  }
}

static void set_ints(tni_cl_shape *s, uint32_t n, const int32_t *v) {
  memcpy(s->ints, v, n * sizeof *v);
  s->n_ints = n;
}

/* Sizes of the case; bytes of each operand. */
static void shape_case(self_tester *t) {
  tni_cl_shape *s = &t->s;
  uint64_t count[8] = {0};
  switch (s->kind) {
    case TNI_CLK_GATHER:
      set_ints(s, 4, (int32_t[]){3, 37, 5, 40});
      memcpy(count, (uint64_t[]){5 * 37, 3, 3 * 40}, 24);
      t->out = 2;
      break;
    case TNI_CLK_NORM:
      set_ints(s, 5, (int32_t[]){3, 131, 136, 132, s->ints[4]});
      s->floats[0] = 1e-5f;
      memcpy(count, (uint64_t[]){3 * 136, 131, 131, 3 * 132}, 32);
      t->out = 3;
      break;
    case TNI_CLK_GEMV:
    case TNI_CLK_GEMM: {
      const int32_t M = s->kind == TNI_CLK_GEMM ? 11 : s->ints[TNI_CLI_M] > 1 ? 3 : 1;
      set_ints(s, 6, (int32_t[]){M, 131, 1101, 256, 1104, 132});
      memcpy(count, (uint64_t[]){(uint64_t)M * 1104, 0, 0, (uint64_t)M * 132}, 32);
      t->out = 3;
      break;
    }
    case TNI_CLK_ROTARY:
      set_ints(s, 15, (int32_t[]){2, 3, 2, 12, 4, s->ints[5], 72, 24, 12, 78, 26, 12, s->types[3] ? 0 : 15, 5, 5});
      memcpy(count, (uint64_t[]){2 * 72, 30, 30, 6, 2 * 78}, 40);
      t->out = 4;
      break;
    case TNI_CLK_APPEND:
      set_ints(s, 11, (int32_t[]){2, 3, 2, 12, 72, 24, 12, 168, 12, 84, 7});
      memcpy(count, (uint64_t[]){2 * 72, 2, 2 * 168}, 24);
      t->out = 2;
      break;
    case TNI_CLK_ATTN:
      set_ints(s, 27,
               (int32_t[]){2,
                           3,
                           4,
                           2,
                           24,
                           20,
                           70,
                           288,
                           96,
                           24,
                           3360,
                           24,
                           1680,
                           2800,
                           20,
                           1400,
                           70,
                           0,
                           0,
                           69,
                           240,
                           80,
                           20,
                           s->ints[23],
                           s->ints[24] >= 0 ? 30 : -1,
                           s->ints[25] >= 0 ? 2 : -1,
                           67});
      s->floats[0] = 0.2f;
      s->floats[1] = s->floats[1] > 0 ? 3.0f : 0.0f;
      memcpy(count, (uint64_t[]){2 * 288, 2 * 3360, 2 * 2800, 140, 2, 2 * 240}, 48);
      t->out = 5;
      break;
    default:
      set_ints(s, 14, (int32_t[]){3, 5, 7, 2, 2, 7, 1, 42, 21, 5, 1, 70, 35, 6});
      memcpy(count, (uint64_t[]){84, 140, 72}, 24);
      t->out = 2;
  }
  s->n_floats = s->kind == TNI_CLK_NORM ? 1 : s->kind == TNI_CLK_ATTN ? 2 : 0;
  for (uint32_t i = 0; i < s->n_operands; i++) t->bytes[i] = s->types[i] ? count[i] * size_of(s->types[i]) : 0;
}

/* W and S as a packed blob of random weights: w first, s after it in the same buffer. */
static void pack_weights(self_tester *t, unsigned char *blob, uint64_t *s_at) {
  const int32_t *n = t->s.ints;
  const int64_t Pn = n[TNI_CLI_PN], Kp = (n[TNI_CLI_K] + 127) / 128 * 128, n_w = tni_e0m_rows(t->s.bits, Kp) * Pn;
  uint16_t *w = (uint16_t *)(void *)blob, *s = w + n_w;
  for (int64_t i = 0; i < n_w; i++) w[i] = (uint16_t)next_self_test_value(t);
  for (int64_t i = 0; i < Kp / 128 * Pn; i++) {
    s[2 * i] = tni_cm_f32_to_f16((float)(next_self_test_value(t) % 100 + 1) / 400.0f);
    s[2 * i + 1] = tni_cm_f32_to_f16(1.2f + (float)(next_self_test_value(t) % 500) / 1000.0f);
  }
  *s_at = (uint64_t)n_w * 2;
}

/* Largest difference allowed: what the types can show, and for products what their sums in half lose. */
static double test_tolerance(const self_tester *t) {
  const double out = t->s.types[t->out] == TN_DT_F16 ? 0x1p-10 : 0x1p-20;
  return t->s.kind == TNI_CLK_GEMM || t->s.kind == TNI_CLK_GEMV ? out + 0x1p-8 : out + 0x1p-15;
}

static double self_test_element(uint32_t type, const unsigned char *p, uint64_t i) {
  uint16_t h;
  float f;
  if (type == TN_DT_F16) {
    memcpy(&h, p + i * 2, 2);
    return tni_cm_f16_to_f32(h);
  }
  memcpy(&f, p + i * 4, 4);
  return f;
}

static const char *compare_self_test(const self_tester *t, const unsigned char *got, const unsigned char *want) {
  const uint32_t type = t->s.types[t->out], size = size_of(type);
  double scale = 0, worst = 0;
  for (uint64_t i = 0; i < t->bytes[t->out] / size; i++) {
    const double g = self_test_element(type, got, i), w = self_test_element(type, want, i);
    if (!(fabs(g) < 1e30)) return "self-test: not a number";
    scale = fabs(w) > scale ? fabs(w) : scale;
    worst = fabs(g - w) > worst ? fabs(g - w) : worst;
  }
  return worst <= test_tolerance(t) * scale + 1e-6 ? NULL : "self-test: wrong results";
}

static const char *run_self_test(self_tester *t, unsigned char *room, bool *wrong) {
  tni_cl_direct d = {.kernels = t->k, .program = t->p, .shape = &t->s};
  unsigned char *at = room;
  void *p[8] = {0};
  uint64_t s_at = 0;
  const bool product = t->s.kind == TNI_CLK_GEMM || t->s.kind == TNI_CLK_GEMV;
  for (uint32_t i = 0; i < t->s.n_operands; i++) {
    p[i] = at;
    d.data[i] = at;
    d.bytes[i] = t->bytes[i];
    if (product && i == 1) {
      pack_weights(t, at, &s_at);
      d.bytes[1] = s_at + s_at / (4 * t->s.bits);
      at += d.bytes[1];
    } else if (product && i == 2) {
      p[2] = (unsigned char *)p[1] + s_at;
      d.data[2] = NULL;
      d.s_at = s_at;
    } else if (t->bytes[i]) {
      if (i == t->out)
        memset(at, 0, t->bytes[i]);
      else
        fill_self_test(t, i, at);
      at += (t->bytes[i] + 63) & ~UINT64_C(63);
    }
  }
  unsigned char *got = at;
  memcpy(got, p[t->out], t->bytes[t->out]);
  d.data[t->out] = got;
  const char *why = tni_cl_run_direct(&d);
  if (why) return why;
  tni_cl_reference(&t->s, p);
  why = compare_self_test(t, got, p[t->out]);
  *wrong = why != NULL;
  return why;
}

const char *tni_cl_self_test(tni_cl_kernels *k, const tni_cl_program *p, const void *like, bool *wrong) {
  self_tester t = {.k = k, .p = p, .s = *(const tni_cl_shape *)like, .seed = 42};
  unsigned char *room = k->host->alloc(k->host->ctx, MAX_BYTES, 128, TN_TAG_SCRATCH);
  if (!room) return "self-test: out of memory";
  shape_case(&t);
  const char *why = run_self_test(&t, room, wrong);
  k->host->free(k->host->ctx, room);
  return why;
}
