# SPDX-License-Identifier: Apache-2.0
"""Random-weight hybrids of transformers as torch.onnx.export(dynamo=True) writes them, states as inputs and outputs.

    make.py OUT [NAME...]      writes OUT/NAME/model.onnx

transformers 4.57 itself takes a first prompt or one more token: its short convolutions and scans begin anew where a run has
more than one token. So the parts below stand in for those, as exporters patch them: they begin with the state that is given.
Attention, norms and projections are transformers'. The batch is 1: torch 2.9 cannot follow the strides of a symbolic batch into
a scan. Needs torch 2.9, transformers 4.57, onnx. Then
`tar --sort=name --owner=0 --group=0 --mtime=@0 -cf - -C OUT . | xz -9e >exports.tar.xz`.
"""
import pathlib
import sys

import onnx
import torch
import torch.nn.functional as F
import transformers as T
from torch._higher_order_ops.scan import scan

VOCAB, D, HEADS, KV, HEAD, PAST = 96, 32, 4, 2, 8, 3
SMALL = dict(vocab_size=VOCAB, hidden_size=D, intermediate_size=64, num_hidden_layers=2, max_position_embeddings=64, bos_token_id=1,
             eos_token_id=2, pad_token_id=0)
GROUPED = dict(SMALL, num_attention_heads=HEADS, num_key_value_heads=KV)


class States:
    """What a model takes for its cache: attention's keys and values by layer, and states of fixed size."""

    def __init__(self, states):
        self.states = dict(states)

    def update(self, key, value, layer, cache_kwargs=None):
        whole = [torch.cat([self.states[f"key_values.{layer}.{n}"], now], dim=2) for n, now in (("key", key), ("value", value))]
        self.states[f"key_values.{layer}.key"], self.states[f"key_values.{layer}.value"] = whole
        return whole

    def get_seq_length(self, layer=0):
        return next((v.shape[2] for k, v in self.states.items() if k.endswith(".key")), 0)

    @property
    def has_previous_state(self):
        return True


def causal(step, past):
    i = torch.arange(step).unsqueeze(1) + past
    return torch.where(torch.arange(step + past).unsqueeze(0) <= i, 0.0, -torch.inf)[None, None]


def short_conv(cache, name, x, conv):
    """Depthwise, causal, over x [b, c, s] and the state before it."""
    whole = torch.cat([cache.states[name], x], dim=-1)
    cache.states[name] = whole[..., -(conv.weight.shape[-1] - 1):]
    return F.conv1d(whole, conv.weight, conv.bias, groups=conv.weight.shape[0])


def first(*values):
    return [v.transpose(0, 1).contiguous() for v in values]


# --- LFM2: gated short convolutions ---

def lfm2_conv(self, hidden_states, past_key_values=None, cache_position=None, attention_mask=None):
    b, c, x = self.in_proj(hidden_states).transpose(-1, -2).chunk(3, dim=-2)
    y = c * short_conv(past_key_values, f"conv.{self.layer_idx}", b * x, self.conv)
    return self.out_proj(y.transpose(-1, -2))


def lfm2():
    from transformers.models.lfm2 import modeling_lfm2 as m
    m.Lfm2ShortConv.forward = lfm2_conv
    cfg = T.Lfm2Config(**GROUPED, layer_types=["conv", "full_attention"], conv_L_cache=3)
    return T.Lfm2ForCausalLM, cfg, {"conv.0": (1, D, 2), **key_values(1)}


# --- Mamba 2 and Falcon-H1: state space ---

def ssm_turn(h, x):
    """mamba2's step of one token: h [b, heads, head, n]."""
    xs, decay, weigh, b, c = x
    h = h * decay[..., None, None] + (xs * weigh[..., None])[..., None] * b.unsqueeze(-2)
    return h, (h * c.unsqueeze(-2)).sum(-1)


