/* SPDX-License-Identifier: Apache-2.0
 *
 * What a model's file says of tensors in blocks of channels (com.microsoft.nchwc), which ONNX Runtime writes for the
 * machine that it ran on: how many channels are in a block, and how many a value has.
 *
 * A filter [O, I, h, w] and a bias [O] have O rounded up to whole blocks, with zeros. Of I channels that are fewer than
 * a block, a Conv reads a plain tensor or one channel each (depthwise); otherwise I is rounded up too. Source:
 * onnxruntime/core/optimizer/nchwc_transformer.cc, mlas/lib/reorder.cpp.
 */
#ifndef TENON_ONNX_WIRE_NCHWC_H
#define TENON_ONNX_WIRE_NCHWC_H

#include "onnx.pb-c.h"
#include "runtime/base/base.h"

#define TNI_NCHWC "com.microsoft.nchwc"

typedef struct tni_nchwc tni_nchwc;
/* Of a model's main graph, on arena, which must outlive it, as must g. NULL: memory is short. */
tni_nchwc *tni_nchwc_look(const Onnx__GraphProto *g, tni_arena *arena);
void tni_nchwc_finish(tni_nchwc *b);
/* Channels in a block, 8 or 16, as shapes tell it; 0: they do not. *both: one tells 8, another 16. */
int64_t tni_nchwc_told(const tni_nchwc *b, bool *both);
/* Channels of that value, as the rewritten graph has them, with so many in a block: padding is left out where nobody
 * but a ReorderOutput reads it, and where ReorderInput would make it for nobody but Convs. -1: not known. */
int64_t tni_nchwc_channels(const tni_nchwc *b, const char *name, int64_t block);

#endif
