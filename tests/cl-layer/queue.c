/* SPDX-License-Identifier: Apache-2.0
 *
 * What is enqueued, and what the host learns of it.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "layer.h"

enum { SLOW_NS = 5000000 };

static _Thread_local bool in_callback; /* of the driver's: it must not wait for the queue there */

bool layer_lost(void) {
  if (!atomic_load(&L.lost)) return false;
  COUNT(calls_lost, 1);
  if (!in_callback) layer_spoil();
  return true;
}

/* The kernel of lose_event is through: from the next completion on the device is gone. */
static bool dying(void) { return L.set.lose_event && atomic_load(&L.count.kernels_run) >= L.set.lose_event; }

static bool died(void) {
  if (dying()) atomic_store(&L.lost, true);
  return layer_lost();
}

static void flushed(void) {
  uint64_t n = atomic_exchange(&L.since_flush, 0), most = atomic_load(&L.count.longest_batch);
  while (n > most && !atomic_compare_exchange_weak(&L.count.longest_batch, &most, n)) continue;
}

/* A lost device does nothing any more: what the driver underneath still has to do is over before memory goes. */
static cl_int CL_API_CALL release_memory(cl_mem m) {
  cl_command_queue q = atomic_load(&L.queue);
  if (atomic_load(&L.lost) && q) L.next.clFinish(q);
  if (atomic_load(&L.lost) && L.set.late) layer_spoil_lent(m);
  return L.next.clReleaseMemObject(m);
}

static cl_int CL_API_CALL release_queue(cl_command_queue q) {
  cl_command_queue same = q;
  if (atomic_load(&L.lost)) L.next.clFinish(q);
  atomic_compare_exchange_strong(&L.queue, &same, NULL);
  return L.next.clReleaseCommandQueue(q);
}

static void command(bool blocking) {
  atomic_fetch_add(&L.since_wait, 1);
  if (!blocking) return;
  flushed();
  layer_waited();
}

static bool optimized(cl_kernel k) {
  cl_program p = NULL;
  cl_device_id d = NULL;
  char options[2048] = "";
  L.next.clGetKernelInfo(k, CL_KERNEL_PROGRAM, sizeof p, &p, NULL);
  L.next.clGetProgramInfo(p, CL_PROGRAM_DEVICES, sizeof d, &d, NULL);
  L.next.clGetProgramBuildInfo(p, d, CL_PROGRAM_BUILD_OPTIONS, sizeof options - 1, options, NULL);
  return strstr(options, "-cl-opt-disable") == NULL;
}

/* A compiler that makes something else of this kernel than stands in its source. */
static bool miscompiled(cl_kernel k) {
  char name[256] = "";
  if (!L.set.wrong[0] && !L.set.wrong_optimized[0]) return false;
  L.next.clGetKernelInfo(k, CL_KERNEL_FUNCTION_NAME, sizeof name - 1, name, NULL);
  if (L.set.wrong[0] && strstr(name, L.set.wrong)) return true;
  return L.set.wrong_optimized[0] && strstr(name, L.set.wrong_optimized) && optimized(k);
}

static cl_int CL_API_CALL run(cl_command_queue q, cl_kernel k, cl_uint dims, const size_t *offset, const size_t *global,
                              const size_t *local, cl_uint n, const cl_event *wait, cl_event *event) {
  uint64_t nth = COUNT(kernels_run, 1) + 1;
  atomic_store(&L.queue, q);
  if (L.set.lose && nth >= L.set.lose) atomic_store(&L.lost, true);
  if (layer_lost()) return LAYER_LOST;
  size_t items = 1;
  for (cl_uint i = 0; local && i < dims; i++) items *= local[i];
  if (L.set.as.max_group && items > L.set.as.max_group) return CL_INVALID_WORK_GROUP_SIZE;
  command(false);
  atomic_fetch_add(&L.since_flush, 1);
  if (miscompiled(k)) {
    const size_t group = local ? local[0] : 1,
                 less[3] = {global[0] - group, dims > 1 ? global[1] : 1, dims > 2 ? global[2] : 1};
    if (!less[0]) return L.next.clEnqueueMarkerWithWaitList(q, n, wait, event);
    return L.next.clEnqueueNDRangeKernel(q, k, dims, offset, less, local, n, wait, event);
  }
  return L.next.clEnqueueNDRangeKernel(q, k, dims, offset, global, local, n, wait, event);
}

