/* SPDX-License-Identifier: Apache-2.0
 *
 * The layer by itself, with a small OpenCL program. A process has one layer, so each case is this program again, with
 * the case's name as argument and its words in TENON_CL_LAYER. OCL_ICD_VENDORS and OPENCL_LAYERS come from meson.
 */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <CL/cl_ext.h>
#include <CUnit/Basic.h>
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { N = 1024, BYTES = N * 4 };

static const char *self;

/* In a case: says what is wrong and leaves. */
#define NEED(cond)                                               \
  do {                                                           \
    if (!(cond)) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond); \
      _exit(1);                                                  \
    }                                                            \
  } while (0)

static uint64_t counter(const char *name) {
  static uint64_t (*fn)(const char *);
  if (!fn) {
    void *layer = dlopen(getenv("OPENCL_LAYERS"), RTLD_NOW | RTLD_NOLOAD);
    NEED(layer);
    *(void **)&fn = dlsym(layer, "tenon_cl_layer_counter");
    NEED(fn);
  }
  uint64_t v = fn(name);
  NEED(v != UINT64_MAX);
  return v;
}

typedef struct rig {
  cl_platform_id platform;
  cl_device_id device;
  cl_context context;
  cl_command_queue queue;
  cl_program program;
  cl_kernel kernel;
} rig;

static rig device(void) {
  rig r = {NULL, NULL, NULL, NULL, NULL, NULL};
  NEED(clGetPlatformIDs(1, &r.platform, NULL) == CL_SUCCESS);
  NEED(clGetDeviceIDs(r.platform, CL_DEVICE_TYPE_ALL, 1, &r.device, NULL) == CL_SUCCESS);
  return r;
}

static rig queue(void) {
  cl_int st;
  rig r = device();
  r.context = clCreateContext(NULL, 1, &r.device, NULL, NULL, &st);
  NEED(r.context && st == CL_SUCCESS);
  r.queue = clCreateCommandQueueWithProperties(r.context, r.device, NULL, &st);
  NEED(r.queue && st == CL_SUCCESS);
  return r;
}

/* x[i] += 1 */
static const char *source = "kernel void increment(global int *x) { x[get_global_id(0)] += 1; }";

static rig kernel(void) {
  cl_int st;
  rig r = queue();
  r.program = clCreateProgramWithSource(r.context, 1, &source, NULL, &st);
  NEED(st == CL_SUCCESS && clBuildProgram(r.program, 1, &r.device, "", NULL, NULL) == CL_SUCCESS);
  r.kernel = clCreateKernel(r.program, "increment", &st);
  NEED(st == CL_SUCCESS);
  return r;
}

static void done(rig *r) {
  if (r->kernel) clReleaseKernel(r->kernel);
  if (r->program) clReleaseProgram(r->program);
  if (r->queue) clReleaseCommandQueue(r->queue);
  if (r->context) clReleaseContext(r->context);
}

static const char *text(const rig *r, cl_device_info what) {
  static char buf[8192];
  NEED(clGetDeviceInfo(r->device, what, sizeof buf, buf, NULL) == CL_SUCCESS);
  return buf;
}

static uint64_t value(const rig *r, cl_device_info what) {
  uint64_t v = 0;
  NEED(clGetDeviceInfo(r->device, what, sizeof v, &v, NULL) == CL_SUCCESS);
  return v;
}

static cl_int run_async(const rig *r, cl_mem m, cl_event *e) {
  size_t n = N;
  cl_int st = clSetKernelArg(r->kernel, 0, sizeof m, &m);
  return st == CL_SUCCESS ? clEnqueueNDRangeKernel(r->queue, r->kernel, 1, NULL, &n, NULL, 0, NULL, e) : st;
}

static void *map(const rig *r, cl_mem m, cl_map_flags flags) {
  cl_int st;
  void *p = clEnqueueMapBuffer(r->queue, m, CL_TRUE, flags, 0, BYTES, 0, NULL, NULL, &st);
  NEED(p && st == CL_SUCCESS);
  return p;
}

static void unmap(const rig *r, cl_mem m, void *p) {
  NEED(clEnqueueUnmapMemObject(r->queue, m, p, 0, NULL, NULL) == CL_SUCCESS);
  NEED(clFinish(r->queue) == CL_SUCCESS);
}

