/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of a device that are about memory, handed on.
 */
#include "runtime/conform/observe/layer.h"

tn_status tni_obs_create(tn_device *d, const tn_buffer_req *req, tn_buffer **out, tn_error *err) {
  tni_cf_loan l;
  const tn_buffer_req *copy =
      tni_cf_loan_begin(&l, "create", req->h.size)
          ? tni_obs_lend_struct(&l, req, TN_UPTO(tn_buffer_req, reserved))
          : NULL;
  tni_obs_lent_error own;
  const char *before = tni_cf_call_begin("create");
  *out = NULL;
  const tn_status st = layer_of(d)->real->create(layer_of(d)->real, copy ? copy : req, out, tni_obs_error(&own, err));
  tni_cf_call_over(before);
  tni_obs_error_over(layer_of(d), "create", st, &own, err);
  tni_obs_nothing(layer_of(d), "create", st, out);
  if (st == TN_OK && *out) tni_obs_header(layer_of(d), *out, "tn_buffer", sizeof(tn_buffer), sizeof(tn_buffer)),
                                 tni_obs_reserved(layer_of(d), "tn_buffer", (*out)->reserved);
  tni_cf_loan_end(&l);
  if (st == TN_OK && *out && (*out)->bytes < req->bytes)
    tni_obs_wrong(layer_of(d), "create gives a buffer of %llu bytes where %llu were asked for",
                  (unsigned long long)(*out)->bytes, (unsigned long long)req->bytes);
  if (st == TN_OK && *out && (*out)->device != layer_of(d)->real)
    tni_obs_wrong(layer_of(d), "create gives a buffer whose `device` is not the device that made it");
  return st;
}

tn_status tni_obs_share(tn_buffer *b, uint32_t kind, tn_buffer_req *out, tn_error *err) {
  tni_obs_lent_error own;
  const char *before = tni_cf_call_begin("share");
  const tn_status st = tni_obs_any()->real->share(b, kind, out, tni_obs_error(&own, err));
  tni_cf_call_over(before);
  tni_obs_error_over(tni_obs_any(), "share", st, &own, err);
  return st;
}

void tni_obs_destroy(tn_buffer *b) {
  const char *before = tni_cf_call_begin("destroy");
  tni_obs_any()->real->destroy(b);
  tni_cf_call_over(before);
}

tn_status tni_obs_map(tn_buffer *b, uint64_t offset, uint64_t n, uint32_t access, void **ptr, tn_error *err) {
  tni_obs_lent_error own;
  const char *before = tni_cf_call_begin("map");
  const tn_status st = tni_obs_any()->real->map(b, offset, n, access, ptr, tni_obs_error(&own, err));
  tni_cf_call_over(before);
  tni_obs_error_over(tni_obs_any(), "map", st, &own, err);
  return st;
}

tn_status tni_obs_unmap(tn_buffer *b, void *ptr, tn_error *err) {
  const char *before = tni_cf_call_begin("unmap");
  const tn_status st = tni_obs_any()->real->unmap(b, ptr, err);
  tni_cf_call_over(before);
  return st;
}
