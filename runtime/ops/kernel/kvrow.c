/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/ops/kernel/kvrow.h"

#include <math.h>

#include "runtime/ops/hot/hot.h"
#include "runtime/ops/kernel/elements.h"

bool tni_kv_quantized(uint32_t dtype) { return dtype == TN_DT_I8 || tni_kv_packed(dtype); }
bool tni_kv_dtype(uint32_t dtype) { return dtype == TN_DT_F32 || tni_kv_quantized(dtype) || tni_is_half(dtype); }

static int64_t codes_bytes(int64_t n) { return (n + 3) / 4 * 4; }

int64_t tni_kv_pitch(uint32_t dtype, int64_t n) {
  if (tni_kv_packed(dtype)) return n / 2 + (dtype == TNI_DT_KEYS ? n / 8 : 0) + (int64_t)sizeof(uint16_t);
  return dtype == TN_DT_I8 ? codes_bytes(n) + (int64_t)sizeof(float) : n;
}

static void gather_row(uint32_t dtype, const void *src, int64_t first, int64_t step, int64_t n, float *dst) {
  if (step == 1) {
    tni_load_f32(dtype, src, first, n, dst);
    return;
  }
  for (int64_t i = 0; i < n; i++) tni_load_f32(dtype, src, (first + i) * step, 1, dst + i);
}

static void scatter_row(uint32_t dtype, void *dst, int64_t first, int64_t step, int64_t n, const float *src) {
  if (step == 1) {
    tni_store_f32(dtype, dst, first, n, src);
    return;
  }
  for (int64_t i = 0; i < n; i++) tni_store_f32(dtype, dst, (first + i) * step, 1, src + i);
}

/* NaN where an element is none, or inf. */
static float largest_of_row(const float *x, int64_t n, float most) {
  int32_t bad = 0;
  for (int64_t i = 0; i < n; i++) {
    const float a = fabsf(x[i]);
    most = a > most ? a : most;
    bad |= !(a < INFINITY);
  }
  return bad ? NAN : most;
}

/* Adding and taking away 1.5 * 2^23 rounds half to even to whole numbers. */
static void encode_row(const float *restrict x, int64_t n, float by, i8u *restrict codes) {
  for (int64_t i = 0; i < n; i++) codes[i] = (int8_t)(int32_t)((x[i] * by + 0x1.8p23f) - 0x1.8p23f);
}

static void store_i8(void *row, uint32_t from, const void *src, int64_t step, int64_t n) {
  i8u *codes = row;
  float v[TNI_CHUNK], most = 0;
  for (int64_t i = 0; i < n && most == most; i += TNI_CHUNK) {
    const int64_t m = n - i < TNI_CHUNK ? n - i : TNI_CHUNK;
    gather_row(from, src, i, step, m, v);
    most = largest_of_row(v, m, most);
  }
  const bool zero = !(most >= TNI_KV_TINY);
  const float scale = most != most ? NAN : zero ? 0 : most / 127;
  for (int64_t i = 0; i < n; i += TNI_CHUNK) {
    const int64_t m = n - i < TNI_CHUNK ? n - i : TNI_CHUNK;
    if (!zero && n > TNI_CHUNK) gather_row(from, src, i, step, m, v);
    if (zero)
      memset(codes + i, 0, (size_t)m);
    else
      encode_row(v, m, 127 / most, codes + i);
  }
  memset(codes + n, 0, (size_t)(codes_bytes(n) - n));
  memcpy(codes + codes_bytes(n), &scale, sizeof scale);
}

static void decode_row(const i8u *restrict codes, int64_t n, float scale, float *restrict x) {
  for (int64_t i = 0; i < n; i++) x[i] = (float)codes[i] * scale;
}

