/* SPDX-License-Identifier: Apache-2.0
 *
 * DepthToSpace, SpaceToDepth and CenterCropPad: strided copies; Col2Im: blocks added up where they overlap, in
 * ascending block position.
 */
#include "runtime/ops/kernel/kernel.h"

/* Depth [N, C] in parts (block row, block column, channel) or (channel, block row, block column); the spatial side is
 * [N, C', H, bh, W, bw]. */
static tn_status depth_blocks(const tni_kargs *a, const tni_tensor *depth, const tni_tensor *space, bool to_space) {
  const int64_t b = tni_at_i(a->node, TNI_A_BLOCKSIZE, 0);
  const char *name = tni_op_by_id(a->node->op)->name;
  const uint32_t mode = tni_at_word(a->node, TNI_A_MODE);
  const uint32_t size = tni_elem_size(depth->dtype);
  if (!size) return tni_kdtype(a, depth->dtype);
  if (!mode) return tni_kfail(a, TN_E_INVALID, "%s: unknown mode", name);
  if (depth->rank != 4 || space->rank != 4 || b < 1 || tni_knumel(depth) != tni_knumel(space) ||
      space->dims[2] != depth->dims[2] * b || space->dims[3] != depth->dims[3] * b)
    return tni_kfail(a, TN_E_INVALID, "%s: blocks of %lld do not fit", name, (long long)b);
  const int64_t C = space->dims[1], H = depth->dims[2], W = depth->dims[3], plane = H * W;
  const bool crd = mode == TN_WORD_DEPTH_TO_SPACE_MODE_CRD;
  /* Dims n, c, h, bh, w, bw; the depth side's strides, then the spatial side's. */
  tni_scopy c = {.rank = 6, .dims = {depth->dims[0], C, H, b, W, b}};
  const int64_t deep[] = {C * b * b * plane,      crd ? b * b * plane : plane, W, crd ? b * plane : b * C * plane, 1,
                          crd ? plane : C * plane};
  const int64_t wide[] = {C * b * b * plane, b * b * plane, b * W * b, W * b, b, 1};
  for (uint32_t i = 0; i < 6; i++) {
    c.ss[i] = to_space ? deep[i] : wide[i];
    c.ds[i] = to_space ? wide[i] : deep[i];
  }
  if (tni_knumel(depth)) tni_copy_strided(a->run, size, &c, a->out[0]->data, a->in[0]->data);
  return TN_OK;
}

tn_status tni_k_depth_to_space(const tni_kargs *a) { return depth_blocks(a, a->in[0], a->out[0], true); }
tn_status tni_k_space_to_depth(const tni_kargs *a) { return depth_blocks(a, a->out[0], a->in[0], false); }

/* The middle of the input, in the middle of zeros; an odd element too many is cut off or padded at the end. */
tn_status tni_k_center_crop_pad(const tni_kargs *a) {
  const tni_tensor *x = a->in[0];
  tni_tensor *y = a->out[0];
  const uint32_t size = tni_elem_size(x->dtype);
  tni_scopy c = {.rank = x->rank};
  int64_t from = 0, to = 0, count = 1;
  if (!size) return tni_kdtype(a, x->dtype);
  if (y->rank != x->rank) return tni_kfail(a, TN_E_INVALID, "CenterCropPad: ranks differ");
  tni_kstrides(x, c.ss);
  tni_kstrides(y, c.ds);
  for (uint32_t d = 0; d < x->rank; d++) {
    const int64_t n = x->dims[d], m = y->dims[d];
    c.dims[d] = n < m ? n : m;
    count *= c.dims[d];
    if (n > m) from += (n - m) / 2 * c.ss[d];
    if (m > n) to += (m - n) / 2 * c.ds[d];
  }
  if (y->bytes) memset(y->data, 0, (size_t)y->bytes);
  if (count)
    tni_copy_strided(a->run, size, &c, (char *)y->data + to * (int64_t)size,
                     (const char *)x->data + from * (int64_t)size);
  return TN_OK;
}

/* --- Col2Im: X [N, C * block, L] -> [N, C, image] */

typedef struct col2im {
  const tn_run *run;
  const tni_tensor *x;
  tni_tensor *y;
  uint32_t rank;
  int64_t block[TN_MAX_RANK], steps[TN_MAX_RANK], stride[TN_MAX_RANK], dilation[TN_MAX_RANK], begin[TN_MAX_RANK];
  int64_t taps, positions, plane;
} col2im;

/* Offset in the image of tap `tap` of the block at position `at`, -1 in the padding. */
static int64_t image_offset(const col2im *c, int64_t tap, int64_t at) {
  int64_t off = 0, st = 1;
  for (uint32_t d = c->rank; d-- > 0;) {
    const int64_t i = at % c->steps[d] * c->stride[d] + tap % c->block[d] * c->dilation[d] - c->begin[d];
    if (i < 0 || i >= c->y->dims[d + 2]) return -1;
    off += i * st;
    st *= c->y->dims[d + 2];
    at /= c->steps[d];
    tap /= c->block[d];
  }
  return off;
}

