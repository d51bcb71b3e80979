"""The file of examples that timeseer writes for its peers."""

import torch
from safetensors.torch import load_file


class Examples:
    """tokens [N, T], positions [3, N, T], prompt and total lengths [N], patches [N, L, 3·p²], forbidden [V]."""

    def __init__(self, file, device="cpu"):
        raw = load_file(file)
        self.tokens, self.positions = raw["tokens"].long(), raw["positions"].long()
        self.prompt, self.total = raw["prompt"].long().tolist(), raw["total"].long().tolist()
        self.patches = raw["patches"].to(device)
        self.grid = raw["grid"].long().tolist()
        self.forbidden = raw["forbidden"].to(device)
        self.draws = raw["draws"].to(device) if "draws" in raw else None  # [N · samples, steps]
        self.device = device

    def pixels(self, start, end):
        """As transformers takes them: both frames of a still image are equal, [N · L, 3 · 2 · p²]."""
        own = self.patches[start:end]
        frames = own.view(own.shape[0] * own.shape[1], 3, 1, -1).expand(-1, 3, 2, -1)
        return frames.flatten(1), torch.tensor([self.grid] * (end - start), device=self.device)
