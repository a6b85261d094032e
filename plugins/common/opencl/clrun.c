/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/opencl/clrun.h"

#include <string.h>

#include "plugins/common/formats/formats.h"

cl_int tni_cl_set_args(const tni_cl_api *a, cl_kernel kernel, const tni_cl_shape *s, const tni_cl_bound *operands) {
  cl_uint at = 0;
  cl_int code = CL_SUCCESS;
  for (uint32_t i = 0; code == CL_SUCCESS && i < s->n_operands; i++) {
    code = a->SetKernelArg(kernel, at++, sizeof operands[i].mem, &operands[i].mem);
    if (code == CL_SUCCESS) code = a->SetKernelArg(kernel, at++, sizeof operands[i].offset, &operands[i].offset);
  }
  for (uint32_t i = 0; code == CL_SUCCESS && i < s->n_ints; i++)
    code = a->SetKernelArg(kernel, at++, sizeof s->ints[i], &s->ints[i]);
  for (uint32_t i = 0; code == CL_SUCCESS && i < s->n_floats; i++)
    code = a->SetKernelArg(kernel, at++, sizeof s->floats[i], &s->floats[i]);
  return code;
}

bool tni_cl_image_fits(const tni_cl_info *i, uint32_t flags, uint64_t w_at, uint64_t blob_bytes, int64_t Pn,
                       int64_t rows) {
  if (flags & TNI_CLV_W_IMAGE1D) return blob_bytes / 4 <= i->image_buffer_px;
  /* A pitch of Pn uint16 in texels of 4 bytes; images begin where their buffer begins. */
  const uint64_t width = (uint64_t)Pn / 2, height = (uint64_t)rows;
  return w_at == 0 && i->pitch_px && width % i->pitch_px == 0 && width <= i->image2d_w && height <= i->image2d_h;
}

cl_mem tni_cl_weight_image(const tni_cl_context *c, cl_mem blob, uint64_t blob_bytes, uint32_t flags, int64_t Pn,
                           int64_t rows, cl_int *code) {
  const cl_image_format format = {CL_R, CL_UNSIGNED_INT32};
  cl_image_desc desc = {.image_type = CL_MEM_OBJECT_IMAGE1D_BUFFER, .image_width = blob_bytes / 4};
  if (flags & TNI_CLV_W_IMAGE2D) {
    desc.image_type = CL_MEM_OBJECT_IMAGE2D;
    desc.image_width = (size_t)Pn / 2;
    desc.image_height = (size_t)rows;
    desc.image_row_pitch = (size_t)Pn * 2;
  }
  desc.buffer = blob;
  return c->api->CreateImage(c->context, CL_MEM_READ_ONLY, &format, &desc, NULL, code);
}

/* --- one launch over host memory --------------------------------------------------------------------------------- */

typedef struct objects {
  cl_mem mem[TNI_CL_MAX_OPERANDS], image;
  cl_kernel kernel;
} objects;

static bool is_product(const tni_cl_shape *s) { return s->kind == TNI_CLK_GEMV || s->kind == TNI_CLK_GEMM; }

static const char *make_objects(const tni_cl_direct *d, objects *o) {
  const tni_cl_context *c = d->kernels->c;
  const uint32_t flags = d->program->variant ? d->program->variant->flags : 0;
  cl_int code = CL_SUCCESS;
  for (uint32_t i = 0; i < d->shape->n_operands; i++) {
    if (!d->data[i] || !d->bytes[i]) continue;
    o->mem[i] =
        c->api->CreateBuffer(c->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, d->bytes[i], d->data[i], &code);
    if (!o->mem[i]) return "self-test: no memory";
  }
  if (flags) {
    o->image = tni_cl_weight_image(c, o->mem[1], d->bytes[1], flags, d->shape->ints[TNI_CLI_PN],
                                   tni_e0m_rows(d->shape->bits, d->shape->ints[TNI_CLI_K]), &code);
    if (!o->image) return "self-test: no image over the buffer";
  }
  o->kernel = c->api->CreateKernel(d->program->program, d->program->name, &code);
  return o->kernel ? NULL : "self-test: no kernel";
}

static const char *launch_kernel(const tni_cl_direct *d, objects *o) {
  const tni_cl_context *c = d->kernels->c;
  tni_cl_bound b[TNI_CL_MAX_OPERANDS] = {{0}};
  size_t global[3], local[3];
  for (uint32_t i = 0; i < d->shape->n_operands; i++)
    b[i] = (tni_cl_bound){.mem = o->mem[i] ? o->mem[i] : o->mem[0], .offset = d->offset[i]};
  if (is_product(d->shape)) {
    if (o->image) b[1].mem = o->image;
    b[2] = (tni_cl_bound){.mem = o->mem[1], .offset = (uint32_t)(d->s_at / 128)};
  }
  if (tni_cl_set_args(c->api, o->kernel, d->shape, b) != CL_SUCCESS) return "self-test: arguments refused";
  memcpy(global, d->global, sizeof global);
  memcpy(local, d->local, sizeof local);
  if (d->program->variant) d->program->variant->geometry(c->info, d->shape, global, local);
  cl_int code =
      c->api->EnqueueNDRangeKernel(c->queue, o->kernel, 3, NULL, global, local[0] ? local : NULL, 0, NULL, NULL);
  for (uint32_t i = 0; code == CL_SUCCESS && i < d->shape->n_operands; i++)
    if (o->mem[i])
      code = c->api->EnqueueReadBuffer(c->queue, o->mem[i], CL_TRUE, 0, d->bytes[i], d->data[i], 0, NULL, NULL);
  return code == CL_SUCCESS ? NULL : "self-test: the launch failed";
}

const char *tni_cl_run_direct(const tni_cl_direct *d) {
  const tni_cl_api *a = d->kernels->c->api;
  objects o = {0};
  const char *why = make_objects(d, &o);
  if (!why) why = launch_kernel(d, &o);
  if (o.kernel) a->ReleaseKernel(o.kernel);
  if (o.image) a->ReleaseMemObject(o.image);
  for (uint32_t i = 0; i < TNI_CL_MAX_OPERANDS; i++)
    if (o.mem[i]) a->ReleaseMemObject(o.mem[i]);
  return why;
}
