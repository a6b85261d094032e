/* SPDX-License-Identifier: Apache-2.0
 *
 * Private memory of importing a single-file model of 1 GiB. The file is made sparse: only the messages around the
 * payloads are written, the payloads are holes.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "suite.h"

static long anonymous_kib(void) {
  FILE *f = fopen("/proc/self/status", "r");
  char line[256];
  long kib = -1;
  while (f && fgets(line, sizeof line, f))
    if (sscanf(line, "RssAnon: %ld", &kib) == 1) break;
  if (f) fclose(f);
  return kib;
}

static size_t varint_bytes(uint64_t v) {
  size_t n = 1;
  for (; v > 0x7f; v >>= 7) n++;
  return n;
}

/* The head of a tensor whose raw_data of `bytes` follows; field G_INIT of a graph. */
static wbuf initializer_head(const char *name, const char *dims, uint64_t bytes) {
  wbuf t = onnx_tensor(name, TN_DT_F32, dims), out = {0};
  wb_varint(&t, T_RAW << 3 | 2);
  wb_varint(&t, bytes);
  wb_varint(&out, G_INIT << 3 | 2);
  wb_varint(&out, t.n + bytes);
  wb_raw(&out, t.p, t.n);
  wb_free(&t);
  return out;
}

/* n MatMul nodes with weights of [rows, 1024] f32. false: the file cannot be made. */
static bool write_sparse(int fd, int n, int rows) {
  uint64_t payload = (uint64_t)rows * 4096, size = 0, at;
  char dims[32], name[16];
  snprintf(dims, sizeof dims, "%d,1024", rows);
  wbuf tail = {0}, head = {0}, *heads = calloc((size_t)n, sizeof *heads);
  if (!heads) return false;
  for (int i = 0; i < n; i++) {
    snprintf(name, sizeof name, "w%d", i);
    heads[i] = initializer_head(name, dims, payload);
    size += heads[i].n + payload;
    char in[32], out[16];
    snprintf(in, sizeof in, "x,w%d", i);
    snprintf(out, sizeof out, "y%d", i);
    wb_msg(&tail, G_NODE, onnx_node("MatMul", out, in, out));
  }
  wb_msg(&tail, G_INPUT, onnx_value("x", TN_DT_F32, "n,k"));
  wb_msg(&tail, G_OUTPUT, onnx_value("y0", TN_DT_F32, NULL));
  size += tail.n;
  wb_int(&head, M_IR, 8);
  wb_msg(&head, M_OPSET, onnx_opset("", 17));
  wb_varint(&head, M_GRAPH << 3 | 2);
  wb_varint(&head, size);
  bool ok = pwrite(fd, head.p, head.n, 0) == (ssize_t)head.n;
  at = head.n;
  for (int i = 0; i < n; i++) {
    ok = ok && pwrite(fd, heads[i].p, heads[i].n, (off_t)at) == (ssize_t)heads[i].n;
    at += heads[i].n + payload;
    wb_free(&heads[i]);
  }
  ok = ok && pwrite(fd, tail.p, tail.n, (off_t)at) == (ssize_t)tail.n;
  wb_free(&tail);
  wb_free(&head);
  free(heads);
  return ok && varint_bytes(size) == 5;
}

static void measure(int n, int rows, long limit_kib) {
  char path[] = "/tmp/tenon-big-XXXXXX";
  int fd = mkstemp(path);
  CU_ASSERT_FATAL(fd >= 0);
  bool made = write_sparse(fd, n, rows);
  close(fd);
  CU_ASSERT(made);
  long before = anonymous_kib();
  tni_model *m = NULL;
  tn_error e;
  tni_error_init(&e);
  tn_status st = made ? tni_import_file(path, NULL, NULL, &m, &e) : TN_E_IO;
  CU_ASSERT_EQUAL(st, TN_OK);
  if (st == TN_OK) {
    long grown = anonymous_kib() - before;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < m->graph->n_values; i++) {
      const tni_value *v = m->graph->values[i];
      if (!v->tensor) continue;
      bytes += v->tensor->bytes;
      CU_ASSERT_PTR_EQUAL(v->origin.file, m->paths[0]);
      const uint8_t *at = (const uint8_t *)m->files[0].data + v->origin.offset;
      CU_ASSERT(v->tensor->data == at || (uintptr_t)at % 4 != 0);
    }
    CU_ASSERT_EQUAL(bytes, (uint64_t)n * (uint64_t)rows * 4096);
    CU_ASSERT(bytes >= UINT64_C(1) << 30);
    CU_ASSERT(grown < limit_kib);
    printf("\n  %d tensors, %.2f GiB: %ld KiB of private memory ", n, (double)bytes / (1 << 30), grown);
    tni_model_destroy(m);
  } else {
    printf("\n  %s\n", e.message);
  }
  unlink(path);
}

static void test_large_tensors(void) { measure(16, 16384, 4096); }
/* 2,100 tensors of 512 KiB, three of four of them misaligned: copies end at their limit. */
static void test_many_tensors(void) { measure(2100, 128, 32768); }

int suite_memory(void) {
  if (anonymous_kib() < 0) {
    printf("skipped: no RssAnon in /proc/self/status\n");
    return 0;
  }
  CU_pSuite s = CU_add_suite("onnx memory", NULL, NULL);
  return !s || !CU_add_test(s, "1 GiB in large tensors", test_large_tensors) ||
         !CU_add_test(s, "1 GiB in small tensors", test_many_tensors);
}
