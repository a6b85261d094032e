// SPDX-License-Identifier: Apache-2.0
__kernel void gather(ARG(table), ARG(ids), ARG(y), int rows, int D, int V, int y_pitch) {
  const int d = get_global_id(0), r = get_global_id(1);
  if (d >= D || r >= rows) return;
  long id = LD(T_I, AT(T_I, ids, ids_o), r);
  if (id < 0) id += V;
  const float v = id >= 0 && id < V ? LD(T_T, AT(T_T, table, table_o), id * D + d) : 0.0f;
  ST(T_Y, v, AT(T_Y, y, y_o), (size_t)r * y_pitch + d);
}
