/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "plugins/common/opencl/cldev.h"

static tni_cl_buffer *buffer_of(tn_buffer *b) { return (tni_cl_buffer *)b; }

typedef cl_mem(CL_API_CALL *import_fn)(cl_context, cl_mem_flags, const cl_import_properties_arm *, void *, size_t,
                                       cl_int *);

/* cl_arm_import_memory takes over pages of this process; where a device has it, CL_MEM_USE_HOST_PTR copies at the first
 * use and at every map (Arm's OpenCL guide), so that a refusal is the better answer. */
static cl_mem import_arm(const tni_cl_context *c, void *ptr, uint64_t bytes, cl_int *code) {
  const cl_import_properties_arm props[] = {CL_IMPORT_TYPE_ARM, CL_IMPORT_TYPE_HOST_ARM, 0};
  import_fn fn = NULL;
  if (c->api->GetExtensionFunctionAddressForPlatform)
    *(void **)&fn = c->api->GetExtensionFunctionAddressForPlatform(c->info->platform, "clImportMemoryARM");
  if (fn) return fn(c->context, CL_MEM_READ_WRITE, props, ptr, bytes, code);
  *code = CL_INVALID_OPERATION;
  return NULL;
}

/* OpenCL has no memory of 0 bytes: one stands for it. */
static cl_mem make_mem(const tni_cl_context *c, const tn_buffer_req *req, cl_int *code) {
  if (!req->bytes) return c->api->CreateBuffer(c->context, CL_MEM_READ_WRITE, 1, NULL, code);
  if (req->kind == TN_MEM_HOST_PTR && (c->info->features & TNI_CLF_ARM_IMPORT))
    return import_arm(c, (char *)req->ptr + req->offset, req->bytes, code);
  cl_mem_flags flags = CL_MEM_READ_WRITE;
  if (req->kind == TN_MEM_HOST_PTR)
    flags |= CL_MEM_USE_HOST_PTR;
  else if ((req->flags & TN_BUF_HOST) && (c->info->features & TNI_CLF_UNIFIED))
    flags |= CL_MEM_ALLOC_HOST_PTR;
  void *ptr = req->kind == TN_MEM_HOST_PTR ? (char *)req->ptr + req->offset : NULL;
  return c->api->CreateBuffer(c->context, flags, req->bytes, ptr, code);
}

static cl_int zero_mem(const tni_cl_context *c, cl_mem mem, uint64_t bytes) {
  const cl_uchar none = 0;
  cl_int code = c->api->EnqueueFillBuffer(c->queue, mem, &none, 1, 0, bytes, 0, NULL, NULL);
  return code == CL_SUCCESS ? c->api->Finish(c->queue) : code;
}

static tn_status check_request(const tni_cl_context *c, const tn_buffer_req *req, tn_error *err) {
  const char *name = c->info->name;
  if (req->kind != TN_MEM_NEW && req->kind != TN_MEM_HOST_PTR)
    return tni_cm_fail(err, TN_E_UNSUPPORTED, name, "memory of kind %u cannot be taken over", req->kind);
  if (req->bytes > c->info->max_alloc)
    return tni_cm_fail(err, TN_E_NO_MEMORY, name, "a buffer of %llu bytes; the device allocates at most %llu at once",
                       (unsigned long long)req->bytes, (unsigned long long)c->info->max_alloc);
  if (req->kind == TN_MEM_HOST_PTR && (!req->ptr || ((uintptr_t)req->ptr + req->offset) % c->info->base_align))
    return tni_cm_fail(err, TN_E_UNSUPPORTED, name, "host memory that is not aligned to %u bytes", c->info->base_align);
  return TN_OK;
}

tn_status tni_cl_create(tn_device *d, const tni_cl_context *c, const tn_buffer_req *req, tn_buffer **out,
                        tn_error *err) {
  tn_status st = check_request(c, req, err);
  if (st != TN_OK) return st;
  tni_cl_buffer *b = c->host->alloc(c->host->ctx, sizeof *b, 64, TN_TAG_PLUGIN);
  if (!b) return tni_cm_fail(err, TN_E_NO_MEMORY, c->info->name, "out of memory");
  *b = (tni_cl_buffer){.pub = {.h = TN_HDR(tn_buffer), .device = d, .bytes = req->bytes}, .c = c};
  cl_int code = CL_SUCCESS;
  b->mem = make_mem(c, req, &code);
  b->imported = req->kind == TN_MEM_HOST_PTR;
  if (b->imported) b->user = (char *)req->ptr + req->offset;
  if (b->mem && (req->flags & TN_BUF_ZERO) && !b->imported && req->bytes) code = zero_mem(c, b->mem, req->bytes);
  if (b->mem && code == CL_SUCCESS) {
    *out = &b->pub;
    return TN_OK;
  }
  tni_cl_destroy(&b->pub);
  return tni_cl_fail(err, code ? code : CL_OUT_OF_HOST_MEMORY, c->info->name, "clCreateBuffer");
}

tn_status tni_cl_share(tn_buffer *b, uint32_t kind, tn_buffer_req *out, tn_error *err) {
  tni_cl_buffer *m = buffer_of(b);
  if (kind != TN_MEM_HOST_PTR || !m->imported)
    return tni_cm_fail(err, TN_E_UNSUPPORTED, m->c->info->name, "memory of this device cannot be given away as kind %u",
                       kind);
  out->kind = kind;
  out->ptr = m->user;
  out->bytes = b->bytes;
  out->offset = 0;
  out->fd = -1;
  return TN_OK;
}

void tni_cl_destroy(tn_buffer *b) {
  if (!b) return;
  tni_cl_buffer *m = buffer_of(b);
  const tn_host *host = m->c->host;
  if (m->image) m->c->api->ReleaseMemObject(m->image);
  if (m->mem) m->c->api->ReleaseMemObject(m->mem);
  host->free(host->ctx, m);
}

tn_status tni_cl_map(tn_buffer *b, uint64_t offset, uint64_t n, uint32_t access, void **ptr, tn_error *err) {
  tni_cl_buffer *m = buffer_of(b);
  const tni_cl_context *c = m->c;
  if (offset > b->bytes || n > b->bytes - offset)
    return tni_cm_fail(err, TN_E_INVALID, c->info->name, "a mapping outside its buffer");
  cl_map_flags flags = (access & TN_READ ? CL_MAP_READ : 0) | (access & (TN_WRITE | TN_APPEND) ? CL_MAP_WRITE : 0);
  cl_int code = CL_SUCCESS;
  *ptr = c->api->EnqueueMapBuffer(c->queue, m->mem, CL_TRUE, flags, offset, b->bytes ? n : 1, 0, NULL, NULL, &code);
  return *ptr ? TN_OK : tni_cl_fail(err, code ? code : CL_MAP_FAILURE, c->info->name, "clEnqueueMapBuffer");
}

tn_status tni_cl_unmap(tn_buffer *b, void *ptr, tn_error *err) {
  tni_cl_buffer *m = buffer_of(b);
  cl_int code = m->c->api->EnqueueUnmapMemObject(m->c->queue, m->mem, ptr, 0, NULL, NULL);
  return code == CL_SUCCESS ? TN_OK : tni_cl_fail(err, code, m->c->info->name, "clEnqueueUnmapMemObject");
}