static void adreno(void) {
  rig r = device();
  NEED(!strcmp(text(&r, CL_DEVICE_NAME), "QUALCOMM Adreno(TM) 740 (layer)"));
  NEED(!strcmp(text(&r, CL_DEVICE_VENDOR), "QUALCOMM"));
  NEED(strstr(text(&r, CL_DRIVER_VERSION), "Compiler E031.41"));
  NEED(strstr(text(&r, CL_DEVICE_EXTENSIONS), "cl_qcom_priority_hint"));
  NEED(!strstr(text(&r, CL_DEVICE_EXTENSIONS), "cl_khr_priority_hints"));
  NEED(value(&r, CL_DEVICE_MEM_BASE_ADDR_ALIGN) == 1024);
  NEED(value(&r, CL_DEVICE_LOCAL_MEM_TYPE) == CL_LOCAL);
  NEED(value(&r, CL_DEVICE_TYPE) == CL_DEVICE_TYPE_GPU);
}

/* The extension is the device's, not the platform's (which lists everybody's). */
static void priority(void) {
  rig r = device();
  char platform[4096];
  cl_int st;
  const cl_context_properties low[] = {0x40C9, 0x40CC, 0}, wrong[] = {0x40C9, 0x40FF, 0};
  bool has = strstr(text(&r, CL_DEVICE_EXTENSIONS), "cl_qcom_priority_hint") != NULL;
  NEED(clGetPlatformInfo(r.platform, CL_PLATFORM_EXTENSIONS, sizeof platform, platform, NULL) == CL_SUCCESS);
  NEED(strstr(platform, "cl_qcom_priority_hint"));
  r.context = clCreateContext(low, 1, &r.device, NULL, NULL, &st);
  NEED(has == (r.context != NULL) && has == (st == CL_SUCCESS));
  NEED(counter("priority_hints") == has && counter("priority_errors") == !has);
  NEED(!clCreateContext(wrong, 1, &r.device, NULL, NULL, &st) && st == CL_INVALID_PROPERTY);
  done(&r);
}

static void queue_priority(void) {
  rig r = queue();
  cl_int st;
  const cl_queue_properties low[] = {CL_QUEUE_PRIORITY_KHR, CL_QUEUE_PRIORITY_LOW_KHR, 0};
  bool has = strstr(text(&r, CL_DEVICE_EXTENSIONS), "cl_khr_priority_hints") != NULL;
  cl_command_queue q = clCreateCommandQueueWithProperties(r.context, r.device, low, &st);
  NEED(has == (q != NULL) && has == (st == CL_SUCCESS));
  NEED(counter("priority_hints") == has && counter("priority_errors") == !has);
  if (q) clReleaseCommandQueue(q);
  done(&r);
}

static void hidden(void) {
  rig r = queue();
  cl_int st;
  cl_image_format f = {CL_RGBA, CL_FLOAT};
  cl_image_desc d = {.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 64, .image_height = 4};
  const char *e = text(&r, CL_DEVICE_EXTENSIONS);
  NEED(!strstr(e, "fp16") && !strstr(e, "subgroup") && !strstr(e, "image") && !strstr(e, "cl_khr_integer_dot_product"));
  NEED(strstr(e, "cl_khr_byte_addressable_store"));
  NEED(!value(&r, CL_DEVICE_IMAGE_SUPPORT) && !value(&r, CL_DEVICE_HALF_FP_CONFIG));
  NEED(!clCreateImage(r.context, 0, &f, &d, NULL, &st) && st == CL_INVALID_OPERATION);
  done(&r);
}

static void limits(void) {
  rig r = kernel();
  cl_int st;
  size_t n = 2048, local = 512, most;
  cl_buffer_region off = {256, 256}, on = {4096, 256};
  NEED(value(&r, CL_DEVICE_MAX_MEM_ALLOC_SIZE) == 65536 && value(&r, CL_DEVICE_MEM_BASE_ADDR_ALIGN) == 4096 * 8);
  NEED(!clCreateBuffer(r.context, 0, 65537, NULL, &st) && st == CL_INVALID_BUFFER_SIZE);
  cl_mem m = clCreateBuffer(r.context, 0, 65536, NULL, &st), s;
  NEED(m && st == CL_SUCCESS);
  NEED(!clCreateSubBuffer(m, 0, CL_BUFFER_CREATE_TYPE_REGION, &off, &st) && st == CL_MISALIGNED_SUB_BUFFER_OFFSET);
  NEED((s = clCreateSubBuffer(m, 0, CL_BUFFER_CREATE_TYPE_REGION, &on, &st)) && st == CL_SUCCESS);
  NEED(clGetKernelWorkGroupInfo(r.kernel, r.device, CL_KERNEL_WORK_GROUP_SIZE, sizeof most, &most, NULL) == CL_SUCCESS);
  NEED(most == 256);
  NEED(clSetKernelArg(r.kernel, 0, sizeof m, &m) == CL_SUCCESS);
  st = clEnqueueNDRangeKernel(r.queue, r.kernel, 1, NULL, &n, &local, 0, NULL, NULL);
  NEED(st == CL_INVALID_WORK_GROUP_SIZE);
  clReleaseMemObject(s);
  clReleaseMemObject(m);
  done(&r);
}

