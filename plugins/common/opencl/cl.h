/* SPDX-License-Identifier: Apache-2.0
 *
 * The driver's OpenCL library, opened by the plugin itself: phones have no ICD loader, and nothing here links against
 * one. A table of functions per open library; two plugins of one process have two tables.
 *
 * The list of names comes from option `libraries` ("a.so:b.so", first that opens and has the functions wins). Names with
 * a slash are paths; others go through the system's search.
 */
#ifndef TENON_COMMON_OPENCL_CL_H
#define TENON_COMMON_OPENCL_CL_H

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <CL/cl_ext.h>

#include <tenon/plugin.h>

/* What every driver has (OpenCL 1.2), then what newer ones have; the latter are NULL where missing. */
#define TNI_CL_FUNCTIONS(X)                                                                                           \
  X(GetPlatformIDs) X(GetPlatformInfo) X(GetDeviceIDs) X(GetDeviceInfo) X(CreateContext) X(ReleaseContext)             \
  X(CreateCommandQueue) X(ReleaseCommandQueue) X(CreateBuffer) X(CreateSubBuffer) X(ReleaseMemObject) X(CreateImage)   \
  X(CreateProgramWithSource) X(CreateProgramWithBinary) X(BuildProgram) X(GetProgramInfo) X(GetProgramBuildInfo)       \
  X(ReleaseProgram) X(CreateKernel) X(ReleaseKernel) X(SetKernelArg) X(GetKernelWorkGroupInfo)                         \
  X(EnqueueNDRangeKernel) X(EnqueueReadBuffer) X(EnqueueWriteBuffer) X(EnqueueCopyBuffer) X(EnqueueFillBuffer)         \
  X(EnqueueMapBuffer) X(EnqueueUnmapMemObject) X(EnqueueMarkerWithWaitList) X(WaitForEvents) X(GetEventInfo)           \
  X(SetEventCallback) X(ReleaseEvent) X(GetEventProfilingInfo) X(Flush) X(Finish)
#define TNI_CL_OPTIONAL(X) X(CreateCommandQueueWithProperties) X(GetKernelSubGroupInfo) X(GetExtensionFunctionAddressForPlatform)

typedef struct tni_cl_api {
  void *lib;
  char path[256]; /* the name that opened */
#define X(f) __typeof__(&cl##f) f;
  TNI_CL_FUNCTIONS(X)
  TNI_CL_OPTIONAL(X)
#undef X
} tni_cl_api;

/* TN_E_UNAVAILABLE: no library of the list opens; the message has the last reason of each. */
TN_MUST_CHECK tn_status tni_cl_open(const char *list, tni_cl_api *out, tn_error *err);
/* Closes the library, unless drivers are known to leave threads behind: then it stays (dlclose is not called). */
void tni_cl_close(tni_cl_api *api);
/* "CL_INVALID_VALUE", or "error -1234" in buf. */
const char *tni_cl_error(cl_int code, char buf[32]);
/* A status for a code: NO_MEMORY, DEVICE_LOST, INVALID ... */
tn_status tni_cl_status(cl_int code);
/* Sets err with the call's name and the code (vendor_code too); returns tni_cl_status. */
tn_status tni_cl_fail(tn_error *err, cl_int code, const char *where, const char *call);

#endif
