/* SPDX-License-Identifier: Apache-2.0
 *
 * Exporters agree on input_ids, attention_mask and position_ids; caches are named past_key_values.N.key / present.N.key
 * (Optimum), past_key_values.N.key / present_key_values.N.key, past_N / present_N and past_key_N / present_key_N (ONNX
 * Runtime): what follows the word is the same on both sides.
 */
#include "runtime/llm/inputs.h"

#include <stddef.h>
#include <string.h>

static const struct {
  const char *name;
  int32_t rank;
} input_table[] = {[TNI_INPUT_IDS] = {"input_ids", 2},
                   [TNI_INPUT_MASK] = {"attention_mask", 2},
                   [TNI_INPUT_TYPES] = {"token_type_ids", 2},
                   [TNI_INPUT_POSITIONS] = {"position_ids", 2},
                   [TNI_INPUT_CACHE_POSITION] = {"cache_position", 1},
                   [TNI_INPUT_USE_CACHE] = {"use_cache_branch", 1},
                   [TNI_INPUT_SOURCE_MASK] = {"encoder_attention_mask", 2}};
enum { INPUT_TABLE = sizeof input_table / sizeof *input_table };

/* What follows the longest of the words that name starts with; NULL: none. */
static const char *rest_after(const char *name, const char *const *words) {
  for (; *words; words++) {
    size_t n = strlen(*words);
    if (strncmp(name, *words, n) == 0) return name + n;
  }
  return NULL;
}

const char *tni_input_past(const char *name) {
  static const char *const words[] = {"past_key_values", "past", NULL};
  return rest_after(name, words);
}

const char *tni_output_present(const char *name) {
  static const char *const words[] = {"present_key_values", "present", NULL};
  return rest_after(name, words);
}

tni_input tni_input_named(const char *name) {
  if (tni_input_past(name)) return strstr(name, ".encoder.") ? TNI_INPUT_SOURCE : TNI_INPUT_PAST;
  for (int i = 0; i < INPUT_TABLE; i++)
    if (input_table[i].name && strcmp(name, input_table[i].name) == 0) return (tni_input)i;
  return TNI_INPUT_OTHER;
}

int32_t tni_input_rank(tni_input what) { return (int)what < INPUT_TABLE ? input_table[what].rank : 0; }