/* An image over a buffer needs rows of whole pitches; the layer refuses what the driver underneath may take. */
static void pitch(void) {
  rig r = queue();
  cl_int st;
  cl_mem m = clCreateBuffer(r.context, 0, 1 << 20, NULL, &st);
  cl_image_format f = {CL_RGBA, CL_UNSIGNED_INT32};
  cl_image_desc d = {.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 64, .image_height = 4, .buffer = m};
  d.image_row_pitch = 64 * 16;
  NEED(!clCreateImage(r.context, 0, &f, &d, NULL, &st) && st == CL_INVALID_IMAGE_FORMAT_DESCRIPTOR);
  clReleaseMemObject(m);
  done(&r);
}

/* Maps are copies: each elsewhere, poisoned at unmap, brought back only if they were for writing. */
static void discrete(void) {
  rig r = kernel();
  cl_int st;
  NEED(!value(&r, CL_DEVICE_HOST_UNIFIED_MEMORY));
  cl_mem m = clCreateBuffer(r.context, CL_MEM_ALLOC_HOST_PTR, BYTES, NULL, &st);
  int *a = map(&r, m, CL_MAP_WRITE_INVALIDATE_REGION);
  NEED(a[0] == -1); /* what the program does not write is not what lay there */
  for (int i = 0; i < N; i++) a[i] = i;
  unmap(&r, m, a);
  NEED(a[0] == -1 && a[N - 1] == -1);
  NEED(run_async(&r, m, NULL) == CL_SUCCESS);
  int *b = map(&r, m, CL_MAP_READ);
  NEED(b != a && b[0] == 1 && b[N - 1] == N);
  b[5] = 77; /* read only: lost */
  unmap(&r, m, b);
  NEED(b[0] == -1);
  int *c = map(&r, m, CL_MAP_READ | CL_MAP_WRITE);
  NEED(c[5] == 6);
  unmap(&r, m, c);
  NEED(counter("bytes_shadow") == 4 * BYTES && counter("map_reads") == 2 && counter("map_writes") == 1);
  NEED(counter("bytes_map_write") == 2 * BYTES);
  clReleaseMemObject(m);
  NEED(counter("live_objects") == 0);
  done(&r);
}

/* A host pointer is read once; what the program writes there without a map does not reach the device. */
static void discrete_host_ptr(void) {
  rig r = kernel();
  cl_int st;
  int *host = aligned_alloc(4096, BYTES);
  for (int i = 0; i < N; i++) host[i] = i;
  cl_mem m = clCreateBuffer(r.context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, BYTES, host, &st);
  NEED(m && counter("bytes_shadow") == BYTES);
  host[3] = 1000;
  NEED(run_async(&r, m, NULL) == CL_SUCCESS && clFinish(r.queue) == CL_SUCCESS);
  NEED(host[3] == 1000 && host[4] == 4); /* nor back */
  int *p = map(&r, m, CL_MAP_READ);
  NEED(p == host && host[3] == 4 && host[4] == 5);
  unmap(&r, m, p);
  NEED(host[3] == -1);
  clReleaseMemObject(m);
  free(host);
  done(&r);
}

