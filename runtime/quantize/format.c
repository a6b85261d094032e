/* SPDX-License-Identifier: Apache-2.0
 *
 * What a product may be brought to: uniform grids by bits and block, and the grid of any format that a plugin states.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/place/place.h"
#include "runtime/plugin/load/load.h"
#include "runtime/quantize/internal.h"

enum { PARAMS = 8, LEAST_BITS = 2 };

static tn_status add_format(tni_qz *z, const char *name, const tn_grid *g, uint32_t *out) {
  tni_qz_format *f = &z->formats[z->n_formats];
  if (z->n_formats == TNI_QZ_FORMATS)
    return tni_fail(z->err, TN_E_LIMIT, name, "more than %d weight formats at once", TNI_QZ_FORMATS);
  if (strlen(name) >= sizeof f->name) return tni_fail(z->err, TN_E_LIMIT, name, "'%s' is too long a name", name);
  const tn_status st = tni_quant_grid_init(g, &f->grid, z->err);
  if (st) return st;
  memcpy(f->name, name, strlen(name) + 1);
  f->bits = f->grid.levels ? 1 : LEAST_BITS;
  while (1u << f->bits < f->grid.grid.n_codes) f->bits++;
  *out = z->n_formats++;
  return TN_OK;
}

static bool is_added(const tni_qz *z, const char *name, uint32_t *out) {
  for (uint32_t i = 0; i < z->n_formats; i++)
    if (strcmp(z->formats[i].name, name) == 0) {
      *out = i;
      return true;
    }
  return false;
}

tn_status tni_qz_format_uniform(tni_qz *z, uint32_t bits, uint32_t block, bool zeros, uint32_t *out) {
  char name[32];
  const tn_grid g = {.h = TN_HDR(tn_grid),
                     .kind = TN_GRID_AFFINE,
                     .flags = zeros ? 0 : TN_GRID_SIGNED,
                     .n_codes = 1u << bits,
                     .group = block,
                     .scale_dtype = TN_DT_F16,
                     .scale_unit = 1,
                     .zero_kind = zeros ? TN_ZERO_CODES : TN_ZERO_HALF,
                     .zero = (float)(1u << (bits - 1))};
  snprintf(name, sizeof name, "%u:%u%s", bits, block, zeros ? "z" : "");
  return is_added(z, name, out) ? TN_OK : add_format(z, name, &g, out);
}

bool tni_qz_is_uniform(const char *name, uint32_t *bits, uint32_t *block, bool *zeros) {
  int used = 0;
  if (sscanf(name, "%1u:%3u%n", bits, block, &used) != 2) return false;
  *zeros = name[used] == 'z';
  return !name[used + *zeros] && (*bits == 2 || *bits == 3 || *bits == 4 || *bits == 8) &&
         (*block == 16 || *block == 32 || *block == 64 || *block == 128);
}

/* "NAME:1,2" into name and params. */
static tn_status read_params(tni_qz *z, char *name, int64_t *params, uint32_t *n) {
  char *save = NULL, *colon = strchr(name, ':');
  *n = 0;
  if (!colon) return TN_OK;
  *colon = 0;
  for (char *p = strtok_r(colon + 1, ",", &save); p; p = strtok_r(NULL, ",", &save)) {
    char *end;
    errno = 0;
    const long long v = strtoll(p, &end, 10);
    if (errno || *end || *n == PARAMS)
      return tni_fail(z->err, TN_E_INVALID, "weights", "a weight format is NAME or NAME:NUMBER,..., not '%s:%s'", name, p);
    params[(*n)++] = v;
  }
  return TN_OK;
}

/* The first plugin's that has one of the name and says its grid. */
static const tn_format *find_format(const tni_qz *z, const char *name, bool *there) {
  *there = false;
  for (uint32_t i = 0; i < tni_registry_count(z->o.runtime->registry); i++) {
    const tn_plugin *p = tni_registry_get(z->o.runtime->registry, i)->plugin;
    for (uint32_t k = 0; p && k < p->n_formats; k++) {
      if (strcmp(p->formats[k]->name, name) != 0) continue;
      *there = true;
      if (TN_HAS(p->formats[k], tn_format, grid) && p->formats[k]->grid) return p->formats[k];
    }
  }
  return NULL;
}

bool tni_qz_has_format(const tni_qz *z, const char *name) {
  bool there;
  return z->o.runtime && find_format(z, name, &there) != NULL;
}

