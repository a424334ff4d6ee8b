"""The programs of the gallery, as their pages show them."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F


def softmax(x):
    return torch.softmax(x, dim=-1)


def layer_norm(x, weight, bias):
    return F.layer_norm(x, (x.shape[-1],), weight, bias)


def linear_gelu(x, weight, bias):
    return F.gelu(x @ weight + bias)


def printing(x, weight):
    hidden = torch.relu(x @ weight)
    print("hidden:", hidden.shape)
    return torch.softmax(hidden, dim=-1)


def scaled(x, factor):
    return torch.relu(x) * factor + x.shape[0]


def attention(q, k, v):
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    return torch.softmax(scores, dim=-1) @ v


class DropoutBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(128, 128)

    def forward(self, x):
        hidden = torch.relu(self.linear(x))
        return F.dropout(hidden, 0.1) + x


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, padding=1)
        self.norm = nn.BatchNorm2d(16)
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        x = F.relu(self.norm(self.conv(x)))
        x = F.max_pool2d(x, 2)
        return self.head(x.mean((2, 3)))