/* Mali: USE_HOST_PTR costs a copy, an import does not; a discrete device refuses to import. */
static void import(void) {
  rig r = kernel();
  cl_int st;
  typedef cl_mem(CL_API_CALL * import_fn)(cl_context, cl_mem_flags, const cl_import_properties_arm *, void *, size_t,
                                          cl_int *);
  import_fn fn;
  const cl_import_properties_arm props[] = {CL_IMPORT_TYPE_ARM, CL_IMPORT_TYPE_HOST_ARM, 0};
  *(void **)&fn = clGetExtensionFunctionAddressForPlatform(r.platform, "clImportMemoryARM");
  NEED(fn);
  int *host = aligned_alloc(4096, BYTES);
  for (int i = 0; i < N; i++) host[i] = i;
  cl_mem m = fn(r.context, CL_MEM_READ_WRITE, props, host, BYTES, &st);
  if (!value(&r, CL_DEVICE_HOST_UNIFIED_MEMORY)) {
    NEED(!m && st == CL_INVALID_OPERATION);
  } else {
    NEED(m && counter("imports") == 1 && counter("bytes_shadow") == 0 && counter("bytes_imported") == BYTES);
    NEED(run_async(&r, m, NULL) == CL_SUCCESS);
    int *p = map(&r, m, CL_MAP_READ);
    NEED(p[9] == 10);
    unmap(&r, m, p);
    clReleaseMemObject(m);
    NEED(!fn(r.context, CL_MEM_READ_WRITE, props, (char *)host + 4, 64, &st) && st == CL_INVALID_OPERATION);
    m = clCreateBuffer(r.context, CL_MEM_USE_HOST_PTR, BYTES, host, &st);
    NEED(m && counter("bytes_shadow") == BYTES);
    clReleaseMemObject(m);
  }
  free(host);
  done(&r);
}

static void fail_alloc(void) {
  rig r = queue();
  cl_int st;
  cl_mem a = clCreateBuffer(r.context, 0, 64, NULL, &st);
  NEED(a);
  NEED(!clCreateBuffer(r.context, 0, 64, NULL, &st) && st == CL_MEM_OBJECT_ALLOCATION_FAILURE);
  cl_mem c = clCreateBuffer(r.context, 0, 64, NULL, &st);
  NEED(c && counter("objects") == 3 && counter("buffers") == 2 && counter("live_objects") == 2);
  clReleaseMemObject(a);
  clReleaseMemObject(c);
  done(&r);
}

static cl_int build(const rig *r, const char *text_of, const char *log_has) {
  cl_int st;
  char log[256] = "";
  cl_program p = clCreateProgramWithSource(r->context, 1, &text_of, NULL, &st);
  NEED(p);
  st = clBuildProgram(p, 1, &r->device, "", NULL, NULL);
  if (log_has) {
    NEED(clGetProgramBuildInfo(p, r->device, CL_PROGRAM_BUILD_LOG, sizeof log, log, NULL) == CL_SUCCESS);
    NEED(strstr(log, log_has));
  }
  clReleaseProgram(p);
  return st;
}

static void fail_build(void) {
  rig r = queue();
  NEED(build(&r, source, NULL) == CL_SUCCESS);
  NEED(build(&r, "kernel void other(global int *x) { *x = 1; }", "layer: ") == CL_BUILD_PROGRAM_FAILURE);
  NEED(counter("source_builds") == 2 && counter("builds_failed") == 1);
  done(&r);
}

static void crash_build(void) {
  rig r = queue();
  build(&r, source, NULL);
}

/* A second start from the binary. */
static void binary(void) {
  rig r = kernel();
  cl_int st, one;
  size_t n = 0;
  NEED(clGetProgramInfo(r.program, CL_PROGRAM_BINARY_SIZES, sizeof n, &n, NULL) == CL_SUCCESS && n);
  unsigned char *bytes = malloc(n);
  NEED(clGetProgramInfo(r.program, CL_PROGRAM_BINARIES, sizeof bytes, &bytes, NULL) == CL_SUCCESS);
  cl_program p = clCreateProgramWithBinary(r.context, 1, &r.device, &n, (const unsigned char **)&bytes, &one, &st);
  NEED(p && clBuildProgram(p, 1, &r.device, "", NULL, NULL) == CL_SUCCESS);
  NEED(counter("source_builds") == 1 && counter("binary_builds") == 1 && counter("programs") == 2);
  clReleaseProgram(p);
  free(bytes);
  done(&r);
}

