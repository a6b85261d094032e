/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices to look like. Strings and limits as public reports of such devices give them: Adreno 740 (llama.cpp and
 * CodeLinaro logs; base alignment 128 bytes, image rows 64 pixels), Mali-G715 (r46p0 reports, Arm's GPU datasheet).
 * Every device name ends in "(layer)", so that a test can tell that it did not run on the driver underneath.
 */
#include "layer.h"

#define BOTH                                                                                             \
  "cl_khr_byte_addressable_store cl_khr_global_int32_base_atomics cl_khr_global_int32_extended_atomics " \
  "cl_khr_local_int32_base_atomics cl_khr_local_int32_extended_atomics cl_khr_3d_image_writes "          \
  "cl_khr_fp16 cl_khr_image2d_from_buffer cl_khr_subgroups cl_khr_integer_dot_product "

const layer_profile layer_profiles[] = {
    {.name = "plain", .device = "Plain device (layer)"},
    {.name = "adreno",
     .device = "QUALCOMM Adreno(TM) 740 (layer)",
     .vendor = "QUALCOMM",
     .version = "OpenCL 3.0 Adreno(TM) 740",
     .driver = "OpenCL 3.0 QUALCOMM build: commit unknown Compiler E031.41.03.36",
     .c_version = "OpenCL C 3.0 Adreno(TM) 740",
     .extensions = BOTH "cl_ext_image_from_buffer cl_ext_image_requirements_info cl_qcom_perf_hint "
                        "cl_qcom_priority_hint cl_qcom_reqd_sub_group_size cl_qcom_ext_host_ptr",
     .platform = "QUALCOMM Snapdragon(TM)",
     .platform_vendor = "QUALCOMM",
     .platform_version = "OpenCL 3.0 QUALCOMM build: commit unknown Compiler E031.41.03.36",
     .vendor_id = 0x5143,
     .align = 128,
     .pitch = 64,
     .max_alloc = UINT64_C(1) << 30,
     .max_group = 1024},
    {.name = "mali",
     .device = "Mali-G715 r1p0 (layer)",
     .vendor = "ARM",
     .version = "OpenCL 3.0 v1.r46p0-01eac0.efb116b2977735437ddb14a1ceed3db7",
     .driver = "3.0",
     .c_version = "OpenCL C 3.0 v1.r46p0-01eac0.efb116b2977735437ddb14a1ceed3db7",
     .extensions = BOTH "cl_khr_priority_hints cl_khr_create_command_queue cl_khr_subgroup_shuffle "
                        "cl_khr_subgroup_shuffle_relative cl_khr_subgroup_clustered_reduce "
                        "cl_khr_subgroup_non_uniform_arithmetic cl_khr_suggested_local_work_size "
                        "cl_arm_import_memory cl_arm_import_memory_host cl_arm_non_uniform_work_group_size "
                        "cl_arm_integer_dot_product_accumulate_int8 cl_arm_core_id cl_arm_printf",
     .platform = "ARM Platform",
     .platform_vendor = "ARM",
     .platform_version = "OpenCL 3.0 v1.r46p0-01eac0.efb116b2977735437ddb14a1ceed3db7",
     .vendor_id = 0xb8a20000u,
     .align = 128,
     .pitch = 64,
     .max_alloc = UINT64_C(1) << 30,
     .max_group = 1024,
     .local_is_global = true,
     .import_arm = true,
     .host_ptr_copies = true},
    {.name = NULL},
};
