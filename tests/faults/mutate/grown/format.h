/* SPDX-License-Identifier: Apache-2.0
 *
 * The weight format g4: rows of groups of 32, each a float scale and 16 bytes of codes, -7..7 as code + 8, low nibble first.
 */
enum { GROUP = 32, GROUP_BYTES = 20 };

static int64_t groups_of(int64_t K) { return (K + GROUP - 1) / GROUP; }

static tn_status g4_size(const tn_format *f, int64_t N, int64_t K, const int64_t *params, uint32_t n,
                         tn_pack_size *out) {
  (void)f, (void)params;
  if (n || N < 0 || K < 0 || K > INT32_MAX || (K && N > INT64_MAX / (groups_of(K) * GROUP_BYTES))) return TN_E_INVALID;
  *out = (tn_pack_size){.bytes = (uint64_t)(N * groups_of(K) * GROUP_BYTES), .align = 64, .row_unit = 1};
  return TN_OK;
}

struct tn_pack {
  const tn_host *host;
  const tn_weight *w;
};

static tn_status g4_begin(const tn_host *host, const tn_format *f, const tn_weight *w, const int64_t *params,
                          uint32_t n, tn_pack **out, tn_error *err) {
  (void)f, (void)params;
  if (n) return fail(err, TN_E_INVALID, "g4 takes no parameters");
  tn_pack *p = host->alloc(host->ctx, sizeof *p, 16, TN_TAG_PACK);
  if (!p) return fail(err, TN_E_NO_MEMORY, "no memory to pack");
  *p = (tn_pack){host, w};
  *out = p;
  return TN_OK;
}

static void pack_group(const float *w, int64_t n, unsigned char *to) {
  float top = 0;
  for (int64_t k = 0; k < n; k++) top = fmaxf(top, fabsf(w[k]));
  const float scale = top / 7;
  memcpy(to, &scale, sizeof scale);
  memset(to + 4, 0x88, 16);
  for (int64_t k = 0; k < n && scale > 0; k++) {
    const int code = (int)fmaxf(-7, fminf(7, rintf(w[k] / scale))) + 8;
    unsigned char *b = to + 4 + k / 2;
    *b = (unsigned char)(k % 2 ? (*b & 0x0f) | code << 4 : (*b & 0xf0) | code);
  }
}

static tn_status g4_rows(tn_pack *p, int64_t n0, int64_t n1, void *blob) {
  const int64_t K = p->w->K, G = groups_of(K);
  float *row = p->host->alloc(p->host->ctx, (size_t)(K + 1) * sizeof *row, 64, TN_TAG_PACK);
  if (!row) return TN_E_NO_MEMORY;
  tn_status st = TN_OK;
  for (int64_t n = n0; st == TN_OK && n < n1; n++) {
    st = p->w->rows(p->w, n, n + 1, row);
    for (int64_t g = 0; st == TN_OK && g < G; g++)
      pack_group(row + g * GROUP, K - g * GROUP < GROUP ? K - g * GROUP : GROUP,
                 (unsigned char *)blob + (n * G + g) * GROUP_BYTES);
  }
  p->host->free(p->host->ctx, row);
  return st;
}

static tn_status g4_end(tn_pack *p, void *blob) {
  (void)blob;
  p->host->free(p->host->ctx, p);
  return TN_OK;
}

static float weight_at(const unsigned char *row, int64_t k) {
  const unsigned char *g = row + k / GROUP * GROUP_BYTES;
  float scale;
  memcpy(&scale, g, sizeof scale);
  const int64_t i = k % GROUP;
  return (float)((i % 2 ? g[4 + i / 2] >> 4 : g[4 + i / 2] & 15) - 8) * scale;
}

static tn_status g4_unpack(const tn_blob *b, const int64_t box[4], float *dst) {
  for (int64_t n = box[0]; n < box[1]; n++)
    for (int64_t k = box[2]; k < box[3]; k++)
      *dst++ = weight_at((const unsigned char *)b->ptr + n * groups_of(b->K) * GROUP_BYTES, k);
  return TN_OK;
}

static const tn_numerics g4_numerics = {.h = TN_HDR(tn_numerics), .act_dtype = TN_DT_F32, .act_scheme = TN_ACT_NONE,
    .acc_inner = TN_DT_F32, .acc_outer = TN_DT_F32, .scale_dtype = TN_DT_F32, .finite_max = 1e30};
static const tn_format g4 = {.h = TN_HDR(tn_format), .name = "g4", .version = 1, .bits = 4, .group = GROUP,
    .bits_per_weight = 5, .w_err = 0.5f / 7 * 1.0001f, .x_err = 0x1p-24f, .numerics = &g4_numerics, .size = g4_size,
    .begin = g4_begin, .rows = g4_rows, .end = g4_end, .unpack = g4_unpack};