static void lose(void) {
  rig r = kernel();
  cl_int st;
  cl_mem m = clCreateBuffer(r.context, 0, BYTES, NULL, &st);
  NEED(run_async(&r, m, NULL) == CL_SUCCESS && clFinish(r.queue) == CL_SUCCESS);
  NEED(run_async(&r, m, NULL) == CL_OUT_OF_RESOURCES);
  NEED(clFinish(r.queue) == CL_OUT_OF_RESOURCES && clFlush(r.queue) == CL_OUT_OF_RESOURCES);
  NEED(!clCreateBuffer(r.context, 0, 64, NULL, &st) && st == CL_OUT_OF_RESOURCES);
  NEED(!clEnqueueMapBuffer(r.queue, m, CL_TRUE, CL_MAP_READ, 0, 64, 0, NULL, NULL, &st));
  NEED(clReleaseMemObject(m) == CL_SUCCESS && counter("calls_lost") > 4);
  done(&r);
}

/* The last work-item of a kernel that the layer spoils is left out. */
static void wrong(void) {
  const bool spoilt = !strstr(getenv("TENON_CL_LAYER"), "wrong=other"),
             plain = strstr(getenv("TENON_CL_LAYER"), "_opt") != NULL;
  for (int way = 0; way < 2; way++) {
    rig r = queue();
    cl_int st;
    r.program = clCreateProgramWithSource(r.context, 1, &source, NULL, &st);
    NEED(st == CL_SUCCESS &&
         clBuildProgram(r.program, 1, &r.device, way ? "-cl-opt-disable" : "", NULL, NULL) == CL_SUCCESS);
    r.kernel = clCreateKernel(r.program, "increment", &st);
    NEED(st == CL_SUCCESS);
    cl_mem m = clCreateBuffer(r.context, 0, BYTES, NULL, &st);
    int *x = map(&r, m, CL_MAP_WRITE);
    memset(x, 0, BYTES);
    unmap(&r, m, x);
    NEED(run_async(&r, m, NULL) == CL_SUCCESS);
    x = map(&r, m, CL_MAP_READ);
    NEED(x[0] == 1 && x[N - 2] == 1 && x[N - 1] == !(spoilt && !(way && plain)));
    unmap(&r, m, x);
    clReleaseMemObject(m);
    done(&r);
  }
}

/* Memory of a lost device is poison, and what was lent to it is written when it is given back; gone by then, the
 * process ends. */
static void lost_late(bool gone) {
  rig r = kernel();
  cl_int st;
  cl_mem m = clCreateBuffer(r.context, CL_MEM_ALLOC_HOST_PTR, BYTES, NULL, &st);
  int *own = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const int *file = mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  cl_mem lent = clCreateBuffer(r.context, CL_MEM_USE_HOST_PTR, BYTES, own, &st);
  NEED(st == CL_SUCCESS);
  cl_mem read_only = clCreateBuffer(r.context, CL_MEM_USE_HOST_PTR, BYTES, (void *)(uintptr_t)file, &st);
  NEED(st == CL_SUCCESS && own[5] == 0);
  const int *x = map(&r, m, CL_MAP_READ);
  NEED(run_async(&r, m, NULL) == CL_OUT_OF_RESOURCES);
  NEED(own[5] == -1 && own[N - 1] == -1 && x[0] == -1 && x[N - 1] == -1 && file[5] == 0);
  own[5] = 7;
  if (gone) munmap(own, BYTES);
  NEED(clReleaseMemObject(lent) == CL_SUCCESS && own[5] == -1);
  NEED(clReleaseMemObject(read_only) == CL_SUCCESS && clReleaseMemObject(m) == CL_SUCCESS);
  done(&r);
}
static void late(void) { lost_late(false); }
static void late_gone(void) { lost_late(true); }

static atomic_int told, told_status;
static void CL_CALLBACK tell(cl_event e, cl_int status, void *user) {
  (void)e, (void)user;
  atomic_store(&told_status, status);
  atomic_store(&told, 1);
}

static bool wait_told(int ms) {
  for (int i = 0; i < ms && !atomic_load(&told); i++) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  return atomic_load(&told);
}

static void lose_event(void) {
  rig r = kernel();
  cl_int st;
  cl_event e;
  cl_mem m = clCreateBuffer(r.context, 0, BYTES, NULL, &st);
  NEED(run_async(&r, m, &e) == CL_SUCCESS);
  NEED(clSetEventCallback(e, CL_COMPLETE, tell, NULL) == CL_SUCCESS);
  clFlush(r.queue); /* the callback may have come by now, and the device be lost */
  NEED(wait_told(5000) && atomic_load(&told_status) < 0);
  NEED(run_async(&r, m, NULL) == CL_OUT_OF_RESOURCES);
  clReleaseEvent(e);
  clReleaseMemObject(m);
  done(&r);
}