static cl_int CL_API_CALL read_buffer(cl_command_queue q, cl_mem m, cl_bool blocking, size_t offset, size_t bytes,
                                      void *ptr, cl_uint n, const cl_event *wait, cl_event *event) {
  if (blocking ? died() : layer_lost()) return LAYER_LOST;
  COUNT(reads, 1);
  COUNT(bytes_out, bytes);
  command(blocking);
  return L.next.clEnqueueReadBuffer(q, m, blocking, offset, bytes, ptr, n, wait, event);
}

static cl_int CL_API_CALL write_buffer(cl_command_queue q, cl_mem m, cl_bool blocking, size_t offset, size_t bytes,
                                       const void *ptr, cl_uint n, const cl_event *wait, cl_event *event) {
  if (blocking ? died() : layer_lost()) return LAYER_LOST;
  COUNT(writes, 1);
  COUNT(bytes_in, bytes);
  command(blocking);
  return L.next.clEnqueueWriteBuffer(q, m, blocking, offset, bytes, ptr, n, wait, event);
}

static cl_int CL_API_CALL copy_buffer(cl_command_queue q, cl_mem from, cl_mem to, size_t from_at, size_t to_at,
                                      size_t bytes, cl_uint n, const cl_event *wait, cl_event *event) {
  if (layer_lost()) return LAYER_LOST;
  COUNT(copies, 1);
  COUNT(bytes_between, bytes);
  command(false);
  return L.next.clEnqueueCopyBuffer(q, from, to, from_at, to_at, bytes, n, wait, event);
}

static uint64_t volume(const size_t *region) { return (uint64_t)region[0] * region[1] * region[2]; }

static cl_int CL_API_CALL copy_rect(cl_command_queue q, cl_mem from, cl_mem to, const size_t *from_at,
                                    const size_t *to_at, const size_t *region, size_t from_row, size_t from_slice,
                                    size_t to_row, size_t to_slice, cl_uint n, const cl_event *wait, cl_event *event) {
  if (layer_lost()) return LAYER_LOST;
  COUNT(copies, 1);
  COUNT(bytes_between, volume(region));
  command(false);
  return L.next.clEnqueueCopyBufferRect(q, from, to, from_at, to_at, region, from_row, from_slice, to_row, to_slice, n,
                                        wait, event);
}

static cl_int CL_API_CALL read_rect(cl_command_queue q, cl_mem m, cl_bool blocking, const size_t *at,
                                    const size_t *host_at, const size_t *region, size_t row, size_t slice,
                                    size_t host_row, size_t host_slice, void *ptr, cl_uint n, const cl_event *wait,
                                    cl_event *event) {
  if (blocking ? died() : layer_lost()) return LAYER_LOST;
  COUNT(reads, 1);
  COUNT(bytes_out, volume(region));
  command(blocking);
  return L.next.clEnqueueReadBufferRect(q, m, blocking, at, host_at, region, row, slice, host_row, host_slice, ptr, n,
                                        wait, event);
}

static cl_int CL_API_CALL write_rect(cl_command_queue q, cl_mem m, cl_bool blocking, const size_t *at,
                                     const size_t *host_at, const size_t *region, size_t row, size_t slice,
                                     size_t host_row, size_t host_slice, const void *ptr, cl_uint n,
                                     const cl_event *wait, cl_event *event) {
  if (blocking ? died() : layer_lost()) return LAYER_LOST;
  COUNT(writes, 1);
  COUNT(bytes_in, volume(region));
  command(blocking);
  return L.next.clEnqueueWriteBufferRect(q, m, blocking, at, host_at, region, row, slice, host_row, host_slice, ptr, n,
                                         wait, event);
}

static cl_int CL_API_CALL fill(cl_command_queue q, cl_mem m, const void *pattern, size_t pattern_bytes, size_t offset,
                               size_t bytes, cl_uint n, const cl_event *wait, cl_event *event) {
  if (layer_lost()) return LAYER_LOST;
  COUNT(fills, 1);
  command(false);
  return L.next.clEnqueueFillBuffer(q, m, pattern, pattern_bytes, offset, bytes, n, wait, event);
}

