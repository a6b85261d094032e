// SPDX-License-Identifier: Apache-2.0
// Rows of a table, four elements per item.
__kernel void mali_gather(ARG(table), ARG(ids), ARG(y), int rows, int D, int V, int y_pitch) {
  int i = 4 * get_global_id(0), row = get_global_id(1);
  if (i >= D || row >= rows) return;
  long id = LD(T_I, AT(T_I, ids, ids_o), row);
  if (id < 0) id += V;
  bool known = id >= 0 && id < V;
  size_t from = known ? (size_t)id * D + i : 0, to = (size_t)row * y_pitch + i;
  table = AT(T_T, table, table_o);
  y = AT(T_Y, y, y_o);
  if (i + 4 <= D) {
    float4 v = 0;
    if (known) v = LD4(T_T, table, from);
    ST4(T_Y, v, y, to);
    return;
  }
  for (int k = 0; i + k < D; k++) ST(T_Y, known ? LD(T_T, table, from + k) : 0.0f, y, to + k);
}