static void load_i8(const void *row, uint32_t to, void *dst, int64_t step, int64_t n) {
  const i8u *codes = row;
  float scale, v[TNI_CHUNK];
  memcpy(&scale, codes + codes_bytes(n), sizeof scale);
  if (to == TN_DT_F32 && step == 1) {
    decode_row(codes, n, scale, dst);
    return;
  }
  for (int64_t i = 0; i < n; i += TNI_CHUNK) {
    const int64_t m = n - i < TNI_CHUNK ? n - i : TNI_CHUNK;
    decode_row(codes + i, m, scale, v);
    scatter_row(to, dst, i, step, m, v);
  }
}

/* --- few bits ---------------------------------------------------------------------------------------------------- */

enum { UNIT = 32, ZERO_BITS = 5, NO_NUMBER = 2047, FIRST_NORMAL = 64 };
#define LEAST_SCALE 0x1p-23f

typedef struct few_bits {
  float scale;
  int zero;
} few_bits;

static float scale_of(uint32_t s) {
  if (s == NO_NUMBER) return NAN;
  if (s < FIRST_NORMAL) return (float)s * LEAST_SCALE;
  return tni_bits_f32(((s >> 6) + 109) << 23 | (s & 63) << 17);
}

/* The nearest, half to even; d < 2^14. */
static uint32_t nearest_scale(float d) {
  if (d < FIRST_NORMAL * LEAST_SCALE) return (uint32_t)((d / LEAST_SCALE + 0x1p23f) - 0x1p23f);
  const uint32_t b = tni_f32_bits(d);
  return ((b + 0xffff + (b >> 17 & 1)) >> 17) - (109 << 6);
}

static float to_whole(float x) { return (x + 0x1.8p23f) - 0x1.8p23f; }

static uint32_t scale_between(float lo, float hi, float most) {
  const float d = (hi - lo) / most;
  if (!(d < 0x1p14f)) return NO_NUMBER;
  uint32_t s = nearest_scale(d);
  const float scale = s ? scale_of(s) : 1, by = 1 / scale;
  if (s && s < NO_NUMBER && scale < d && to_whole(hi * by) + to_whole(-lo * by) > most) s++;
  return s < NO_NUMBER ? s : NO_NUMBER;
}

/* What is no number leaves its mark in bad. */
static void widen_range(const float *x, int64_t n, float *lo, float *hi, int32_t *bad) {
  float l = *lo, h = *hi;
  int32_t b = *bad;
  for (int64_t i = 0; i < n; i++) {
    l = x[i] < l ? x[i] : l;
    h = x[i] > h ? x[i] : h;
    b |= !(fabsf(x[i]) < INFINITY);
  }
  *lo = l;
  *hi = h;
  *bad = b;
}

static void encode_few(const float *restrict x, int64_t n, float by, float zero, float most, uint8_t *restrict codes) {
  for (int64_t i = 0; i < n; i++) {
    const float c = to_whole(x[i] * by) + zero;
    codes[i] = (uint8_t)(int32_t)(c < 0 ? 0 : c > most ? most : c);
  }
}

typedef uint8_t bytes16 __attribute__((vector_size(16)));
typedef uint32_t words4 __attribute__((vector_size(16)));

/* fifth: NULL for values. */
static void pack_unit(const uint8_t *codes, u8u *low, u8u *fifth) {
  const words4 by = {1, 2, 4, 8};
  bytes16 a, b;
  memcpy(&a, codes, sizeof a);
  memcpy(&b, codes + sizeof a, sizeof b);
  const bytes16 both = (a & 15) | b << 4;
  memcpy(low, &both, sizeof both);
  if (!fifth) return;
  const words4 bits = (words4)(a >> 4) * by | (words4)(b >> 4) * (by << 4);
  const uint32_t w = bits[0] | bits[1] | bits[2] | bits[3];
  memcpy(fifth, &w, sizeof w);
}

