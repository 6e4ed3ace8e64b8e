"""Writes curves.txt beside it: the losses of whole trainings in PyTorch, step by step.

    .venv/bin/python tests/golden/make_curves.py

A line "curve NAME" begins one. "param NAME NUMBER" follows for each parameter with more than one axis, which begins as
`spread` of its number times 0.4; biases begin as zeros, other parameters as ones. Then "losses VALUES", one for each
step. tests/model/test_curves.c says the same trainings in hodu's words.
"""
import math
import os

import numpy as np
import torch
from torch import nn

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)
STEPS = 60
out = open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "curves.txt"), "w")
out.write(f"# PyTorch {torch.__version__.split('+')[0]}, by make_curves.py\n")


def mixed(which, count):
    h = np.arange(count, dtype=np.uint32) * np.uint32(0x9E3779B1) + np.uint32(which * 0x85EBCA77 & 0xFFFFFFFF)
    h = (h ^ h >> np.uint32(15)) * np.uint32(0x2C1B3C6D)
    return h ^ h >> np.uint32(12)


def spread(which, *shape):
    return torch.from_numpy(mixed(which, math.prod(shape)) / 2.0**31 - 1).reshape(shape)


def whole(which, below, *shape):
    return torch.from_numpy(mixed(which, math.prod(shape)) % below).long().reshape(shape)


def begin(name, model, rename=lambda n: n):
    print("curve", name, file=out)
    for number, (theirs, p) in enumerate(model.named_parameters()):
        with torch.no_grad():
            if p.dim() > 1:
                print("param", rename(theirs), number, file=out)
                p.copy_(spread(number, *p.shape) * 0.4)
            else:
                p.fill_(0 if "bias" in theirs else 1)


def losses(step):
    values = [step(i) for i in range(STEPS)]
    assert values[-1] < values[0] / 2, values
    print("losses", *(repr(v) for v in values), file=out)


# ---- a convolutional network: batch norm, label smoothing, clipped gradients, AdamW that warms up and falls along a cosine ----
model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
                      nn.Conv2d(4, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.Flatten(), nn.Linear(54, 4))
begin("images", model)
images, labels = spread(50, 32, 1, 6, 6), whole(51, 4, 32)
adam = torch.optim.AdamW(model.parameters(), 0.01, weight_decay=0.1)
S = torch.optim.lr_scheduler
rates = S.SequentialLR(adam, [S.LinearLR(adam, 0.1, 1, 6), S.CosineAnnealingLR(adam, STEPS - 6)], [6])


def step(i):
    some = slice(i % 4 * 8, i % 4 * 8 + 8)
    adam.zero_grad()
    loss = nn.functional.cross_entropy(model(images[some]), labels[some], label_smoothing=0.05)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    adam.step()
    rates.step()
    return loss.item()


losses(step)


# ---- a GRU over sequences of several lengths, RMSprop, a rate that falls in steps ----
class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.gru, self.head = nn.Embedding(9, 5), nn.GRU(5, 6, bidirectional=True, batch_first=True), nn.Linear(12, 3)

    def forward(self, words, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(self.words(words), lengths, batch_first=True, enforce_sorted=False)
        state = self.gru(packed)[1]
        return self.head(torch.cat([state[0], state[1]], -1))


model = Reader()
begin("sequences", model)
words, lengths, classes = whole(52, 9, 12, 7), 1 + whole(53, 7, 12), whole(54, 3, 12)
prop = torch.optim.RMSprop(model.parameters(), 0.01, momentum=0.5)
rates = S.StepLR(prop, 20, 0.5)


def step(i):
    prop.zero_grad()
    loss = nn.functional.cross_entropy(model(words, lengths), classes)
    loss.backward()
    prop.step()
    rates.step()
    return loss.item()


losses(step)


# ---- a transformer that says the next token; gradients of two halves add up; one cycle ----
class Speaker(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0, activation="gelu", batch_first=True, norm_first=True)
        self.words, self.layers, self.head = nn.Embedding(7, 8), nn.TransformerEncoder(layer, 2, nn.LayerNorm(8)), nn.Linear(8, 7)

    def forward(self, words):
        hidden = nn.Transformer.generate_square_subsequent_mask(words.shape[1])
        return self.head(self.layers(self.words(words), mask=hidden, is_causal=True))


model = Speaker()
begin("tokens", model, lambda n: n.replace("in_proj_", "in.").replace("out_proj.", "out."))
text = whole(55, 7, 8, 6)
adam = torch.optim.Adam(model.parameters(), 0.01)
rates = S.OneCycleLR(adam, 0.02, STEPS, cycle_momentum=False)


def step(i):
    adam.zero_grad()
    total = 0
    for half in (text[:4], text[4:]):
        loss = nn.functional.cross_entropy(model(half[:, :-1]).flatten(0, 1), half[:, 1:].flatten()) / 2
        loss.backward()
        total += loss.item()
    adam.step()
    if i < STEPS - 1:
        rates.step()
    return total


losses(step)
out.close()
