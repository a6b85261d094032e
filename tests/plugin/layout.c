/* SPDX-License-Identifier: Apache-2.0
 *
 * Where every field of every struct of the ABI lies in version 1, and where 1.0 ended; what 1.1 added. What stands here does not move; new
 * fields are added at the end. x86-64 and aarch64 alike.
 */
#include <tenon/offline.h>
#include <tenon/plugin.h>
#include <tenon/power.h>

#define AT(type, field, offset) _Static_assert(offsetof(type, field) == (offset), #type "." #field)
#define ENDS(type, field, bytes) _Static_assert(TN_UPTO(type, field) <= (bytes) && sizeof(type) >= (bytes), #type)

/* clang-format off */
AT(tn_hdr, size, 0); AT(tn_hdr, major, 4); AT(tn_hdr, minor, 6); ENDS(tn_hdr, minor, 8);
AT(tn_error, h, 0); AT(tn_error, code, 8); AT(tn_error, vendor_code, 12); AT(tn_error, node, 16);
AT(tn_error, task, 20); AT(tn_error, message, 24); AT(tn_error, where, 280); ENDS(tn_error, where, 408);
AT(tn_dims, h, 0); AT(tn_dims, v, 8); AT(tn_dims, n, 16); AT(tn_dims, reserved, 20); ENDS(tn_dims, reserved, 24);
AT(tn_times, h, 0); AT(tn_times, queued, 8); AT(tn_times, start, 16); AT(tn_times, end, 24); AT(tn_times, bytes, 32);
AT(tn_times, clock, 40); AT(tn_times, reserved, 44); ENDS(tn_times, reserved, 48);
AT(tn_interval, first, 0); AT(tn_interval, last, 8); AT(tn_interval, bytes, 16); AT(tn_interval, align, 24);
AT(tn_interval, offset, 32); ENDS(tn_interval, offset, 40);
AT(tn_run, h, 0); AT(tn_run, ctx, 8); AT(tn_run, n_workers, 16); AT(tn_run, step, 20); AT(tn_run, parallel_for, 24);
AT(tn_run, cancelled, 32); ENDS(tn_run, cancelled, 40);
AT(tn_host, h, 0); AT(tn_host, ctx, 8); AT(tn_host, max_workers, 16); AT(tn_host, flags, 20); AT(tn_host, alloc, 24);
AT(tn_host, free, 32); AT(tn_host, log, 40); AT(tn_host, now, 48); AT(tn_host, name_id, 56); AT(tn_host, span, 64);
AT(tn_host, option, 72); AT(tn_host, resource, 80); AT(tn_host, cache_get, 88); AT(tn_host, cache_put, 96);
AT(tn_host, eval, 104); AT(tn_host, range, 112); AT(tn_host, divides, 120); AT(tn_host, order, 128);
AT(tn_host, offsets, 136); AT(tn_host, done, 144); AT(tn_host, get_extension, 152); AT(tn_host, symbols, 160);
AT(tn_host, cancelled, 168); ENDS(tn_host, cancelled, 176);
AT(tn_numerics, h, 0); AT(tn_numerics, act_dtype, 8); AT(tn_numerics, act_group, 12); AT(tn_numerics, act_scheme, 16);
AT(tn_numerics, act_round, 20); AT(tn_numerics, act_max, 24); AT(tn_numerics, acc_inner, 28);
AT(tn_numerics, acc_outer, 32); AT(tn_numerics, scale_dtype, 36); AT(tn_numerics, denormals, 40);
AT(tn_numerics, nan, 44); AT(tn_numerics, finite_max, 48); AT(tn_numerics, act_run, 56);
AT(tn_numerics, act_scale, 60); ENDS(tn_numerics, act_scale, 64); AT(tn_numerics, avg_depth, 64);
AT(tn_numerics, avg_unit, 68); AT(tn_numerics, acc_group, 72); ENDS(tn_numerics, reserved, 80);
AT(tn_quant, h, 0); AT(tn_quant, bits, 8); AT(tn_quant, group, 12); AT(tn_quant, scheme, 16);
AT(tn_quant, scale_dtype, 20); AT(tn_quant, codes, 24); AT(tn_quant, scales, 32); AT(tn_quant, zeros, 40);
AT(tn_quant, ctx, 48); AT(tn_quant, grid, 56); AT(tn_quant, zero_kind, 64);
ENDS(tn_quant, reserved, 72);
AT(tn_stats, h, 0); AT(tn_stats, absmax, 8); AT(tn_stats, p999, 12); AT(tn_stats, n, 16); AT(tn_stats, reserved, 20);
AT(tn_stats, ch_over, 24); AT(tn_stats, ch_mean, 32); AT(tn_stats, ch_weight, 40); AT(tn_stats, rows, 48);
ENDS(tn_stats, rows, 56);
AT(tn_weight, h, 0); AT(tn_weight, ctx, 8); AT(tn_weight, N, 16); AT(tn_weight, K, 24); AT(tn_weight, dtype, 32);
AT(tn_weight, flags, 36); AT(tn_weight, raw, 40); AT(tn_weight, quant, 48); AT(tn_weight, x, 56);
AT(tn_weight, rows, 64); AT(tn_weight, hash, 72); ENDS(tn_weight, hash, 104);
AT(tn_blob, h, 0); AT(tn_blob, ctx, 8); AT(tn_blob, format, 16); AT(tn_blob, N, 24); AT(tn_blob, K, 32);
AT(tn_blob, bytes, 40); AT(tn_blob, ptr, 48); AT(tn_blob, params, 56); AT(tn_blob, n_params, 64);
AT(tn_blob, reserved, 68); AT(tn_blob, read, 72); ENDS(tn_blob, read, 80);
AT(tn_pack_size, bytes, 0); AT(tn_pack_size, align, 8); AT(tn_pack_size, row_unit, 12);
ENDS(tn_pack_size, row_unit, 16);
AT(tn_format, h, 0); AT(tn_format, name, 8); AT(tn_format, version, 16); AT(tn_format, bits, 20);
AT(tn_format, group, 24); AT(tn_format, flags, 28); AT(tn_format, bits_per_weight, 32); AT(tn_format, w_err, 36);
AT(tn_format, x_err, 40); AT(tn_format, reserved, 44); AT(tn_format, numerics, 48); AT(tn_format, numerics_of, 56);
AT(tn_format, size, 64); AT(tn_format, begin, 72); AT(tn_format, rows, 80); AT(tn_format, end, 88);
AT(tn_format, unpack, 96); ENDS(tn_format, unpack, 104);
AT(tn_symbol, h, 0); AT(tn_symbol, name, 8); AT(tn_symbol, lo, 16); AT(tn_symbol, hi, 24); AT(tn_symbol, flags, 32);
AT(tn_symbol, reserved, 36); ENDS(tn_symbol, reserved, 40);
AT(tn_attr, h, 0); AT(tn_attr, type, 8); AT(tn_attr, word, 12); AT(tn_attr, n, 16); AT(tn_attr, u, 24);
ENDS(tn_attr, u, 32);
AT(tn_state, h, 0); AT(tn_state, axis, 8); AT(tn_state, flags, 12); AT(tn_state, capacity, 16); AT(tn_state, pos, 24);
AT(tn_state, valid, 28); AT(tn_state, heads, 32); ENDS(tn_state, heads, 40);
AT(tn_value, h, 0); AT(tn_value, kind, 8); AT(tn_value, dtype, 12); AT(tn_value, rank, 16); AT(tn_value, n_uses, 20);
AT(tn_value, dims, 24); AT(tn_value, uses, 32); AT(tn_value, producer, 40); AT(tn_value, origin, 44);
AT(tn_value, state, 48); AT(tn_value, data, 56); AT(tn_value, stats, 64); AT(tn_value, name, 72);
ENDS(tn_value, name, 80);
AT(tn_node, h, 0); AT(tn_node, op, 8); AT(tn_node, n_in, 12); AT(tn_node, n_out, 14); AT(tn_node, n_attr, 16);
AT(tn_node, reserved, 20); AT(tn_node, in, 24); AT(tn_node, out, 32); AT(tn_node, attr, 40); AT(tn_node, name, 48);
AT(tn_node, domain, 56); ENDS(tn_node, domain, 64);
AT(tn_graph, h, 0); AT(tn_graph, ctx, 8); AT(tn_graph, phase, 16); AT(tn_graph, n_nodes, 20);
AT(tn_graph, n_values, 24); AT(tn_graph, n_symbols, 28); AT(tn_graph, nodes, 32); AT(tn_graph, values, 40);
AT(tn_graph, symbols, 48); AT(tn_graph, hash, 56); ENDS(tn_graph, hash, 88);
AT(tn_constraint, lhs, 0); AT(tn_constraint, rel, 4); AT(tn_constraint, rhs, 8); ENDS(tn_constraint, rhs, 16);
AT(tn_layout, h, 0); AT(tn_layout, dtype, 8); AT(tn_layout, rank, 12); AT(tn_layout, order, 16);
AT(tn_layout, inner_align, 24); AT(tn_layout, pitch_align, 28); AT(tn_layout, flags, 32); AT(tn_layout, reserved, 36);
ENDS(tn_layout, reserved, 40);
AT(tn_claim, h, 0); AT(tn_claim, verdict, 8); AT(tn_claim, reason, 12); AT(tn_claim, n_constraints, 16);
AT(tn_claim, reserved, 20); AT(tn_claim, constraints, 24); AT(tn_claim, format, 32); AT(tn_claim, params, 40);
AT(tn_claim, cost_ns, 48); AT(tn_claim, macs, 56); AT(tn_claim, weight_bytes, 64); AT(tn_claim, n_params, 72);
AT(tn_claim, reserved2, 76); AT(tn_claim, text, 80); ENDS(tn_claim, text, 200);
AT(tn_claim_sink, h, 0); AT(tn_claim_sink, ctx, 8); AT(tn_claim_sink, node, 16); AT(tn_claim_sink, group, 24);
AT(tn_claim_sink, state, 32); ENDS(tn_claim_sink, state, 40);
AT(tn_subgraph, h, 0); AT(tn_subgraph, graph, 8); AT(tn_subgraph, nodes, 16); AT(tn_subgraph, group_of, 24);
AT(tn_subgraph, inputs, 32); AT(tn_subgraph, outputs, 40); AT(tn_subgraph, states, 48); AT(tn_subgraph, layouts, 56);
AT(tn_subgraph, n_nodes, 64); AT(tn_subgraph, n_inputs, 68); AT(tn_subgraph, n_outputs, 72);
AT(tn_subgraph, n_states, 76); AT(tn_subgraph, hash, 80); ENDS(tn_subgraph, hash, 112);
AT(tn_need, h, 0); AT(tn_need, format, 8); AT(tn_need, values, 16); AT(tn_need, params, 24);
AT(tn_need, n_values, 32); AT(tn_need, n_params, 36); AT(tn_need, residency, 40); AT(tn_need, flags, 44);
ENDS(tn_need, flags, 48);
AT(tn_slot, h, 0); AT(tn_slot, name, 8); AT(tn_slot, kind, 16); AT(tn_slot, engines, 20); AT(tn_slot, align, 24);
AT(tn_slot, reserved, 28); AT(tn_slot, value, 32); AT(tn_slot, need, 36); AT(tn_slot, alias, 40);
AT(tn_slot, reserved2, 44); ENDS(tn_slot, reserved2, 48);
AT(tn_use, slot, 0); AT(tn_use, access, 4); ENDS(tn_use, access, 8);
AT(tn_task, h, 0); AT(tn_task, name, 8); AT(tn_task, engine, 16); AT(tn_task, flags, 20); AT(tn_task, symbols, 24);
AT(tn_task, uses, 32); AT(tn_task, deps, 40); AT(tn_task, nodes, 48); AT(tn_task, n_uses, 56);
AT(tn_task, n_deps, 60); AT(tn_task, n_nodes, 64); AT(tn_task, reserved, 68); ENDS(tn_task, reserved, 72);
AT(tn_program_info, h, 0); AT(tn_program_info, needs, 8); AT(tn_program_info, slots, 16);
AT(tn_program_info, tasks, 24); AT(tn_program_info, n_needs, 32); AT(tn_program_info, n_slots, 36);
AT(tn_program_info, n_tasks, 40); AT(tn_program_info, reserved, 44); ENDS(tn_program_info, reserved, 48);
AT(tn_measure, h, 0); AT(tn_measure, scratch_bytes, 8); AT(tn_measure, driver_bytes, 16);
AT(tn_measure, slot_bytes, 24); AT(tn_measure, cost_ns, 32); AT(tn_measure, macs, 40);
AT(tn_measure, moved_bytes, 48); AT(tn_measure, scratch_align, 56); AT(tn_measure, reserved, 60);
ENDS(tn_measure, reserved, 64);
AT(tn_buffer, h, 0); AT(tn_buffer, device, 8); AT(tn_buffer, bytes, 16); AT(tn_buffer, flags, 24);
AT(tn_buffer, reserved, 28); ENDS(tn_buffer, reserved, 32);
AT(tn_buffer_req, h, 0); AT(tn_buffer_req, bytes, 8); AT(tn_buffer_req, offset, 16); AT(tn_buffer_req, ptr, 24);
AT(tn_buffer_req, fd, 32); AT(tn_buffer_req, kind, 36); AT(tn_buffer_req, usage, 40); AT(tn_buffer_req, flags, 44);
AT(tn_buffer_req, align, 48); AT(tn_buffer_req, reserved, 52); ENDS(tn_buffer_req, reserved, 56);
AT(tn_view, h, 0); AT(tn_view, buffer, 8); AT(tn_view, ptr, 16); AT(tn_view, offset, 24); AT(tn_view, bytes, 32);
AT(tn_view, dims, 40); AT(tn_view, strides, 48); AT(tn_view, dtype, 56); AT(tn_view, rank, 60);
ENDS(tn_view, rank, 64);
AT(tn_item, h, 0); AT(tn_item, plan, 8); AT(tn_item, args, 16); AT(tn_item, src, 24); AT(tn_item, dst, 32);
AT(tn_item, ticket, 40); AT(tn_item, ready, 48); ENDS(tn_item, ready, 56);
AT(tn_option, h, 0); AT(tn_option, key, 8); AT(tn_option, help, 16); AT(tn_option, dflt, 24); AT(tn_option, lo, 32);
AT(tn_option, hi, 40); AT(tn_option, type, 48); AT(tn_option, reserved, 52); AT(tn_option, choices, 56);
ENDS(tn_option, choices, 64);
AT(tn_clock, h, 0); AT(tn_clock, name, 8); AT(tn_clock, kind, 16); AT(tn_clock, reserved, 20);
AT(tn_clock, cpu_ns_per_mac, 24); AT(tn_clock, cpu_ns_per_byte, 32); ENDS(tn_clock, cpu_ns_per_byte, 40);
AT(tn_engine, h, 0); AT(tn_engine, name, 8); AT(tn_engine, flags, 16); AT(tn_engine, depth, 20);
ENDS(tn_engine, depth, 24);
AT(tn_caps, h, 0); AT(tn_caps, name, 8); AT(tn_caps, driver, 16); AT(tn_caps, key, 24); AT(tn_caps, engines, 56);
AT(tn_caps, clock, 64); AT(tn_caps, n_engines, 72); AT(tn_caps, flags, 76); AT(tn_caps, import_kinds, 80);
AT(tn_caps, export_kinds, 84); AT(tn_caps, align, 88); AT(tn_caps, sub_align, 92); AT(tn_caps, import_align, 96);
AT(tn_caps, image_pitch_px, 100); AT(tn_caps, image_base_px, 104); AT(tn_caps, image_max_px, 108);
AT(tn_caps, dtypes, 112); AT(tn_caps, memory_bytes, 120); AT(tn_caps, max_buffer_bytes, 128);
AT(tn_caps, window_bytes, 136); ENDS(tn_caps, window_bytes, 144);
AT(tn_device, h, 0); AT(tn_device, caps, 8); AT(tn_device, claim, 16); AT(tn_device, lower, 24);
AT(tn_device, info, 32); AT(tn_device, measure, 40); AT(tn_device, set, 48); AT(tn_device, release, 56);
AT(tn_device, bind, 64); AT(tn_device, unbind, 72); AT(tn_device, args, 80); AT(tn_device, args_set, 88);
AT(tn_device, args_free, 96); AT(tn_device, run, 104); AT(tn_device, submit, 112); AT(tn_device, create, 120);
AT(tn_device, share, 128); AT(tn_device, destroy, 136); AT(tn_device, map, 144); AT(tn_device, unmap, 152);
ENDS(tn_device, unmap, 160);
AT(tn_plugin, h, 0); AT(tn_plugin, name, 8); AT(tn_plugin, version, 16); AT(tn_plugin, build_id, 24);
AT(tn_plugin, options, 32); AT(tn_plugin, formats, 40); AT(tn_plugin, n_options, 48); AT(tn_plugin, n_formats, 52);
AT(tn_plugin, enumerate, 56); AT(tn_plugin, open, 64); AT(tn_plugin, close, 72); AT(tn_plugin, shutdown, 80);
AT(tn_plugin, get_extension, 88); AT(tn_plugin, flags, 96); AT(tn_plugin, reserved, 100);
ENDS(tn_plugin, reserved, 104);
AT(tn_negotiate, h, 0); AT(tn_negotiate, host_min, 8); AT(tn_negotiate, host_max, 10);
AT(tn_negotiate, plugin_min, 12); AT(tn_negotiate, plugin_max, 14); AT(tn_negotiate, minor, 16);
AT(tn_negotiate, reserved, 18); AT(tn_negotiate, name, 24); AT(tn_negotiate, version, 56);
AT(tn_negotiate, message, 88); ENDS(tn_negotiate, message, 216);
AT(tn_static_plugin, h, 0); AT(tn_static_plugin, name, 8); AT(tn_static_plugin, manifest, 16);
AT(tn_static_plugin, entry, 24); ENDS(tn_static_plugin, entry, 32);
/* 1.1 */
AT(tn_quant, flags, 72); AT(tn_quant, n_levels, 76); AT(tn_quant, levels, 80); AT(tn_grid, h, 0);
AT(tn_grid, kind, 8); AT(tn_grid, flags, 12); AT(tn_grid, n_codes, 16); AT(tn_grid, group, 20);
AT(tn_grid, scale_dtype, 24); AT(tn_grid, scale_unit, 28); AT(tn_grid, zero_kind, 32); AT(tn_grid, zero, 36);
AT(tn_grid, level_dtype, 40); AT(tn_grid, reserved, 44); AT(tn_grid, vec, 48); AT(tn_grid, n_steps, 52);
AT(tn_grid, levels, 56); AT(tn_grid, steps, 64); ENDS(tn_grid, steps, 72); AT(tn_quant, vec, 88);
AT(tn_quant, n_steps, 92); AT(tn_quant, steps, 96); AT(tn_quant, stepped, 104); ENDS(tn_quant, stepped, 112);
AT(tn_section, offset, 0); AT(tn_section, bytes, 8); AT(tn_section, align, 16); AT(tn_section, reserved, 20); AT(tn_format, grid, 104); AT(tn_format, sections, 112);
AT(tn_attr, name, 32); AT(tn_node, type, 64); AT(tn_custom_op, h, 0); AT(tn_custom_op, domain, 8);
AT(tn_custom_op, type, 16); AT(tn_custom_op, since, 24); AT(tn_custom_op, until, 28); AT(tn_custom_op, shape, 32);
AT(tn_value_set, v, 0); AT(tn_value_set, n, 8); AT(tn_value_set, reserved, 12); AT(tn_claim, sets, 200);
AT(tn_claim, n_sets, 208); AT(tn_claim, reserved3, 212); AT(tn_need, section, 48); AT(tn_need, reserved, 52);
AT(tn_buffer_req, modifier, 56); AT(tn_fence, h, 0); AT(tn_fence, kind, 8); AT(tn_fence, reserved, 12);
AT(tn_fence, word, 16); AT(tn_fence, value, 24); AT(tn_item, deadline, 56); AT(tn_item, priority, 64);
AT(tn_item, n_waits, 68); AT(tn_item, waits, 72); AT(tn_item, signal, 80); AT(tn_caps, wait_fences, 144);
AT(tn_caps, signal_fences, 148); AT(tn_device, cancel, 160); AT(tn_device, abandon, 168); AT(tn_plugin, ops, 104);
AT(tn_plugin, n_ops, 112); AT(tn_plugin, reserved2, 116);
AT(tn_offline, h, 0); AT(tn_offline, set, 8); AT(tn_offline, compile, 16); ENDS(tn_offline, compile, 24);
AT(tn_power, h, 0); AT(tn_power, vote, 8); ENDS(tn_power, vote, 16);
/* clang-format on */
_Static_assert(TN_ACT_NONE == 0 && TN_ACT_ABSMAX == 1 && TN_ACT_RUNSUM == 2 && TN_ACT_STATIC == 3, "schemes");
_Static_assert(TN_POWER_NONE == 0 && TN_POWER_SAVE == 1 && TN_POWER_BALANCED == 2 && TN_POWER_SUSTAINED == 3 &&
                   TN_POWER_BURST == 4, "votes");
_Static_assert(TN_STATE_CIRCULAR == 1 && TN_LAYOUT_CIRCULAR == 1, "rings");
#undef AT
#undef ENDS
