/* SPDX-License-Identifier: Apache-2.0
 *
 * Older forms of the operators on images. Source: the version notes of each operator in ONNX's Changelog document.
 */
#include "runtime/onnx/upgrade_image.h"

#include <string.h>

#include "runtime/onnx/emit.h"

/* Strings of a draft are not terminated. */
static bool text_attr_is(const tni_raw_attr *a, const char *text) {
  return a && a->a.type == TN_ATTR_STRING && a->a.n == strlen(text) && memcmp(a->a.u.s, text, strlen(text)) == 0;
}

/* At most TNI_DRAFT_ATTRS of a node. */
static void add_text_attr(tni_draft *d, const char *name, const char *value) {
  d->raw[d->n_raw++] = tni_raw_string(name, value);
}

typedef struct old_scales {
  float grow[TN_MAX_RANK], shrink[TN_MAX_RANK]; /* of axes that do, 1 for others */
  size_t n;
  bool grows, shrinks;
} old_scales;

/* False: the run computes them. */
static bool known_scales(const tni_emit *e, tn_id scales, old_scales *o) {
  const tni_tensor *t = tni_em_const(e, scales);
  if (!t || !t->data || t->dtype != TN_DT_F32 || t->rank != 1 || t->dims[0] > TN_MAX_RANK) return false;
  *o = (old_scales){.n = (size_t)t->dims[0]};
  tni_tensor_to_f32(t, 0, t->dims[0], o->grow);
  for (size_t i = 0; i < o->n; i++) {
    o->shrink[i] = o->grow[i] < 1 ? o->grow[i] : 1;
    if (o->grow[i] < 1) o->grow[i] = 1;
    o->grows = o->grows || o->grow[i] != 1;
    o->shrinks = o->shrinks || o->shrink[i] != 1;
  }
  return true;
}

/* x with only the axes that grow resized. */
static tn_id grown(tni_emit *e, tn_id x, const old_scales *o) {
  tni_em_node n = {.type = "Resize", .n_in = 3, .in = {x, TN_NONE, tni_em_floats(e, o->grow, o->n)}, .n_attr = 2};
  n.attr[0] = tni_raw_string("coordinate_transformation_mode", "asymmetric");
  n.attr[1] = tni_raw_string("nearest_mode", "floor");
  return tni_em_node_add(e, &n);
}

/* X, scales (now operand 2): positions without half pixels. These versions do not say which pixel is the nearest;
 * onnxruntime takes the one before along an axis that grows, the one after along one that shrinks. So it is here where
 * the scales are constants, else the one before. */
static tn_status old_resize(tni_emit *e, tni_draft *d) {
  const tni_raw_attr *mode = tni_draft_attr(d, "mode");
  old_scales o;
  if (d->n_in == 2) {
    d->in[2] = d->in[1];
    d->in[1] = TN_NONE;
    d->n_in = 3;
  }
  const bool nearest = !mode || text_attr_is(mode, "nearest");
  const bool shrinks = nearest && d->n_in == 3 && known_scales(e, d->in[2], &o) && o.shrinks;
  if (shrinks && o.grows) {
    d->in[0] = grown(e, d->in[0], &o);
    d->in[2] = tni_em_floats(e, o.shrink, o.n);
  }
  d->type = "Resize";
  d->version = 19;
  add_text_attr(d, "coordinate_transformation_mode", "asymmetric");
  add_text_attr(d, "nearest_mode", shrinks ? "ceil" : "floor");
  return e->st;
}

static tn_status upgrade_upsample(tni_emit *e, tni_draft *d) {
  const tni_raw_attr *scales = tni_draft_attr(d, "scales");
  if (scales) {
    const tn_attr a = scales->a;
    if (a.type != TN_ATTR_FLOATS || d->n_in != 1)
      return tni_fail(e->c->err, TN_E_INVALID, e->c->file, "attribute 'scales' has the wrong type or is an input too");
    d->in[1] = tni_em_floats(e, a.u.floats, (size_t)a.n);
    d->n_in = 2;
    tni_draft_drop_attr(d, "scales");
  }
  tni_raw_attr *mode = tni_draft_attr(d, "mode");
  if (text_attr_is(mode, "bilinear") || text_attr_is(mode, "trilinear")) *mode = tni_raw_string("mode", "linear");
  return old_resize(e, d);
}

/* The names that 20 gave to modes. */
static void grid_sample(tni_draft *d) {
  tni_raw_attr *mode = tni_draft_attr(d, "mode");
  if (text_attr_is(mode, "bilinear"))
    *mode = tni_raw_string("mode", "linear");
  else if (text_attr_is(mode, "bicubic"))
    *mode = tni_raw_string("mode", "cubic");
}

/* Before 21 scale and bias have an element per group: each is repeated for its channels. */
static tn_status group_norm(tni_emit *e, tni_draft *d) {
  static const int64_t after[] = {1};
  const tni_raw_attr *groups = tni_draft_attr(d, "num_groups");
  if (d->n_in != 3 || !groups || groups->a.type != TN_ATTR_INT) return TN_OK; /* the op table says what is wrong */
  const tn_id per = tni_em_2(e, "Div", tni_em_shape(e, d->in[0], 1, 2), tni_em_index(e, groups->a.u.i));
  const tn_id sizes[2] = {tni_em_index(e, 1), per};
  const tn_id shape = tni_em_concat(e, sizes, 2, 0);
  for (uint32_t i = 1; i < 3; i++) {
    const tn_id wide = tni_em_2(e, "Expand", tni_em_unsqueeze(e, d->in[i], after, 1), shape);
    d->in[i] = tni_em_2(e, "Reshape", wide, tni_em_index(e, -1));
  }
  d->version = 21;
  return e->st;
}

tn_status tni_upgrade_image(tni_import *c, tni_graph *g, tni_draft *d) {
  tni_emit e = {.c = c, .g = g, .d = d};
  if (strcmp(d->type, "Upsample") == 0) return upgrade_upsample(&e, d);
  if (strcmp(d->type, "Resize") == 0) return old_resize(&e, d);
  if (strcmp(d->type, "GridSample") == 0) grid_sample(d);
  if (strcmp(d->type, "RoiAlign") == 0) add_text_attr(d, "coordinate_transformation_mode", "output_half_pixel");
  return strcmp(d->type, "GroupNormalization") == 0 ? group_norm(&e, d) : TN_OK;
}
