/* SPDX-License-Identifier: Apache-2.0
 *
 * The loops of one instruction set.
 */
#include "runtime/quant/loops.h"

#define TEXT_OF(isa) #isa
#define TEXT(isa) TEXT_OF(isa)

extern const tni_quant_loops TNI_QUANT_OF(tni_quant_loops, TNI_QUANT_ISA);
const tni_quant_loops TNI_QUANT_OF(tni_quant_loops, TNI_QUANT_ISA) = {TEXT(TNI_QUANT_ISA), tni_quant_fit_group,
                                                                      tni_quant_gptq, tni_quant_descend};
