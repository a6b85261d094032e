/* SPDX-License-Identifier: Apache-2.0
 *
 * The table for get_extension(TN_OFFLINE, 1).
 */
#ifndef TENON_NPU_INT8_OFFLINE_H
#define TENON_NPU_INT8_OFFLINE_H

#include <tenon/offline.h>

extern const tn_offline tni_npu_offline;

#endif
