"""Models of today in PyTorch, as fast as PyTorch has them: attention is F.scaled_dot_product_attention, and q, k and v are one projection."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class SelfAttention(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.c_attn(x).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.c_proj(y.transpose(1, 2).reshape(b, t, c))


class TransformerBlock(nn.Module):
    def __init__(self, width, heads, causal, approximate, epsilon):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width, epsilon), nn.LayerNorm(width, epsilon)
        self.attn = SelfAttention(width, heads, causal)
        self.c_fc, self.c_proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.approximate = approximate

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.c_proj(F.gelu(self.c_fc(self.ln_2(x)), approximate=self.approximate))


class GPT(nn.Module):
    """GPT-2 with its head tied to the table of tokens: (B,T) to logits (B,T,vocabulary)."""

    def __init__(self, layers, heads, width, positions, vocabulary, approximate):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)
        self.blocks = nn.Sequential(*(TransformerBlock(width, heads, True, approximate, 1e-5) for _ in range(layers)))
        self.ln_f = nn.LayerNorm(width)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                nn.init.normal_(p, 0, 0.02 / math.sqrt(2 * layers) if "c_proj" in name else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]
        return F.linear(self.ln_f(self.blocks(x)), self.wte.weight)


class ViT(nn.Module):
    def __init__(self, layers, heads, width, patch, size, classes):
        super().__init__()
        self.conv_proj = nn.Conv2d(3, width, patch, patch)
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.randn(1, 1 + (size // patch) ** 2, width) * 0.02)
        self.blocks = nn.Sequential(*(TransformerBlock(width, heads, False, "none", 1e-6) for _ in range(layers)))
        self.ln, self.head = nn.LayerNorm(width, 1e-6), nn.Linear(width, classes)

    def forward(self, images):
        x = self.conv_proj(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], 1) + self.positions
        return self.head(self.ln(self.blocks(x)[:, 0]))


class LSTMClassifier(nn.Module):
    def __init__(self, width, hidden, classes):
        super().__init__()
        self.lstm, self.fc = nn.LSTM(width, hidden, batch_first=True), nn.Linear(hidden, classes)

    def forward(self, x):
        _, (h, _) = self.lstm(x)
        return self.fc(h[-1])


class Attention(nn.Module):
    """Causal attention alone, over parameters; what it is given is the number type alone."""

    def __init__(self, batch, heads, length, size, fused, dtype):
        super().__init__()
        self.q, self.k, self.v = (nn.Parameter(torch.randn(batch, length, heads, size, dtype=dtype)) for _ in range(3))
        self.fused = fused
        if not fused:
            self.mask = torch.full((length, length), -math.inf, dtype=dtype).triu(1)

    def forward(self):
        q, k, v = (x.transpose(1, 2) for x in (self.q, self.k, self.v))
        if self.fused:
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[-1]) + self.mask
        return scores.softmax(-1) @ v