static cl_int CL_API_CALL marker(cl_command_queue q, cl_uint n, const cl_event *wait, cl_event *event) {
  return layer_lost() ? LAYER_LOST : L.next.clEnqueueMarkerWithWaitList(q, n, wait, event);
}

static cl_int CL_API_CALL barrier(cl_command_queue q, cl_uint n, const cl_event *wait, cl_event *event) {
  return layer_lost() ? LAYER_LOST : L.next.clEnqueueBarrierWithWaitList(q, n, wait, event);
}

static cl_int CL_API_CALL flush(cl_command_queue q) {
  if (layer_lost()) return LAYER_LOST;
  COUNT(flushes, 1);
  flushed();
  return L.next.clFlush(q);
}

static cl_int CL_API_CALL finish(cl_command_queue q) {
  if (died()) return LAYER_LOST;
  COUNT(finishes, 1);
  flushed();
  layer_waited();
  return L.next.clFinish(q);
}

static cl_int CL_API_CALL wait_for(cl_uint n, const cl_event *events) {
  if (died()) return CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
  flushed();
  layer_waited();
  return L.next.clWaitForEvents(n, events);
}

static cl_int CL_API_CALL event_info(cl_event e, cl_event_info what, size_t size, void *value, size_t *ret) {
  COUNT(polls, 1);
  if (what == CL_EVENT_COMMAND_EXECUTION_STATUS && (dying() || atomic_load(&L.lost))) {
    if (died() && value && size >= sizeof(cl_int)) *(cl_int *)value = LAYER_LOST;
    if (ret) *ret = sizeof(cl_int);
    return CL_SUCCESS;
  }
  return L.next.clGetEventInfo(e, what, size, value, ret);
}

typedef void(CL_CALLBACK *event_fn)(cl_event, cl_int, void *);
typedef struct late {
  event_fn fn;
  void *user;
  cl_event event;
  cl_int status;
} late;

static void *sleep_and_tell(void *arg) {
  late *l = arg;
  nanosleep(&(struct timespec){.tv_nsec = SLOW_NS}, NULL);
  l->fn(l->event, l->status, l->user);
  free(l); /* the event is kept: behind the callback the program may have ended and the driver be gone */
  return NULL;
}

static void CL_CALLBACK tell(cl_event e, cl_int status, void *user) {
  late *l = user;
  pthread_t thread;
  in_callback = true;
  l->status = died() ? LAYER_LOST : status;
  in_callback = false;
  l->event = e;
  if (L.set.slow_callback) {
    L.next.clRetainEvent(e);
    if (!pthread_create(&thread, NULL, sleep_and_tell, l)) {
      pthread_detach(thread);
      return;
    }
    L.next.clReleaseEvent(e);
  }
  l->fn(e, l->status, l->user);
  free(l);
}

static cl_int CL_API_CALL set_callback(cl_event e, cl_int type, event_fn fn, void *user) {
  if (layer_lost()) return LAYER_LOST;
  if (type == CL_COMPLETE) layer_waited();
  if (L.set.drop_callback) return CL_SUCCESS;
  late *l = malloc(sizeof *l);
  if (!l) return CL_OUT_OF_HOST_MEMORY;
  *l = (late){.fn = fn, .user = user};
  cl_int st = L.next.clSetEventCallback(e, type, tell, l);
  if (st != CL_SUCCESS) free(l);
  return st;
}

void layer_hook_queue(cl_icd_dispatch *t) {
  t->clReleaseMemObject = release_memory;
  t->clReleaseCommandQueue = release_queue;
  t->clEnqueueNDRangeKernel = run;
  t->clEnqueueReadBuffer = read_buffer;
  t->clEnqueueWriteBuffer = write_buffer;
  t->clEnqueueCopyBuffer = copy_buffer;
  t->clEnqueueCopyBufferRect = copy_rect;
  t->clEnqueueReadBufferRect = read_rect;
  t->clEnqueueWriteBufferRect = write_rect;
  t->clEnqueueFillBuffer = fill;
  t->clEnqueueMarkerWithWaitList = marker;
  t->clEnqueueBarrierWithWaitList = barrier;
  t->clFlush = flush;
  t->clFinish = finish;
  t->clWaitForEvents = wait_for;
  t->clGetEventInfo = event_info;
  t->clSetEventCallback = set_callback;
}
