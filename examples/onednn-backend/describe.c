/* SPDX-License-Identifier: Apache-2.0
 *
 * What oneDNN is asked for: one image, one slice of the result. Descriptors are dense, so that its fastest kernels take
 * them. */
#include <string.h>

#include "backend.h"

static dnnl_status_t image(const device *d, dnnl_memory_desc_t *md, int64_t channels, const int64_t hw[2], int plain) {
  const dnnl_dims_t dims = {1, channels, hw[0], hw[1]};
  return dnnl_memory_desc_init_by_tag(md, 4, dims, dnnl_f32,
      plain ? dnnl_abcd : d->block == 16 ? dnnl_aBcd16b : dnnl_aBcd8b);
}

/* all: what the result looks like; column: one row of it. */
static dnnl_status_t attributes(const step *s, const dnnl_memory_desc_t *all, const dnnl_memory_desc_t *column,
                                dnnl_primitive_attr_t *attr) {
  dnnl_post_ops_t posts = NULL;
  const dnnl_dims_t ones = {1, 1, 1, 1};
  dnnl_memory_desc_t one;
  int bad = dnnl_primitive_attr_create(attr) || dnnl_post_ops_create(&posts) ||
            dnnl_primitive_attr_set_scratchpad_mode(*attr, dnnl_scratchpad_mode_user) ||
            dnnl_memory_desc_init_by_tag(&one, all->ndims, ones, dnnl_f32, all->ndims == 4 ? dnnl_abcd : dnnl_ab);
  for (uint32_t i = 0; !bad && i < s->n_posts; i++) {
    const post *p = &s->posts[i];
    bad = p->other == TN_NONE
              ? dnnl_post_ops_append_eltwise(posts, 1, p->alg, p->alpha, p->beta)
              : dnnl_post_ops_append_binary(posts, p->alg, p->shape == ALL ? all : p->shape == ONE ? &one : column);
  }
  bad = bad || dnnl_primitive_attr_set_post_ops(*attr, posts);
  if (posts) bad |= dnnl_post_ops_destroy(posts) != dnnl_success;
  return bad ? dnnl_invalid_arguments : dnnl_success;
}

static dnnl_status_t finish(const device *d, const void *op, dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *pd) {
  dnnl_status_t st = dnnl_primitive_desc_create(pd, op, attr, d->engine, NULL);
  if (attr && dnnl_primitive_attr_destroy(attr) != dnnl_success) st = dnnl_runtime_error;
  return st;
}

/* Rows before and after the image: what auto_pad says, or the pads. */
static void pads_of(const step *s, const int64_t in[2], const int64_t out[2], const int64_t kernel[2],
                    dnnl_dims_t before, dnnl_dims_t after) {
  const int upper = s->auto_pad == TN_WORD_CONV_AUTO_PAD_SAME_UPPER, lower = s->auto_pad == TN_WORD_CONV_AUTO_PAD_SAME_LOWER;
  for (int i = 0; i < 2; i++) {
    int64_t total = (out[i] - 1) * s->stride[i] + s->dilation[i] * (kernel[i] - 1) + 1 - in[i];
    if (total < 0) total = 0;
    before[i] = upper ? total / 2 : lower ? (total + 1) / 2 : s->auto_pad == TN_WORD_CONV_AUTO_PAD_VALID ? 0 : s->pads[i];
    after[i] = upper || lower ? total - before[i] : s->auto_pad == TN_WORD_CONV_AUTO_PAD_VALID ? 0 : s->pads[2 + i];
  }
}

static dnnl_status_t describe_pool(const device *d, const step *s, const int64_t in[2], const int64_t out[2],
                                   dnnl_primitive_desc_t *pd) {
  const int64_t channels = up(s->C, d->block) / s->slices;
  const dnnl_dims_t kernel = {s->kernel[0] ? s->kernel[0] : in[0], s->kernel[0] ? s->kernel[1] : in[1]},
                    stride = {s->stride[0], s->stride[1]};
  dnnl_memory_desc_t src, dst;
  dnnl_pooling_desc_t op;
  dnnl_primitive_attr_t attr = NULL;
  dnnl_dims_t before, after;
  pads_of(s, in, out, kernel, before, after);
  if (image(d, &src, channels, in, 0) || image(d, &dst, channels, out, 0) || attributes(s, &dst, NULL, &attr) ||
      dnnl_pooling_forward_desc_init(&op, dnnl_forward_inference, s->alg, &src, &dst, stride, kernel, before, after))
    return (void)!dnnl_primitive_attr_destroy(attr), dnnl_invalid_arguments;
  return finish(d, &op, attr, pd);
}