static void add_element(const tni_tensor *y, int64_t to, const tni_tensor *x, int64_t from) {
  switch (y->dtype) {
    case TN_DT_F64:
      ((f64u *)y->data)[to] += ((const f64u *)x->data)[from];
      break;
    case TN_DT_F32:
      ((f32u *)y->data)[to] += ((const f32u *)x->data)[from];
      break;
    case TN_DT_BOOL:
      ((u8u *)y->data)[to] |= ((const u8u *)x->data)[from] != 0;
      break;
    case TN_DT_C64:
      for (int i = 0; i < 2; i++) ((f32u *)y->data)[2 * to + i] += ((const f32u *)x->data)[2 * from + i];
      break;
    case TN_DT_C128:
      for (int i = 0; i < 2; i++) ((f64u *)y->data)[2 * to + i] += ((const f64u *)x->data)[2 * from + i];
      break;
#define X(DT, U, T, LO, HI)                                                                        \
  case TN_DT_##DT:                                                                                 \
    ((U *)y->data)[to] = (T)((uint64_t)((U *)y->data)[to] + (uint64_t)((const U *)x->data)[from]); \
    break;
      TNI_INT_TYPES(X)
#undef X
    default: /* halves: rounded after each sum */
      tni_put_f64(y, to, tni_get_f64(y, to) + tni_get_f64(x, from));
      break;
  }
}

static void col2im_planes(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const col2im *c = arg;
  tni_poll poll = {c->run, TNI_POLL};
  (void)worker;
  for (int64_t r = begin; r < end; r++)
    for (int64_t t = 0; t < c->taps; t++)
      for (int64_t p = 0; p < c->positions && !tni_poll_stop(&poll, 4); p++) {
        const int64_t to = image_offset(c, t, p);
        if (to >= 0) add_element(c->y, r * c->plane + to, c->x, (r * c->taps + t) * c->positions + p);
      }
}

static bool spatial_attr(const tn_node *n, uint32_t name, uint32_t count, int64_t dflt, int64_t lo, int64_t *v) {
  const int64_t *given;
  const uint32_t got = tni_at_ints(n, name, &given);
  if (given && got < count) return false;
  for (uint32_t i = 0; i < count; i++) {
    v[i] = given ? given[i] : dflt;
    if (v[i] < lo || v[i] > INT32_MAX) return false;
  }
  return true;
}

tn_status tni_k_col2im(const tni_kargs *a) {
  const tni_tensor *x = a->in[0], *block = a->in[2];
  col2im c = {.run = a->run, .x = x, .y = a->out[0], .taps = 1, .positions = 1};
  int64_t pads[2 * TN_MAX_RANK];
  c.rank = c.y->rank < 2 ? 0 : c.y->rank - 2;
  if (x->rank != 3 || !c.rank || tni_knumel(block) != c.rank ||
      !spatial_attr(a->node, TNI_A_STRIDES, c.rank, 1, 1, c.stride) ||
      !spatial_attr(a->node, TNI_A_DILATIONS, c.rank, 1, 1, c.dilation) ||
      !spatial_attr(a->node, TNI_A_PADS, 2 * c.rank, 0, 0, pads))
    return tni_kfail(a, TN_E_INVALID, "Col2Im: attributes or inputs do not fit the image");
  for (uint32_t d = 0; d < c.rank; d++) {
    c.begin[d] = pads[d];
    c.block[d] = tni_get_i64(block, d);
    if (c.block[d] < 1 || c.block[d] > INT32_MAX || c.taps > INT32_MAX)
      return tni_kfail(a, TN_E_INVALID, "Col2Im: a block of %lld", (long long)c.block[d]);
    c.steps[d] = c.y->dims[d + 2] + pads[d] + pads[c.rank + d] - (c.block[d] - 1) * c.dilation[d] - 1;
    c.steps[d] = c.steps[d] < 0 ? 0 : c.steps[d] / c.stride[d] + 1;
    c.taps *= c.block[d];
    if (c.steps[d] && c.positions > x->dims[2] / c.steps[d])
      return tni_kfail(a, TN_E_INVALID, "Col2Im: more blocks than columns");
    c.positions *= c.steps[d];
  }
  c.plane = tni_dim_product(c.y, 2, c.y->rank);
  if (c.positions != x->dims[2] || x->dims[1] % c.taps || x->dims[1] / c.taps != c.y->dims[1])
    return tni_kfail(a, TN_E_INVALID, "Col2Im: %lld columns of %lld for %lld blocks of %lld", (long long)x->dims[2],
                     (long long)x->dims[1], (long long)c.positions, (long long)c.taps);
  if (c.y->bytes) memset(c.y->data, 0, (size_t)c.y->bytes);
  tni_kfor(a->run, c.y->dims[0] * c.y->dims[1], c.taps * c.positions * 4, col2im_planes, &c);
  return TN_OK;
}
