/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions and pools in blocks of channels, as plain ones: filters are put back in order, and ReorderInput and
 * ReorderOutput only add and take away the channels that fill the last block. wire/nchwc.h says what the layout is.
 */
#include <string.h>

#include "runtime/onnx/contrib.h"
#include "runtime/onnx/wire/wire.h"

static const tni_nchwc *of_file(tni_emit *e) {
  if (e->st) return NULL;
  if (!e->c->nchwc) e->c->nchwc = tni_nchwc_look(e->c->proto->graph, e->c->scratch);
  if (!e->c->nchwc) e->st = tni_fail_memory(e->c->err, e->c->file);
  return e->c->nchwc;
}

/* Channels in a block. 0: the node failed, because shapes do not tell and no profile does. */
static int64_t block_of_file(tni_emit *e) {
  const tni_nchwc *b = of_file(e);
  bool both = false;
  const int64_t told = b ? tni_nchwc_told(b, &both) : 0;
  if (both) tni_em_fail(e, TN_E_INVALID, "filters are in blocks of 8 channels, and in blocks of 16");
  if (told || e->st) return e->st ? 0 : told;
  if (e->c->lim.nchwc_block) return e->c->lim.nchwc_block;
  tni_em_fail(
      e, TN_E_UNSUPPORTED,
      "filters lie in blocks of channels as the machine wanted that saved the model, and no shape tells whether "
      "of 8 or 16: say `nchwc_block: 8` (AVX, AVX2) or `nchwc_block: 16` (AVX-512, Arm) in the profile, or save "
      "the model with ORT_ENABLE_EXTENDED");
  return 0;
}

static int64_t channels_named(tni_emit *e, tn_id v) {
  const tni_nchwc *b = of_file(e);
  const tni_value *x = v == TN_NONE ? NULL : tni_graph_value(e->g, v);
  return b && x ? tni_nchwc_channels(b, x->pub.name, block_of_file(e)) : -1;
}

/* Of what the node reads first, and of what it gives. */
static int64_t channels_read(tni_emit *e) { return channels_named(e, tni_em_in(e, 0)); }
static int64_t channels_given(tni_emit *e) { return e->d->n_out ? channels_named(e, e->d->out[0]) : -1; }

/* Where element (o, i, p) of the filter lies; p: of the window's points. */
static uint64_t place_in_filter(const int64_t *dims, int64_t block, int64_t o, int64_t i, int64_t p) {
  const int64_t in = dims[1], points = dims[2] * dims[3];
  if (in < block) return (uint64_t)(((o / block * in + i) * points + p) * block + o % block);
  return (uint64_t)(((o / block * (in / block) + i / block) * points + p) * block * block + i % block * block +
                    o % block);
}

static bool is_filter(const tni_tensor *t, int64_t block) {
  return t && t->rank == 4 && t->dtype == TN_DT_F32 && t->data && t->dims[0] > 0 && t->dims[0] % block == 0 &&
         t->dims[1] > 0 && (t->dims[1] < block || t->dims[1] % block == 0) && t->dims[2] > 0 && t->dims[3] > 0;
}

/* The first `out` rows and `in` columns of the filter, in order. */
static tn_id plain_filter(tni_emit *e, const tni_tensor *t, int64_t block, int64_t out, int64_t in) {
  const int64_t points = t->dims[2] * t->dims[3];
  tni_tensor w = {.dtype = TN_DT_F32, .rank = 4, .dims = {out, in, t->dims[2], t->dims[3]}};
  w.bytes = (uint64_t)(out * in * points) * sizeof(float); /* no more than t's */
  e->st = tni_charge(e->c, w.bytes);
  float *v = e->st ? NULL : tni_arena_alloc(e->g->arena, w.bytes, 64);
  if (!v) {
    if (!e->st) e->st = tni_fail_memory(e->c->err, e->c->file);
    return TN_NONE;
  }
  w.data = v;
  for (int64_t o = 0; o < out; o++)
    for (int64_t i = 0; i < in; i++)
      for (int64_t p = 0; p < points; p++)
        memcpy(v++, (const char *)t->data + place_in_filter(t->dims, block, o, i, p) * sizeof *v, sizeof *v);
  return tni_em_view(e, &w);
}

