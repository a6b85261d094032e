/* SPDX-License-Identifier: Apache-2.0
 *
 * Working memory of one encode call.
 */
#include <stdlib.h>

#include "runtime/base/base.h"
#include "runtime/llm/tokenizer/tok.h"

bool tni_grow(void **v, size_t *cap, size_t n, size_t size) {
  if (n <= *cap) return true;
  size_t want = *cap ? *cap : 64, bytes;
  while (want < n)
    if (!tni_mul_size(want, 2, &want)) return false;
  if (!tni_mul_size(want, size, &bytes)) return false;
  void *p = realloc(*v, bytes);
  if (!p) return false;
  *v = p;
  *cap = want;
  return true;
}

void tni_pieces_add(tni_tok_pieces *p, tni_tok_piece x) {
  if (!p->failed && tni_grow((void **)&p->v, &p->cap, p->n + 1, sizeof *p->v))
    p->v[p->n++] = x;
  else
    p->failed = true;
}

void tni_segs_add(tni_segs *s, size_t b, size_t e, bool match) {
  if (!s->failed && tni_grow((void **)&s->v, &s->cap, s->n + 1, sizeof *s->v))
    s->v[s->n++] = (tni_seg){b, e, match};
  else
    s->failed = true;
}

void tni_work_id(tni_work *w, int32_t id) {
  if (!w->ids_failed && tni_grow((void **)&w->ids.v, &w->ids_cap, w->ids.n + 1, sizeof *w->ids.v))
    w->ids.v[w->ids.n++] = id;
  else
    w->ids_failed = true;
}

void tni_work_finish(tni_work *w) {
  tni_str_finish(&w->text);
  tni_str_finish(&w->tmp);
  tni_str_finish(&w->norm);
  tni_str_finish(&w->norm2);
  tni_match_memory_finish(&w->match);
  free(w->pieces.v);
  free(w->next.v);
  free(w->segs.v);
  free(w->ids.v);
  free(w->syms);
  free(w->heap);
  free(w->best);
}