/* The last one of half the elements. */
static void pack_half_unit(const uint8_t *codes, u8u *low, u8u *fifth) {
  uint8_t bits[2] = {0};
  for (int i = 0; i < UNIT / 4; i++) low[i] = (uint8_t)((codes[i] & 15) | codes[i + UNIT / 4] << 4);
  for (int i = 0; i < UNIT / 2; i++) bits[i % 2] |= (uint8_t)(codes[i] >> 4 << i / 2);
  if (fifth) memcpy(fifth, bits, sizeof bits);
}

static void pack_codes(const uint8_t *codes, int64_t n, u8u *low, u8u *fifth) {
  int64_t i = 0;
  for (; i + UNIT <= n; i += UNIT) pack_unit(codes + i, low + i / 2, fifth ? fifth + i / 8 : NULL);
  if (i < n) pack_half_unit(codes + i, low + i / 2, fifth ? fifth + i / 8 : NULL);
}

/* 16 where byte i of w has its bit of `which`. */
static bytes16 fifth_bits(words4 w, words4 which) { return (bytes16)((bytes16)(w & which) != 0) & 16; }

static void put_less(int8_t *to, bytes16 x, int zero) {
  x -= (uint8_t)zero;
  memcpy(to, &x, sizeof x);
}

static inline void unpack_unit(const u8u *low, const u8u *fifth, int zero, int8_t *codes) {
  const words4 first = {0x01010101, 0x02020202, 0x04040404, 0x08080808}, second = first << 4;
  bytes16 x;
  memcpy(&x, low, sizeof x);
  bytes16 a = x & 15, b = x >> 4;
  if (fifth) {
    uint32_t w;
    memcpy(&w, fifth, sizeof w);
    a |= fifth_bits((words4){w, w, w, w}, first);
    b |= fifth_bits((words4){w, w, w, w}, second);
  }
  put_less(codes, a, zero);
  put_less(codes + sizeof a, b, zero);
}

static void unpack_half_unit(const u8u *low, const u8u *fifth, int zero, int8_t *codes) {
  for (int i = 0; i < UNIT / 2; i++) {
    const int four = i < UNIT / 4 ? low[i] & 15 : low[i - UNIT / 4] >> 4, bit = fifth ? fifth[i % 2] >> i / 2 & 1 : 0;
    codes[i] = (int8_t)((four | bit << 4) - zero);
  }
}

/* Codes less zero of elements [first, first + n) of a row of `all`; first is a multiple of UNIT. */
static void unpack_codes(bool keys, const u8u *row, int64_t all, int64_t first, int64_t n, int zero, int8_t *codes) {
  const u8u *low = row + (first >> 1), *fifth = row + (all >> 1) + (first >> 3);
  int64_t i = 0;
  if (keys)
    for (; i + UNIT <= n; i += UNIT) unpack_unit(low + i / 2, fifth + i / 8, zero, codes + i);
  else
    for (; i + UNIT <= n; i += UNIT) unpack_unit(low + i / 2, NULL, zero, codes + i);
  if (i < n) unpack_half_unit(low + i / 2, keys ? fifth + i / 8 : NULL, zero, codes + i);
}

static few_bits read_word(bool keys, const u8u *row, int64_t n) {
  const u8u *word = row + (n >> 1) + (keys ? n >> 3 : 0);
  const uint32_t w = (uint32_t)word[0] | (uint32_t)word[1] << 8;
  return (few_bits){scale_of(w >> ZERO_BITS), (int)(w & 31)};
}