tn_status tni_qz_format_named(tni_qz *z, const char *text, uint32_t *out) {
  int64_t params[PARAMS];
  uint32_t n;
  bool there;
  tn_grid g = {.h = TN_HDR(tn_grid)};
  if (is_added(z, text, out)) return TN_OK;
  if (!z->o.runtime) return tni_fail(z->err, TN_E_INVALID, "runtime", "'%s' is looked up in a runtime's plugins", text);
  char *name = strdup(text);
  if (!name) return tni_fail_memory(z->err, text);
  tn_status st = read_params(z, name, params, &n);
  const tn_format *f = st == TN_OK ? find_format(z, name, &there) : NULL;
  if (st == TN_OK && !f)
    st = there ? tni_fail(z->err, TN_E_UNSUPPORTED, "weights",
                          "weight format '%s' does not say which weights it holds exactly", name)
               : tni_fail(z->err, TN_E_INVALID, "weights",
                          "no plugin has a weight format '%s'; `tenon plugins --formats` lists them", name);
  if (st == TN_OK && f->grid(f, params, n, &g) != TN_OK)
    st = tni_fail(z->err, TN_E_INVALID, "weights", "weight format '%s' does not take the numbers of '%s'", name, text);
  if (st == TN_OK && (st = add_format(z, text, &g, out))) tni_error_prefix(z->err, "weight format '%s'", text);
  free(name);
  return st;
}

static const char *why_not(const tni_qz *z, const tni_qz_format *f) {
  const bool qdq = z->o.flags & TN_QUANTIZE_QDQ;
  if (f->grid.levels) return "its levels come from a table, which only Tenon reads";
  if (f->bits != 4 && f->bits != 8 && (qdq || f->bits != 2)) return qdq ? "codes have 4 or 8 bits there" : "codes have 2, 4 or 8 bits there";
  if (qdq && f->grid.grid.zero_kind == TN_ZERO_VALUES) return "its zero points are no codes";
  for (uint32_t i = 0; !qdq && i < z->n_products; i++) {
    const int64_t block = tni_qz_block(f, z->products[i].K);
    if (block < 16 || (block & (block - 1))) return "blocks are a power of 2 there, 16 and more";
  }
  return NULL;
}

tn_status tni_qz_check_portable(const tni_qz *z) {
  const bool qdq = z->o.flags & TN_QUANTIZE_QDQ, asked = qdq || (z->o.flags & TN_QUANTIZE_ONNX);
  for (uint32_t i = 0; asked && i < z->n_formats; i++) {
    const char *why = why_not(z, &z->formats[i]);
    if (why)
      return tni_fail(z->err, TN_E_UNSUPPORTED, "weights", "weight format '%s' cannot be written as %s: %s", z->formats[i].name,
                      qdq ? "QDQ" : "MatMulNBits", why);
  }
  return TN_OK;
}

bool tni_qz_writes_halves(const tni_qz *z, const tni_qz_product *p) {
  return tni_graph_value(z->import->graph, p->weight)->pub.dtype == TN_DT_F16;
}

int64_t tni_qz_block(const tni_qz_format *f, int64_t K) {
  const int64_t vec = f->grid.vec, group = f->grid.grid.group;
  return group && group < K ? group : (K + 8 * vec - 1) / (8 * vec) * 8 * vec;
}

uint64_t tni_qz_bytes(const tni_qz *z, const tni_qz_format *f, int64_t N, int64_t K) {
  const tni_quant_grid *g = &f->grid;
  const uint64_t block = (uint64_t)tni_qz_block(f, K), blocks = ((uint64_t)K + block - 1) / block, n = (uint64_t)N;
  const bool whole = !g->levels && !(z->o.flags & TN_QUANTIZE_QDQ); /* MatMulNBits fills the last block up */
  const uint64_t codes = whole ? blocks * block : ((uint64_t)K + g->vec - 1) / g->vec;
  if (g->steps) return n * ((codes * f->bits + 7) / 8 + (blocks * TNI_QZ_INDEX_BITS + 7) / 8 + 2);
  const uint64_t zeros = g->levels || g->grid.zero_kind == TN_ZERO_HALF ? 0
                         : g->grid.zero_kind == TN_ZERO_CODES           ? (blocks * f->bits + 7) / 8
                                                                        : 4 * blocks;
  return n * ((codes * f->bits + 7) / 8 + blocks * (g->grid.scale_dtype == TN_DT_F16 ? 2 : 4) + zeros);
}
