"""Qwen2.5-VL in plain PyTorch, written for one figure size and no more passes than needed: the fast peer.

Same weights, same arithmetic as timeseer's policy: projections of queries, keys and values in one product, gate and up in
one, windows of equal length as one batch, the last layer and the head only where a token is predicted. Shapes: B rows,
T positions, L patches, K predicted tokens, D width, H heads, d width of a head.
"""

import glob
import json
import os

import torch
import torch.nn.functional as F
from safetensors.torch import load_file

EPSILON = 1e-6


def _angles(position, theta, quarter):
    return position[:, None].float() * theta ** (-torch.arange(quarter).float() / quarter)


def _rotate(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


class Lean:
    def __init__(self, directory, device="cpu"):
        config = json.load(open(os.path.join(directory, "config.json")))
        self.device = device
        self.text, self.sight = config["text_config"], config["vision_config"]
        self.image = config["image_token_id"]
        raw = {}
        for file in sorted(glob.glob(os.path.join(directory, "*.safetensors"))):
            raw.update(load_file(file))
        self.parameters = []
        text, sight = self.text, self.sight

        def leaf(*names, shape=None):
            whole = torch.cat([raw[name] for name in names]).to(device)
            parameter = (whole if shape is None else whole.reshape(shape)).clone().requires_grad_()
            self.parameters.append(parameter)
            return parameter

        self.embed = leaf("model.embed_tokens.weight")
        self.layers = []
        for i in range(text["num_hidden_layers"]):
            at = f"model.layers.{i}."
            heads = [f"{at}self_attn.{part}_proj." for part in "qkv"]
            self.layers.append((
                leaf(at + "input_layernorm.weight"),
                leaf(*[name + "weight" for name in heads]),
                leaf(*[name + "bias" for name in heads]),
                leaf(at + "self_attn.o_proj.weight"),
                leaf(at + "post_attention_layernorm.weight"),
                leaf(at + "mlp.gate_proj.weight", at + "mlp.up_proj.weight"),
                leaf(at + "mlp.down_proj.weight"),
            ))
        self.norm = leaf("model.norm.weight")
        assert config["tie_word_embeddings"]
        self.patch = leaf("visual.patch_embed.proj.weight", shape=(sight["hidden_size"], 3, 2, -1))
        self.blocks = []
        for i in range(sight["depth"]):
            at = f"visual.blocks.{i}."
            self.blocks.append((
                leaf(at + "norm1.weight"), leaf(at + "attn.qkv.weight"), leaf(at + "attn.qkv.bias"),
                leaf(at + "attn.proj.weight"), leaf(at + "attn.proj.bias"), leaf(at + "norm2.weight"),
                leaf(at + "mlp.gate_proj.weight", at + "mlp.up_proj.weight"),
                leaf(at + "mlp.gate_proj.bias", at + "mlp.up_proj.bias"),
                leaf(at + "mlp.down_proj.weight"), leaf(at + "mlp.down_proj.bias"),
            ))
        self.merger = [leaf("visual.merger." + name) for name in
                       ("ln_q.weight", "mlp.0.weight", "mlp.0.bias", "mlp.2.weight", "mlp.2.bias")]
        self._tables = {}

    # ---- vision ------------------------------------------------------------------------------------------------------

    def _vision_tables(self, rows, columns):
        """cos and sin [L, d] of one row of merged tokens, in blocks of 2 × 2 patches."""
        key = (rows, columns)
        if key not in self._tables:
            assert rows == 2, "a picture of one row of merged tokens"
            width = self.sight["hidden_size"] // self.sight["num_heads"]
            place = torch.arange(rows * columns)
            y, x = place % 4 // 2, place // 4 * 2 + place % 2
            angles = torch.cat([_angles(p, 10000.0, width // 4) for p in (y, x)], -1)
            angles = torch.cat((angles, angles), -1).to(self.device)
            self._tables[key] = angles.cos(), angles.sin()
        return self._tables[key]

    def encode(self, patches, grid):
        """Patches [B, L, 3·p²] → visual tokens [B · L / 4, D]."""
        batch, count, pixels = patches.shape
        width, heads = self.sight["hidden_size"], self.sight["num_heads"]
        window = self.sight["window_size"] // self.sight["patch_size"] * 2  # patches: the picture is two of them high
        assert count % window == 0, "windows of equal length"
        cos, sin = self._vision_tables(*grid[1:])
        x = F.linear(patches, self.patch.sum(2).reshape(width, pixels))  # [B, L, W]
        for i, (norm1, qkv, qkv_bias, o, o_bias, norm2, gate_up, gate_up_bias, down, down_bias) in enumerate(self.blocks):
            parts = F.linear(F.rms_norm(x, (width,), norm1, EPSILON), qkv, qkv_bias)
            query_key, value = parts.view(batch, count, 3 * heads, -1).split((2 * heads, heads), 2)
            query_key = _rotate(query_key, cos[:, None], sin[:, None])
            length = count if i in self.sight["fullatt_block_indexes"] else window

            def cut(t):
                return t.reshape(batch * count // length, length, -1, width // heads).transpose(1, 2)

            query, key = cut(query_key).split((heads, heads), 1)
            mixed = F.scaled_dot_product_attention(query, key, cut(value)).transpose(1, 2)
            x = x + F.linear(mixed.reshape(batch, count, width), o, o_bias)
            gate, up = F.linear(F.rms_norm(x, (width,), norm2, EPSILON), gate_up, gate_up_bias).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, down, down_bias)
        norm, first, first_bias, second, second_bias = self.merger
        joined = F.rms_norm(x, (width,), norm, EPSILON).view(batch * count // 4, 4 * width)
        return F.linear(F.gelu(F.linear(joined, first, first_bias)), second, second_bias)

    # ---- language ----------------------------------------------------------------------------------------------------

    def tables(self, positions):
        """Positions [3, B, T] → cos and sin [B, T, 1, d]."""
        width = self.text["hidden_size"] // self.text["num_attention_heads"]
        rope = self.text["rope_parameters"]
        half = width // 2
        angles = positions[..., None].float() * (rope["rope_theta"] ** (-torch.arange(half, device=self.device).float() / half))
        angles = torch.cat([part[i] for i, part in enumerate(angles.split(rope["mrope_section"], -1))], -1)
        angles = torch.cat((angles, angles), -1)[:, :, None]
        return angles.cos(), angles.sin()

    def embedded(self, tokens, patches, grid):
        """Embeddings of tokens [B, T] with the visual tokens in their places: [B, T, D]."""
        x = F.embedding(tokens, self.embed).flatten(0, 1)
        places = (tokens.flatten() == self.image).nonzero()[:, 0]
        return x.index_copy(0, places, self.encode(patches, grid)).view(*tokens.shape, -1)

    def decode(self, x, cos, sin, cache=None, used=0, rows=None):
        """x [B, T, D] → states after the final norm [B · T or K, D]; a cache [B, Hkv, S, d] per layer is written in place."""
        batch, length, width = x.shape
        heads, kv = self.text["num_attention_heads"], self.text["num_key_value_heads"]
        for i, (norm1, qkv, qkv_bias, o, norm2, gate_up, down) in enumerate(self.layers):
            parts = F.linear(F.rms_norm(x, (width,), norm1, EPSILON), qkv, qkv_bias).view(batch, length, heads + 2 * kv, -1)
            query_key, value = parts.split((heads + kv, kv), 2)
            query, key = _rotate(query_key, cos, sin).transpose(1, 2).split((heads, kv), 1)
            value = value.transpose(1, 2)
            if cache is not None:
                keys, values = cache[i]
                keys[:, :, used:used + length], values[:, :, used:used + length] = key, value
                key, value = keys[:, :, :used + length], values[:, :, :used + length]
            if length == 1:
                # One query each: heads that share keys are queries of one product.
                grouped = query.reshape(batch, kv, heads // kv, -1)
                mixed = F.scaled_dot_product_attention(grouped, key, value).reshape(batch, 1, -1)
            else:
                key, value = (t.repeat_interleave(heads // kv, 1) for t in (key, value))
                mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True).transpose(1, 2).reshape(batch, length, -1)
            if rows is not None and i == len(self.layers) - 1:
                mixed, x = mixed.reshape(-1, mixed.shape[-1])[rows], x.reshape(-1, width)[rows]
            x = x + F.linear(mixed, o)
            gate, up = F.linear(F.rms_norm(x, (width,), norm2, EPSILON), gate_up).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, down)
        return F.rms_norm(x, (width,), self.norm, EPSILON).reshape(-1, width)
