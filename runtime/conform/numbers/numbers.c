/* SPDX-License-Identifier: Apache-2.0
 *
 * The numbers family: formats, products over them, other operators, caches, and the groups of a model.
 */
#include "runtime/conform/numbers/numbers.h"
#include "runtime/conform/numbers/num.h"

void tni_cf_numbers_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  tni_cn_format_cases(l, add, ctx);
  tni_cn_product_cases(l, add, ctx);
  tni_cn_chain_cases(l, add, ctx);
  tni_cn_op_cases(l, add, ctx);
  tni_cn_cache_cases(l, add, ctx);
  tni_cn_model_cases(l, add, ctx);
}