static bool callback_comes(void) {
  rig r = kernel();
  cl_int st;
  cl_event e;
  cl_mem m = clCreateBuffer(r.context, 0, BYTES, NULL, &st);
  NEED(run_async(&r, m, &e) == CL_SUCCESS);
  NEED(clSetEventCallback(e, CL_COMPLETE, tell, NULL) == CL_SUCCESS && clFlush(r.queue) == CL_SUCCESS);
  NEED(clFinish(r.queue) == CL_SUCCESS);
  bool at_once = atomic_load(&told), came = wait_told(300);
  NEED(!at_once || came);
  NEED(clGetEventInfo(e, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof st, &st, NULL) == CL_SUCCESS && st == CL_COMPLETE);
  NEED(counter("polls") == 1 && counter("waits") == 1);
  clReleaseEvent(e);
  clReleaseMemObject(m);
  done(&r);
  return came;
}

static void slow(void) { NEED(callback_comes()); }
static void dropped(void) { NEED(!callback_comes()); }

static void no_devices(void) {
  cl_platform_id p;
  cl_uint n = 7;
  NEED(clGetPlatformIDs(1, &p, NULL) == CL_SUCCESS);
  NEED(clGetDeviceIDs(p, CL_DEVICE_TYPE_ALL, 0, NULL, &n) == CL_DEVICE_NOT_FOUND && n == 0);
}

static void counts(void) {
  rig r = kernel();
  cl_int st;
  int *host = calloc(N, 4);
  cl_mem a = clCreateBuffer(r.context, CL_MEM_COPY_HOST_PTR, BYTES, host, &st);
  cl_mem b = clCreateBuffer(r.context, 0, BYTES, NULL, &st);
  NEED(clEnqueueWriteBuffer(r.queue, a, CL_FALSE, 0, 64, host, 0, NULL, NULL) == CL_SUCCESS);
  for (int i = 0; i < 3; i++) NEED(run_async(&r, a, NULL) == CL_SUCCESS);
  NEED(clFlush(r.queue) == CL_SUCCESS);
  NEED(run_async(&r, a, NULL) == CL_SUCCESS);
  NEED(clEnqueueCopyBuffer(r.queue, a, b, 0, 0, BYTES, 0, NULL, NULL) == CL_SUCCESS);
  NEED(clEnqueueReadBuffer(r.queue, b, CL_TRUE, 0, BYTES, host, 0, NULL, NULL) == CL_SUCCESS);
  NEED(host[0] == 4);
  NEED(counter("kernels_run") == 4 && counter("longest_batch") == 3 && counter("flushes") == 1);
  NEED(counter("waits") == 1 && counter("reads") == 1 && counter("writes") == 1 && counter("copies") == 1);
  NEED(counter("bytes_in") == BYTES + 64 && counter("bytes_between") == BYTES && counter("bytes_out") == BYTES);
  NEED(counter("bytes_shadow") == 0 && counter("live_objects") == 2);
  NEED(clFinish(r.queue) == CL_SUCCESS && counter("waits") == 1); /* nothing to wait for */
  clReleaseMemObject(a);
  clReleaseMemObject(b);
  free(host);
  done(&r);
}

static void report(void) { counts(); }
static void nothing(void) { device(); }