static void store_few(uint32_t dtype, void *row, uint32_t from, const void *src, int64_t step, int64_t n) {
  const bool keys = dtype == TNI_DT_KEYS;
  const float most = keys ? 31 : 15;
  u8u *low = row, *word = low + tni_kv_pitch(dtype, n) - sizeof(uint16_t);
  float v[TNI_CHUNK], lo = 0, hi = 0;
  uint8_t codes[TNI_CHUNK];
  int32_t bad = 0;
  for (int64_t i = 0; i < n; i += TNI_CHUNK) {
    const int64_t m = n - i < TNI_CHUNK ? n - i : TNI_CHUNK;
    gather_row(from, src, i, step, m, v);
    widen_range(v, m, &lo, &hi, &bad);
  }
  const uint32_t s = bad ? NO_NUMBER : scale_between(lo, hi, most);
  const bool none = s == 0 || s == NO_NUMBER;
  const float by = none ? 0 : 1 / scale_of(s), zero = none ? 0 : to_whole(-lo * by) > most ? most : to_whole(-lo * by);
  for (int64_t i = 0; i < n; i += TNI_CHUNK) {
    const int64_t m = n - i < TNI_CHUNK ? n - i : TNI_CHUNK;
    if (n > TNI_CHUNK) gather_row(from, src, i, step, m, v);
    if (none)
      memset(codes, 0, sizeof codes);
    else
      encode_few(v, m, by, zero, most, codes);
    pack_codes(codes, m, low + i / 2, keys ? low + n / 2 + i / 8 : NULL);
  }
  const uint32_t w = s << ZERO_BITS | (uint32_t)zero;
  word[0] = (uint8_t)w;
  word[1] = (uint8_t)(w >> 8);
}

static void load_few(uint32_t from, const void *row, uint32_t to, void *dst, int64_t step, int64_t n) {
  const bool keys = from == TNI_DT_KEYS;
  const few_bits f = read_word(keys, row, n);
  int8_t codes[TNI_CHUNK];
  float v[TNI_CHUNK];
  for (int64_t i = 0; i < n; i += TNI_CHUNK) {
    const int64_t m = n - i < TNI_CHUNK ? n - i : TNI_CHUNK;
    unpack_codes(keys, row, n, i, m, f.zero, codes);
    if (to == TN_DT_F32 && step == 1) {
      decode_row(codes, m, f.scale, (float *)dst + i);
      continue;
    }
    decode_row(codes, m, f.scale, v);
    scatter_row(to, dst, i, step, m, v);
  }
}

void tni_kv_unpack(uint32_t from, const void *row, void *int8_row, int64_t n) {
  const bool keys = from == TNI_DT_KEYS;
  const few_bits f = read_word(keys, row, n);
  unpack_codes(keys, row, n, 0, n, f.zero, int8_row);
  memcpy((char *)int8_row + codes_bytes(n), &f.scale, sizeof f.scale);
}

/* --- any dtype ---------------------------------------------------------------------------------------------------- */

void tni_kv_store(uint32_t to, void *row, uint32_t from, const void *src, int64_t step, int64_t n) {
  float v[TNI_CHUNK];
  if (to == TN_DT_I8) {
    store_i8(row, from, src, step, n);
    return;
  }
  if (tni_kv_packed(to)) {
    store_few(to, row, from, src, step, n);
    return;
  }
  if (to == from && step == 1) {
    memcpy(row, src, (size_t)n * tni_elem_size(to));
    return;
  }
  for (int64_t i = 0; i < n; i += TNI_CHUNK) {
    const int64_t m = n - i < TNI_CHUNK ? n - i : TNI_CHUNK;
    gather_row(from, src, i, step, m, v);
    tni_store_f32(to, row, i, m, v);
  }
}

void tni_kv_load(uint32_t from, const void *row, uint32_t to, void *dst, int64_t step, int64_t n) {
  float v[TNI_CHUNK];
  if (from == TN_DT_I8) {
    load_i8(row, to, dst, step, n);
    return;
  }
  if (tni_kv_packed(from)) {
    load_few(from, row, to, dst, step, n);
    return;
  }
  if (to == from && step == 1) {
    memcpy(dst, row, (size_t)n * tni_elem_size(to));
    return;
  }
  for (int64_t i = 0; i < n; i += TNI_CHUNK) {
    const int64_t m = n - i < TNI_CHUNK ? n - i : TNI_CHUNK;
    tni_load_f32(from, row, i, m, v);
    scatter_row(to, dst, i, step, m, v);
  }
}