dnnl_status_t describe_conv(const device *d, const step *s, const int64_t in[2], const int64_t out[2],
                            const dnnl_memory_desc_t *w, dnnl_primitive_desc_t *pd) {
  if (s->kind == POOL) return describe_pool(d, s, in, out, pd);
  const int64_t inner = s->plain_x ? s->C : up(s->C, d->block), outer = s->plain_y ? s->OC : up(s->OC, d->block),
                o = outer / s->slices, i = s->form == GROUPED || s->form == DEPTHWISE ? inner / s->slices : inner,
                g = s->form == DEPTHWISE ? o : s->groups;
  const dnnl_dims_t plain_w = {o, i, s->kernel[0], s->kernel[1]},
                    grouped_w = {g, o / g, i / g, s->kernel[0], s->kernel[1]},
                    dilates = {s->dilation[0] - 1, s->dilation[1] - 1}, stride = {s->stride[0], s->stride[1]},
                    length = {o};
  const int grouped = s->form == DEPTHWISE || s->form == PLAIN;
  dnnl_memory_desc_t src, dst, weight, bias;
  dnnl_convolution_desc_t op;
  dnnl_primitive_attr_t attr = NULL;
  dnnl_dims_t before, after;
  pads_of(s, in, out, s->kernel, before, after);
  if (w)
    weight = *w;
  else if (dnnl_memory_desc_init_by_tag(&weight, grouped ? 5 : 4, grouped ? grouped_w : plain_w, dnnl_f32,
               dnnl_format_tag_any))
    return dnnl_invalid_arguments;
  if (image(d, &src, i, in, s->plain_x) || image(d, &dst, o, out, s->plain_y) ||
      dnnl_memory_desc_init_by_tag(&bias, 1, length, dnnl_f32, dnnl_a) || attributes(s, &dst, NULL, &attr) ||
      dnnl_dilated_convolution_forward_desc_init(&op, dnnl_forward_inference, s->alg, &src, &weight,
          s->bias != TN_NONE ? &bias : NULL, &dst, stride, dilates, before, after))
    return (void)!dnnl_primitive_attr_destroy(attr), dnnl_invalid_arguments;
  return finish(d, &op, attr, pd);
}

dnnl_status_t describe_product(const device *d, const step *s, int64_t rows, const dnnl_memory_desc_t *w,
                               dnnl_primitive_desc_t *pd) {
  const int64_t n = s->N / s->slices;
  const dnnl_dims_t x = {rows, s->K}, k = {s->K, n}, y = {rows, n}, row = {1, n};
  dnnl_memory_desc_t src, dst, weight, column;
  dnnl_matmul_desc_t op;
  dnnl_primitive_attr_t attr = NULL;
  if (w)
    weight = *w;
  else if (dnnl_memory_desc_init_by_tag(&weight, 2, k, dnnl_f32, dnnl_format_tag_any))
    return dnnl_invalid_arguments;
  if (dnnl_memory_desc_init_by_tag(&src, 2, x, dnnl_f32, dnnl_ab) ||
      dnnl_memory_desc_init_by_tag(&dst, 2, y, dnnl_f32, dnnl_ab) ||
      dnnl_memory_desc_init_by_tag(&column, 2, row, dnnl_f32, dnnl_ab) || attributes(s, &dst, &column, &attr) ||
      dnnl_matmul_desc_init(&op, &src, &weight, NULL, &dst))
    return (void)!dnnl_primitive_attr_destroy(attr), dnnl_invalid_arguments;
  return finish(d, &op, attr, pd);
}
