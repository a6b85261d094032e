/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/place/statistics.h"

#include <string.h>
#include <unistd.h>

#include "runtime/profile/profile.h"

/* What the runtime was told, or a file beside the model. */
static tn_status find_file(const tn_model *m, const char **file, tn_error *err) {
  static const char beside[] = TNI_BESIDE_MODEL;
  *file = m->rt->calibration;
  if (!*file || strncmp(*file, beside, sizeof beside - 1) != 0) return TN_OK;
  const char *name = *file + sizeof beside - 1;
  *file = tni_path_from(m->arena, m->path, name);
  if (!*file) return tni_fail_memory(err, m->path);
  if (access(*file, R_OK) == 0) return TN_OK;
  return tni_fail(err, TN_E_INVALID, *file,
                  "profile '%s' wants statistics of activations, and there is no '%s' beside the model: make it by "
                  "'tenon calibrate', or give another with --calibration",
                  m->rt->profile->name, name);
}

tn_status tni_statistics_open(tn_model *m, tn_error *err) {
  const char *file = NULL;
  const bool record = m->flags & TN_MODEL_CALIBRATE;
  if (!record) {
    const tn_status found = find_file(m, &file, err);
    if (found != TN_OK || !file) return found;
  }
  const char *whole = m->import->whole_hash;
  tn_status st = tni_calib_model_hash(m->graph, m->hash, err);
  if (st == TN_OK && whole && strlen(whole) == TNI_CALIB_HEX) memcpy(m->hash, whole, sizeof m->hash);
  if (st != TN_OK || record) return st; /* statistics change nothing that is recorded */
  st = tni_calib_read(file, &m->calib, err);
  if (st != TN_OK || strcmp(m->calib->model, m->hash) == 0) return st;
  return tni_fail(err, TN_E_INVALID, file,
                  "calibration file '%s' belongs to another model: '%.64s' with hash %s, not '%.64s' with hash %s",
                  file, m->calib->model_name, m->calib->model, m->name, m->hash);
}

tn_status tni_statistics_attach(tn_model *m, tn_error *err) {
  uint32_t products = 0, found = 0;
  if (!m->calib) return TN_OK;
  tn_status st = tni_calib_attach(m->calib, m->graph, m->arena, &products, &found, err);
  if (st == TN_OK)
    tni_log_line(&m->rt->log, found < products ? TN_LOG_WARN : TN_LOG_INFO,
                 "calibration file '%s' has statistics for %u of %u matrix products", m->calib->file, found, products);
  return st;
}