static const struct {
  const char *name, *words;
  void (*fn)(void);
  int exit, signal;
} cases[] = {
    {"adreno", "as=adreno", adreno, 0, 0},
    {"priority", "as=adreno", priority, 0, 0},
    {"priority absent", "as=mali", priority, 0, 0},
    {"priority hidden", "as=adreno hide=priority", priority, 0, 0},
    {"queue priority", "as=mali", queue_priority, 0, 0},
    {"queue priority absent", "as=adreno", queue_priority, 0, 0},
    {"hidden", "as=mali hide=fp16,subgroups,images,cl_khr_integer_dot_product", hidden, 0, 0},
    {"limits", "max_alloc=65536;align=4096;max_group=256", limits, 0, 0},
    {"pitch", "pitch=128", pitch, 0, 0},
    {"discrete", "discrete", discrete, 0, 0},
    {"discrete host pointer", "discrete", discrete_host_ptr, 0, 0},
    {"import", "as=mali", import, 0, 0},
    {"import discrete", "as=mali discrete", import, 0, 0},
    {"fail_alloc", "fail_alloc=2", fail_alloc, 0, 0},
    {"fail_build", "fail_build=2", fail_build, 0, 0},
    {"fail_build by name", "fail_build=other", fail_build, 0, 0},
    {"crash_build", "crash_build=increment", crash_build, 0, SIGABRT},
    {"binary", "as=adreno", binary, 0, 0},
    {"wrong", "wrong=incre", wrong, 0, 0},
    {"wrong optimized", "wrong_optimized=increment", wrong, 0, 0},
    {"wrong elsewhere", "wrong=other", wrong, 0, 0},
    {"lose", "lose=2", lose, 0, 0},
    {"lose_event", "lose_event=1", lose_event, 0, 0},
    {"lost late", "lose=1 lost=late", late, 0, 0},
    {"lent memory that went", "lose=1 lost=late", late_gone, 98, 0},
    {"slow", "callback=slow", slow, 0, 0},
    {"dropped", "callback=drop", dropped, 0, 0},
    {"no devices", "no_devices", no_devices, 0, 0},
    {"counts", "as=adreno", counts, 0, 0},
    {"report", "as=adreno", report, 0, 0},
    {"unknown word", "discreet", nothing, 97, 0},
    {"unknown key", "los=1", nothing, 97, 0},
    {"unknown device", "as=apple", nothing, 97, 0},
    {"bad number", "lose=x", nothing, 97, 0},
};

static int run_case(const char *name, const char *words) {
  char *argv[] = {(char *)(uintptr_t)self, (char *)(uintptr_t)name, NULL};
  pid_t pid;
  int status = 0;
  setenv("TENON_CL_LAYER", words, 1);
  if (posix_spawn(&pid, self, NULL, NULL, argv, environ)) return -1;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  return status;
}

static void all_cases(void) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int st = run_case(cases[i].name, cases[i].words);
    bool ok = cases[i].signal ? WIFSIGNALED(st) && WTERMSIG(st) == cases[i].signal
                              : WIFEXITED(st) && WEXITSTATUS(st) == cases[i].exit;
    if (!ok) fprintf(stderr, "case '%s': status %x\n", cases[i].name, (unsigned)st);
    CU_ASSERT_TRUE(ok);
  }
}

/* Files: the report at the end, a line per wait. */
static void files(void) {
  char report_to[64], log_to[64], words[256], line[4096];
  snprintf(report_to, sizeof report_to, "/tmp/tenon-layer-report-%d", (int)getpid());
  snprintf(log_to, sizeof log_to, "/tmp/tenon-layer-log-%d", (int)getpid());
  snprintf(words, sizeof words, "as=adreno report=%s log=%s", report_to, log_to);
  CU_ASSERT_EQUAL(run_case("report", words), 0);
  FILE *f = fopen(report_to, "r");
  bool kernels = false, bytes = false;
  while (f && fgets(line, sizeof line, f)) {
    kernels |= !strcmp(line, "kernels_run 4\n");
    bytes |= !strcmp(line, "bytes_between 4096\n");
  }
  CU_ASSERT_TRUE(kernels && bytes);
  if (f) fclose(f);
  f = fopen(log_to, "r");
  int lines = 0;
  while (f && fgets(line, sizeof line, f)) lines += strstr(line, "commands 7 ") && strstr(line, " kernels_run 4 ");
  CU_ASSERT_EQUAL(lines, 1);
  if (f) fclose(f);
  unlink(report_to);
  unlink(log_to);
}

int main(int argc, char **argv) {
  self = argv[0];
  if (!getenv("OPENCL_LAYERS") || !getenv("OCL_ICD_VENDORS")) {
    fprintf(stderr, "OPENCL_LAYERS and OCL_ICD_VENDORS are not set\n");
    return 77;
  }
  for (size_t i = 0; argc == 2 && i < sizeof cases / sizeof *cases; i++)
    if (!strcmp(argv[1], cases[i].name)) {
      cases[i].fn();
      return 0;
    }
  if (argc > 1) return 2;
  if (CU_initialize_registry() != CUE_SUCCESS) return 1;
  CU_pSuite s = CU_add_suite("cl-layer", NULL, NULL);
  if (!s || !CU_add_test(s, "cases", all_cases) || !CU_add_test(s, "files", files)) return 1;
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  unsigned failures = CU_get_number_of_failures();
  CU_cleanup_registry();
  return failures ? 1 : 0;
}
