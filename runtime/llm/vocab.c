/* SPDX-License-Identifier: Apache-2.0
 *
 * Looking up the model's vocabulary.
 */
#include "runtime/llm/tok.h"

int32_t tni_vocab_id(const tni_tok_model *m, const char *s, size_t n) {
  uint64_t v;
  return tni_map_get(m->vocab, s, n, &v) ? (int32_t)v : -1;
}

void tni_byte_ids(tni_tok_model *m) {
  static const char hex[] = "0123456789ABCDEF";
  for (int b = 0; b < 256; b++)
    m->byte_ids[b] = tni_vocab_id(m, (char[6]){'<', '0', 'x', hex[b >> 4], hex[b & 15], '>'}, 6);
}