def ssm(self, cache, mixed, dt):
    """After the projection: convolution, then a turn of a scan for each token."""
    batch, step, _ = dt.shape
    mixed = self.act(short_conv(cache, f"conv.{self.layer_idx}", mixed.transpose(1, 2), self.conv1d)).transpose(1, 2)
    x, b, c = torch.split(mixed, [self.intermediate_size, self.n_groups * self.ssm_state_size, self.n_groups * self.ssm_state_size], dim=-1)
    dt = torch.clamp(F.softplus(dt + self.dt_bias), self.time_step_limit[0], self.time_step_limit[1])
    x = x.reshape(batch, step, self.num_heads, self.head_dim)
    b, c = (v.reshape(batch, step, self.n_groups, -1).repeat_interleave(self.num_heads // self.n_groups, dim=2) for v in (b, c))
    decay = torch.exp(-torch.exp(self.A_log.float()) * dt)
    cache.states[f"ssm.{self.layer_idx}"], y = scan(ssm_turn, cache.states[f"ssm.{self.layer_idx}"], first(x, decay, dt, b, c))
    y = y.transpose(0, 1) + x * self.D[..., None]
    return y.reshape(batch, step, -1)


def mamba2_mixer(self, hidden_states, cache_params=None, cache_position=None, attention_mask=None):
    gate, mixed, dt = self.in_proj(hidden_states).split([self.intermediate_size, self.conv_dim, self.num_heads], dim=-1)
    return self.out_proj(self.norm(ssm(self, cache_params, mixed, dt), gate))


def mamba2():
    from transformers.models.mamba2 import modeling_mamba2 as m
    m.Mamba2Mixer.forward = mamba2_mixer
    more = {k: v for k, v in SMALL.items() if k not in ("intermediate_size", "max_position_embeddings")}
    cfg = T.Mamba2Config(**more, num_heads=8, head_dim=8, state_size=8, n_groups=2, conv_kernel=4, expand=2, tie_word_embeddings=False)
    states = {}
    for layer in range(2):
        states |= {f"conv.{layer}": (1, 64 + 2 * 2 * 8, 3), f"ssm.{layer}": (1, 8, 8, 8)}
    return T.Mamba2ForCausalLM, cfg, states


def falcon_mixer(self, hidden_states, cache_params=None, cache_position=None, attention_mask=None):
    gate, mixed, dt = (self.in_proj(hidden_states * self.ssm_in_multiplier) * self.mup_vector).split(
        [self.intermediate_size, self.conv_dim, self.num_heads], dim=-1)
    y = ssm(self, cache_params, mixed, dt)
    return self.out_proj(self.norm(y, gate) if self.mamba_rms_norm else y * F.silu(gate))


def falcon_h1():
    from transformers.models.falcon_h1 import modeling_falcon_h1 as m
    m.FalconH1Mixer.forward = falcon_mixer
    m.FalconH1Model._update_causal_mask = lambda self, mask, *a, **k: mask
    m.FalconH1Model._update_mamba_mask = lambda self, *a: None
    cfg = T.FalconH1Config(**GROUPED, head_dim=HEAD, mamba_d_ssm=64, mamba_n_heads=8, mamba_d_head=8, mamba_n_groups=2, mamba_d_state=8,
                           mamba_d_conv=4)
    states = {}
    for layer in range(2):
        states |= {f"conv.{layer}": (1, 64 + 2 * 2 * 8, 3), f"ssm.{layer}": (1, 8, 8, 8), **key_values(layer)}
    return T.FalconH1ForCausalLM, cfg, states


# --- Qwen3-Next: the gated delta rule ---

def delta_turn(h, x):
    """torch_recurrent_gated_delta_rule's step of one token: h [b, heads, k, v]."""
    q, k, v, g, beta = x
    h = h * g.exp()[..., None, None]
    delta = (v - (h * k.unsqueeze(-1)).sum(dim=-2)) * beta.unsqueeze(-1)
    h = h + k.unsqueeze(-1) * delta.unsqueeze(-2)
    return h, (h * q.unsqueeze(-1)).sum(dim=-2)


def delta_net(self, hidden_states, cache_params=None, cache_position=None, attention_mask=None):
    from transformers.models.qwen3_next.modeling_qwen3_next import l2norm
    batch, step, _ = hidden_states.shape
    q, k, v, z, b, a = self.fix_query_key_value_ordering(self.in_proj_qkvz(hidden_states), self.in_proj_ba(hidden_states))
    mixed = torch.cat([x.reshape(batch, step, -1) for x in (q, k, v)], dim=-1).transpose(1, 2)
    mixed = F.silu(short_conv(cache_params, f"conv.{self.layer_idx}", mixed, self.conv1d)).transpose(1, 2)
    q, k, v = torch.split(mixed, [self.key_dim, self.key_dim, self.value_dim], dim=-1)
    q, k = (l2norm(x.reshape(batch, step, -1, self.head_k_dim), dim=-1, eps=1e-6) for x in (q, k))
    q, k = (x.repeat_interleave(self.num_v_heads // self.num_k_heads, dim=2) for x in (q * self.head_k_dim ** -0.5, k))
    v = v.reshape(batch, step, -1, self.head_v_dim)
    g = -self.A_log.float().exp() * F.softplus(a.float() + self.dt_bias)
    name = f"recurrent.{self.layer_idx}"
    cache_params.states[name], y = scan(delta_turn, cache_params.states[name], first(q, k, v, g, b.sigmoid()))
    y = self.norm(y.transpose(0, 1).reshape(-1, self.head_v_dim), z.reshape(-1, z.shape[-1]))
    return self.out_proj(y.reshape(batch, step, -1))


def qwen3_next():
    from transformers.models.qwen3_next import modeling_qwen3_next as m
    m.Qwen3NextGatedDeltaNet.forward = delta_net
    m.Qwen3NextModel._update_linear_attn_mask = lambda self, *a: None
    cfg = T.Qwen3NextConfig(**GROUPED, head_dim=HEAD, layer_types=["linear_attention", "full_attention"], linear_conv_kernel_dim=4,
                            linear_key_head_dim=8, linear_value_head_dim=8, linear_num_key_heads=2, linear_num_value_heads=4,
                            mlp_only_layers=[0, 1])
    return T.Qwen3NextForCausalLM, cfg, {"conv.0": (1, 64, 3), "recurrent.0": (1, 4, 8, 8), **key_values(1)}


def key_values(layer):
    return {f"key_values.{layer}.{n}": (1, KV, PAST, HEAD) for n in ("key", "value")}


class Decoder(torch.nn.Module):
    def __init__(self, model, names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, input_ids, states):
        cache = States(zip(self.names, states))
        past, step = cache.get_seq_length(), input_ids.shape[1]
        if any(n.startswith("key_values") for n in self.names):
            at = torch.arange(step) + past
            out = self.model(input_ids, attention_mask=causal(step, past), past_key_values=cache, use_cache=True, cache_position=at,
                             position_ids=at.unsqueeze(0))
        else:
            out = self.model(input_ids, cache_params=cache, use_cache=True, cache_position=torch.arange(step))
        return out.logits, *(cache.states[n] for n in self.names)


def lively(model, seed):
    """Weights of a size that leaves no near-ties, on a grid, so that they compress."""
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            n = torch.randint(-7, 8, p.shape, generator=g).to(p.dtype)
            if p.dim() > 1:
                p.copy_(n / 4 / max(1, p[0].numel()) ** 0.5 * (3 if "embed" in name or "lm_head" in name else 1))
            elif "A_log" not in name and "dt_bias" not in name:
                p.copy_(n / 32 + (1 if "norm" in name or name.endswith(".D") else 0))
    return model.eval()


MODELS = {"lfm2": (lfm2, 1), "mamba2": (mamba2, 2), "falcon_h1": (falcon_h1, 3), "qwen3_next": (qwen3_next, 4)}


def write(name, folder):
    build, seed = MODELS[name]
    kind, cfg, states = build()
    cfg._attn_implementation = "eager"
    torch.manual_seed(seed)
    model = Decoder(lively(kind(cfg), seed), list(states))
    dynamic = torch.export.Dim.DYNAMIC
    args = (torch.randint(3, VOCAB, (1, 5)), [torch.randn(s) * 0.1 for s in states.values()])
    shapes = ({1: dynamic}, [{2: dynamic} if n.startswith("key_values") else None for n in states])
    with torch.no_grad():
        model(*args)
        folder.mkdir(parents=True, exist_ok=True)
        torch.onnx.export(model, args, folder / "model.onnx", input_names=["input_ids"] + [f"past_{n}" for n in states],
                          output_names=["logits"] + [f"present_{n}" if "key" not in n else n.replace("key_values", "present") for n in states],
                          dynamic_shapes=shapes, dynamo=True, external_data=False)
    m = onnx.load(folder / "model.onnx")
    strip(m.graph)
    onnx.save(m, folder / "model.onnx")


def strip(graph):
    """What torch notes of its own source in each node is most of a file."""
    del graph.metadata_props[:], graph.value_info[:]
    for x in [*graph.node, *graph.input, *graph.output, *graph.initializer]:
        del x.metadata_props[:]
        x.ClearField("doc_string")
    for a in (a for n in graph.node for a in n.attribute if a.type == onnx.AttributeProto.GRAPH):
        strip(a.g)


def main():
    for name in sys.argv[2:] or MODELS:
        write(name, pathlib.Path(sys.argv[1]) / name)
        print(f"{name}: made", flush=True)


if __name__ == "__main__":
    main()