static tn_id plain_bias(tni_emit *e, tn_id bias, int64_t all, int64_t out) {
  const tni_tensor *t = tni_em_const(e, bias);
  if (bias == TN_NONE || out == all) return bias;
  if (!t || t->rank != 1 || t->dims[0] != all || t->dtype != TN_DT_F32)
    return tni_em_fail(e, TN_E_INVALID, "its bias is not one number for each of %lld channels", (long long)all);
  tni_tensor cut = *t;
  cut.dims[0] = out;
  cut.bytes = (uint64_t)out * sizeof(float);
  return tni_em_view(e, &cut);
}

static int64_t least_known(int64_t n, int64_t all) { return n > 0 && n < all ? n : all; }

/* operands: X, W, B, Z, which is added before the activation. */
static void blocked_conv(tni_emit *e) {
  const int64_t block = block_of_file(e);
  const tni_tensor *w = tni_em_const(e, tni_em_in(e, 1));
  if (!block) return;
  if (!is_filter(w, block)) {
    tni_em_fail(e, TN_E_INVALID, "its filter is no constant in whole blocks of %lld channels", (long long)block);
    return;
  }
  const int64_t out = least_known(channels_given(e), w->dims[0]);
  const bool one = tni_em_int(e, "group", 1) == 1;
  const tn_id filter = plain_filter(e, w, block, out, one ? least_known(channels_read(e), w->dims[1]) : w->dims[1]);
  const tn_id bias = plain_bias(e, tni_em_in(e, 2), w->dims[0], out);
  if (!e->st) tni_em_give(e, 0, tni_contrib_conv(e, tni_em_in(e, 0), filter, bias, tni_em_in(e, 3)));
}

static void blocked_pool(tni_emit *e) {
  const tn_id x = tni_em_in(e, 0);
  if (tni_em_wants(e, 1)) tni_em_fail(e, TN_E_UNSUPPORTED, "indices in blocks of channels");
  if (!e->st) tni_em_give(e, 0, tni_contrib_plain(e, e->d->type, &x, 1));
}

/* [N, C, H, W] with C filled up to whole blocks, where somebody counts them. */
static void reorder_input(tni_emit *e) {
  static const int64_t first[4] = {0, 3, 1, 2};
  const int64_t block = block_of_file(e), read = channels_read(e), given = channels_given(e);
  tn_id x = tni_em_in(e, 0);
  if (!block) return;
  if (tni_em_int(e, "channels_last", 0)) x = tni_em_transpose(e, x, first, 4);
  if (read < 0 || given != read) {
    const tn_id missing = tni_em_2(e, "Mod", tni_em_1(e, "Neg", tni_em_shape(e, x, 1, 2)), tni_em_index(e, block));
    const tn_id pads = tni_em_concat(e, (tn_id[]){tni_em_index(e, 0), missing}, 2, 0);
    tni_em_node pad = {.type = "Pad", .n_in = 4, .in = {x, pads, TN_NONE, tni_em_index(e, 1)}};
    x = tni_em_node_add(e, &pad);
  }
  tni_em_give(e, 0, x);
}

/* The real channels. */
static void reorder_output(tni_emit *e) {
  static const int64_t last[4] = {0, 2, 3, 1};
  const int64_t c = tni_em_int(e, "channels", 0), block = block_of_file(e), read = channels_read(e);
  tn_id x = tni_em_in(e, 0);
  if (block && c < 1) tni_em_fail(e, TN_E_INVALID, "attribute 'channels' is %lld", (long long)c);
  if (e->st) return;
  if (read != c) x = tni_em_slice(e, x, 1, tni_em_index(e, 0), tni_em_index(e, c));
  if (tni_em_int(e, "channels_last", 0)) x = tni_em_transpose(e, x, last, 4);
  tni_em_give(e, 0, x);
}

tn_status tni_contrib_nchwc(tni_emit *e, bool *done) {
  static const struct {
    const char *type;
    tni_contrib_fn fn;
  } table[] = {{"Conv", blocked_conv},           {"MaxPool", blocked_pool},           {"AveragePool", blocked_pool},
               {"GlobalMaxPool", blocked_pool},  {"GlobalAveragePool", blocked_pool}, {"ReorderInput", reorder_input},
               {"ReorderOutput", reorder_output}};
  *done = false;
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    if (strcmp(table[i].type, e->d->type) != 0) continue;
    *done = true;
    table[i].fn(e);
  }
  return e->st;
}
