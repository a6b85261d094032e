/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/memory/chunk.h"

#include "runtime/base/base.h"

static const tni_exec *prefill_of(const tn_model *m) {
  for (uint32_t i = 0; i < m->n_execs; i++)
    if (m->execs[i].phase == TN_PHASE_PREFILL) return &m->execs[i];
  return NULL;
}

int64_t tni_model_chunk(const tn_model *m) {
  const tni_exec *x = prefill_of(m);
  return x ? x->chunk : 0;
}

int64_t tni_exec_length(const tni_exec *x, int64_t n) {
  uint32_t i = 0;
  while (i + 1 < x->lengths.n && x->lengths.v[i] < n) i++;
  return x->chunk ? x->lengths.v[i] : n;
}

bool tni_exec_takes(const tn_model *m, const tni_exec *x, int64_t n) {
  if (m->n_execs == 1 || m->roles.why_not) return true;
  if (x->phase == TN_PHASE_DECODE) return n == 1;
  return x->chunk ? n == tni_exec_length(x, n) : n > 1;
}

/* Rows of a cache for so many positions: a padded chunk may begin at the last. */
static int64_t chunk_room(const tn_model *m, int64_t positions) {
  const int64_t chunk = tni_model_chunk(m);
  return chunk ? positions - 1 + chunk : positions;
}

int64_t tni_chunk_padded(const tn_model *m, int64_t n) {
  const tni_exec *x = n > 1 ? prefill_of(m) : NULL;
  return x ? tni_exec_length(x, n) : n;
}

static int64_t rounded_to_bucket(int64_t n, int64_t to) { return to > 1 ? (n + to - 1) / to * to : n; }

/* What lengths of the context are multiples of: what the profile says, in multiples of what the devices need; 0: they
 * need nothing, nor does the profile. */
static int64_t bucket_of(const tn_model *m) {
  int64_t b = m->rt->profile->bucket ? m->rt->profile->bucket : 1;
  for (uint32_t i = 0; i < m->n_execs; i++) b = b / tni_gcd(b, m->execs[i].claims.bucket) * m->execs[i].claims.bucket;
  return b == 1 && !m->rt->profile->bucket ? 0 : b;
}

int64_t tni_chunk_capacity(const tn_model *m, int64_t positions) {
  const int64_t room = chunk_room(m, positions);
  return m->roles.exact ? room : rounded_to_bucket(room, bucket_of(m));
}

int64_t tni_chunk_step(const tn_model *m, int64_t positions) {
  const int64_t chunk = m->rt->profile->prefill_chunk;
  return chunk && chunk < positions ? chunk : positions;
}

int64_t tni_chunk_total(const tn_model *m, int64_t capacity, int64_t valid) {
  if (m->roles.exact) return valid;
  const int64_t bucket = bucket_of(m);
  return bucket ? rounded_to_bucket(valid, bucket) : capacity;
}

int64_t tni_chunk_rows(const tn_model *m, uint32_t rows, int64_t n) {
  return m->graph->rows_symbol == TN_NONE || !rows ? n : 1;
}
